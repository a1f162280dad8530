"""Attack: many connections that send next to nothing, and stay."""

import gc
import socket
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from ipaddress import ip_network

import anyio
import h11
import httpx2
import pytest
import uvicorn
from anyio.abc import SocketAttribute, SocketStream
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import RequestResponseCycle

from nextcloud_mcp_server.web.connections import ConnectionLimits, LimitedConnection, server_config
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from tests.integration.personal_app import until

SOON = 0.2
HEAD = b"POST /read HTTP/1.1\r\nHost: mcp.test\r\n"
#: Its answer goes on and on.
STREAM = b"GET /stream HTTP/1.1\r\nHost: mcp.test\r\n\r\n"


async def read(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def ignore(_: Request) -> Response:
    return PlainTextResponse("not read")


async def hold(_: Request) -> Response:
    """Answer late, as a refusal does, also if the client has gone."""
    await anyio.sleep(10 * SOON)
    return PlainTextResponse("late")


async def stream(_: Request) -> Response:
    async def beats() -> AsyncGenerator[bytes]:
        while True:
            yield b"beat"
            await anyio.sleep(SOON / 4)

    return StreamingResponse(beats())


@asynccontextmanager
async def serving(limits: ConnectionLimits, *, body_seconds: float = SOON) -> AsyncGenerator[int]:
    """Serve on a real socket, with these limits, an application behind the guard of every mode."""
    config = WebConfig(
        allowed_hosts=frozenset({"mcp.test"}),
        allowed_origins=frozenset(),
        bearer_secret=None,
        secure_cookies=False,
        body_seconds=body_seconds,
        refuse_forwarded=False,
    )
    routes = [Route("/read", read, methods=["GET", "POST"]), Route("/ignore", ignore, methods=["POST"])]
    routes += [Route("/stream", stream), Route("/hold", hold, methods=["POST"])]
    server = uvicorn.Server(server_config(guard(Starlette(routes=routes), config), limits))
    stopped = anyio.Event()

    async def serve() -> None:
        try:
            await server.serve(sockets=[listener])
        finally:
            stopped.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            await until(lambda: server.started)
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True
                # A test that fails must not cancel the server: the event loop would go on to watch its socket, and
                # the server of the next test, whose socket gets the same number, would accept nothing.
                with anyio.CancelScope(shield=True):
                    await stopped.wait()


async def until_closed(stream: SocketStream, *, dribble: bytes = b"") -> bytes:
    """Read to the end of a connection, and send a byte every now and then meanwhile."""
    answer = b""
    try:
        with anyio.fail_after(60):
            while True:
                with anyio.move_on_after(SOON / 4):
                    answer += await stream.receive()
                if dribble:
                    await stream.send(dribble)
    except (anyio.EndOfStream, anyio.BrokenResourceError, ConnectionError):
        return answer


@pytest.mark.parametrize("dribble", [b"", b"x"], ids=["silent", "a byte now and then"])
@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", b""),
        (HEAD + b"X-Slow: ", b""),
        (HEAD + b"Content-Length: 0\r\n\r\n" + HEAD + b"X-Slow: ", b"200 OK"),
        (HEAD + b"Content-Length: 1000000\r\n\r\n", b"408 "),
        (HEAD.replace(b"/read", b"/ignore") + b"Content-Length: 1000000\r\n\r\n", b"not read"),
    ],
    ids=["no byte", "headers", "second headers", "body", "body of an answered request"],
)
async def test_a_request_that_does_not_arrive_in_time_ends_its_connection(
    sent: bytes, answered: bytes, dribble: bytes
) -> None:
    async with (
        serving(ConnectionLimits(header_seconds=SOON)) as port,
        await anyio.connect_tcp("127.0.0.1", port) as stream,
    ):
        await stream.send(sent)
        answer = await until_closed(stream, dribble=dribble if sent else b"")

    assert answered in answer


