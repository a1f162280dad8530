"""Attack: many connections that send next to nothing, and stay."""

import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network

import anyio
import httpx2
import pytest
import uvicorn
from anyio.abc import SocketStream
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nextcloud_mcp_server.web.connections import ConnectionLimits, server_config
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from tests.integration.personal_app import until

SOON = 0.2
HEAD = b"POST /read HTTP/1.1\r\nHost: mcp.test\r\n"


async def read(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def ignore(_: Request) -> Response:
    return PlainTextResponse("not read")


@asynccontextmanager
async def serving(limits: ConnectionLimits) -> AsyncGenerator[int]:
    """Serve on a real socket, with these limits, an application behind the guard of every mode."""
    config = WebConfig(
        allowed_hosts=frozenset({"mcp.test"}),
        allowed_origins=frozenset(),
        bearer_secret=None,
        secure_cookies=False,
        body_seconds=SOON,
        refuse_forwarded=False,
    )
    routes = [Route("/read", read, methods=["GET", "POST"]), Route("/ignore", ignore, methods=["POST"])]
    server = uvicorn.Server(server_config(guard(Starlette(routes=routes), config), limits))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: server.serve(sockets=[listener]))
            await until(lambda: server.started)
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True


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
        serving(ConnectionLimits(header_seconds=1, most_of_network=1000)) as port,
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
        async with await anyio.connect_tcp("127.0.0.1", port), await anyio.connect_tcp("127.0.0.1", port):
            third = await _is_served(port)
        await until(lambda: not made.open)
        afterwards = await _is_served(port)

    assert (third, afterwards) == (lets_in, True)


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