async def test_a_connection_that_was_reset_after_its_answer_is_not_kept() -> None:
    limits = ConnectionLimits()
    # The kernel resets it when it is closed, in place of the usual end.
    reset = struct.pack("ii", 1, 0)

    def kept() -> int:
        gc.collect()
        return sum(isinstance(one, LimitedConnection) and one.limits is limits for one in gc.get_objects())

    async with serving(limits) as port:
        for _ in range(3):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(HEAD + b"Content-Length: 0\r\n\r\n")
                assert b"200 OK" in await stream.receive()
                stream.extra(SocketAttribute.raw_socket).setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, reset
                )

        await until(lambda: not limits.open)
        await until(lambda: not kept())


async def test_a_connection_that_was_reset_before_it_was_accepted_makes_no_work() -> None:
    """The system knows its address no longer, so it would count for no network; but its request can still be read."""
    asked: list[str] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["type"])
        await PlainTextResponse("read")(scope, receive, send)

    server = uvicorn.Server(server_config(note, ConnectionLimits(), lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(5):
            early = socket.create_connection(listener.getsockname())
            early.sendall(HEAD + b"Content-Length: 0\r\n\r\n")
            early.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            early.close()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: server.serve(sockets=[listener]))
            await until(lambda: server.started)
            async with await anyio.connect_tcp(*listener.getsockname()) as later:
                await later.send(HEAD + b"Content-Length: 0\r\n\r\n")
                assert b"200 OK" in await later.receive()
            server.should_exit = True

    assert asked == ["http"]


async def test_requests_whose_connections_were_reset_count_until_they_end() -> None:
    """A client that resets each connection could have thousands of requests at work: others waited ten seconds."""
    limits = ConnectionLimits(most_of_network=3)
    reset = struct.pack("ii", 1, 0)

    async with serving(limits) as port:
        for _ in range(3):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(HEAD.replace(b"/read", b"/hold") + b"Content-Length: 0\r\n\r\n")
                await until(lambda: not any(each.silent for each in limits.open.values()))
                stream.extra(SocketAttribute.raw_socket).setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, reset
                )
        async with await anyio.connect_tcp("127.0.0.1", port) as fourth:
            with suppress(anyio.BrokenResourceError):
                await fourth.send(HEAD + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
            refused = await until_closed(fourth)
        await until(lambda: not limits.open)
        async with await anyio.connect_tcp("127.0.0.1", port) as later:
            await later.send(HEAD + b"Content-Length: 0\r\n\r\n")
            answered = await later.receive()

    assert refused == b""
    assert b"200 OK" in answered


async def test_hundreds_of_slow_sockets_are_gone_soon_and_others_are_served_meanwhile() -> None:
    ended = 0
    answers: list[int] = []

    async def stall(port: int) -> None:
        nonlocal ended
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(HEAD)
            await until_closed(stream)
            ended += 1

    async with (
        # The client shares the event loop with all of them, and must not be slow itself.
        serving(ConnectionLimits(header_seconds=5, most_of_network=1000)) as port,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers={"Host": "mcp.test"}) as http,
        anyio.create_task_group() as group,
    ):
        for _ in range(300):
            group.start_soon(stall, port)
        answers += [(await http.get("/read")).status_code for _ in range(10)]

    assert (ended, set(answers)) == (300, {200})


@pytest.mark.parametrize(
    ("limits", "lets_in"),
    [
        (lambda: ConnectionLimits(most_of_network=2), False),
        (lambda: ConnectionLimits(most_of_network=2, proxies=[ip_network("127.0.0.0/8")]), True),
    ],
    ids=["a stranger", "the operator's proxy"],
)
async def test_one_network_holds_so_many_connections(
    limits: Callable[[], ConnectionLimits], *, lets_in: bool
) -> None:
    made = limits()
    async with serving(made) as port:
        async with (
            await anyio.connect_tcp("127.0.0.1", port) as one,
            await anyio.connect_tcp("127.0.0.1", port) as other,
        ):
            for stream in (one, other):
                await stream.send(STREAM)
                assert b"200 OK" in await stream.receive()
            third = await _is_served(port)
        await until(lambda: not made.open)
        afterwards = await _is_served(port)

    assert (third, afterwards) == (lets_in, True)


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", b""),
        (HEAD + b"X-Slow: ", b""),
        (HEAD + b"Content-Length: 0\r\n\r\n", b"200 OK"),
        (HEAD + b"Content-Length: 0\r\n\r\n" + HEAD + b"X-Slow: ", b"200 OK"),
        (HEAD.replace(b"/read", b"/ignore") + b"Content-Length: 1000000\r\n\r\n", b"not read"),
    ],
    ids=["no byte", "headers", "idle", "second headers", "body of an answered request"],
)
async def test_connections_that_wait_for_a_request_give_way_to_new_ones(sent: bytes, answered: bytes) -> None:
    made = ConnectionLimits(most_of_network=2)
    async with (
        serving(made) as port,
        await anyio.connect_tcp("127.0.0.1", port) as busy,
        await anyio.connect_tcp("127.0.0.1", port) as waiting,
    ):
        await busy.send(STREAM)
        assert b"200 OK" in await busy.receive()
        if sent:
            await waiting.send(sent)
        answer = await waiting.receive() if answered else b""

        served = await _is_served(port)
        answer += await until_closed(waiting)
        await busy.receive()
        kept = await busy.receive()

    assert (served, answered in answer, b"beat" in kept) == (True, True, True)


async def test_a_connection_without_any_request_gives_way_first_and_the_oldest_before_others() -> None:
    made = ConnectionLimits(most_of_network=3)
    ended: list[str] = []

    async def watch(name: str, stream: SocketStream) -> None:
        await until_closed(stream)
        ended.append(name)

    async with (
        serving(made) as port,
        await anyio.connect_tcp("127.0.0.1", port) as idle,
        await anyio.connect_tcp("127.0.0.1", port) as older,
        await anyio.connect_tcp("127.0.0.1", port) as newer,
        AsyncExitStack() as sockets,
        anyio.create_task_group() as group,
    ):
        await idle.send(HEAD + b"Content-Length: 0\r\n\r\n")
        assert b"200 OK" in await idle.receive()
        await until(lambda: sum(each.count for each in made.open.values()) == 3)
        for name, stream in {"idle": idle, "older": older, "newer": newer}.items():
            group.start_soon(watch, name, stream)
        for number in range(1, 4):
            # Each takes a place, and keeps it.
            held = await sockets.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
            await held.send(STREAM)
            assert b"200 OK" in await held.receive()
            await until(lambda number=number: len(ended) == number)
        group.cancel_scope.cancel()

    assert ended == ["older", "newer", "idle"]


async def test_connections_kept_after_an_answer_do_not_push_out_one_that_is_about_to_ask() -> None:
    """An attacker holds almost all places with answered requests, and then opens connections."""
    made = ConnectionLimits(most_of_network=4)
    async with serving(made) as port, AsyncExitStack() as sockets:
        for _ in range(3):
            kept = await sockets.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
            await kept.send(HEAD + b"Content-Length: 0\r\n\r\n")
            assert b"200 OK" in await kept.receive()
        asking = await sockets.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
        await until(lambda: sum(len(each.silent) for each in made.open.values()) == 1)
        # One more, which is in the place of another as soon as it is among those without a request.
        await sockets.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
        await until(lambda: sum(each.count for each in made.open.values()) == 4 and _newest_is_in(made))
        await asking.send(HEAD + b"Content-Length: 0\r\n\r\n")

        answer = await asking.receive()

    assert b"200 OK" in answer


def _newest_is_in(made: ConnectionLimits) -> bool:
    return sum(len(each.silent) + len(each.idle) for each in made.open.values()) == 4


async def test_hundreds_of_idle_sockets_of_a_local_user_leave_the_pages_available() -> None:
    async with serving(ConnectionLimits()) as port, AsyncExitStack() as sockets:
        for _ in range(400):
            await sockets.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
        served = [await _is_served(port) for _ in range(5)]

    assert served == [True] * 5


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 100000\r\n\r\n" + b" " * 60_000,
        b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 60_000,
    ],
)
async def test_nothing_is_kept_of_what_a_client_sent_that_has_gone(sent: bytes) -> None:
    """One token could open and close thousands of connections, whose requests wait to be refused."""
    head = b"POST /hold HTTP/1.1\r\nHost: mcp.test\r\n"
    async with serving(ConnectionLimits(), body_seconds=60) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as client:
            await client.send(head + sent)
            await until(lambda: _kept() >= 60_000)
        await until(lambda: not _kept(), seconds=5 * SOON)


def _kept() -> int:
    """Count the bytes of requests that are under way."""
    found = [each for each in gc.get_objects() if isinstance(each, RequestResponseCycle)]
    return sum(len(each.body) + len(each.conn.trailing_data[0]) for each in found)


def test_addresses_count_by_their_network() -> None:
    limits = ConnectionLimits(proxies=[ip_network("10.0.0.7/32")])

    assert limits.network("2001:db8::1") == limits.network("2001:db8::2") != limits.network("2001:db8:0:1::1")
    assert limits.network("::ffff:192.0.2.1") == limits.network("192.0.2.1") != limits.network("192.0.2.2")
    assert limits.network("::ffff:10.0.0.7") is limits.network("") is None


async def _is_served(port: int) -> bool:
    try:
        async with httpx2.AsyncClient(headers={"Host": "mcp.test"}) as http:
            return (await http.get(f"http://127.0.0.1:{port}/read")).status_code == 200
    except httpx2.TransportError:
        return False


def parser_errors(caplog: pytest.LogCaptureFixture) -> list[object]:
    errors = [record.exc_info[1] for record in caplog.records if record.exc_info]
    return [error for error in errors if isinstance(error, h11.ProtocolError)]


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 2_000,
        HEAD.replace(b"/read", b"/ignore") + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 2_000,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 200,
        HEAD + b"a: b\r\n" * 2_000 + b"\r\n",
        HEAD + b"Cookie: " + b"a=b; " * 4_000 + b"\r\n\r\n",
        HEAD + b"a:" + b" " * 50_000 + b"\0\r\n\r\n",
        HEAD.replace(b"/read", b"/read/" + b"%41" * 1_000) + b"\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 2_000 + b"\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1;" + b"e" * 60_000 + b"\r\nx\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1;" + b"e" * 90 + b"\r\nx\r\n") * 120,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0;" + b"e" * 60_000 + b"\r\n\r\n",
    ],
    ids=[
        "chunks of one byte",
        "chunks of an answered request",
        "a few hundred chunks",
        "headers",
        "cookies",
        "a header of white space",
        "an escaped path",
        "headers behind the body",
        "one long extension of a chunk",
        "extensions of many chunks",
        "an extension of the last chunk",
    ],
)
async def test_a_request_of_thousands_of_tiny_parts_is_refused_and_no_error_is_logged(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(ConnectionLimits()) as port,
        await anyio.connect_tcp("127.0.0.1", port) as stream,
    ):
        await stream.send(sent)
        answer = await until_closed(stream)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert not parser_errors(caplog)


async def test_the_refusal_says_what_is_wrong_with_the_request() -> None:
    body = b"1;" + b"e" * 60_000 + b"\r\nx\r\n"
    async with (
        serving(ConnectionLimits()) as port,
        await anyio.connect_tcp("127.0.0.1", port) as stream,
    ):
        await stream.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body)
        answer = await until_closed(stream)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"The chunks of the body have extensions that are too long." in answer


async def test_junk_behind_an_answer_ends_the_connection_without_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        serving(ConnectionLimits()) as port,
        await anyio.connect_tcp("127.0.0.1", port) as stream,
    ):
        await stream.send(HEAD.replace(b"/read", b"/ignore") + b"Transfer-Encoding: chunked\r\n\r\n")
        answer = await stream.receive()
        await stream.send(b"no chunk\r\n")
        await until_closed(stream)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert not parser_errors(caplog)


async def test_a_large_body_in_chunks_of_usual_size_is_read() -> None:
    short_extension = b"1;sha=" + b"e" * 4_000 + b"\r\nx\r\n"
    body = short_extension + (b"00000400\r\n" + b"x" * 1_024 + b"\r\n") * 4_000 + b"0\r\n\r\n"
    async with (
        serving(ConnectionLimits(), body_seconds=60) as port,
        await anyio.connect_tcp("127.0.0.1", port) as stream,
    ):
        await stream.send(HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        answer = await until_closed(stream)

    assert answer.endswith(b"4096001")
