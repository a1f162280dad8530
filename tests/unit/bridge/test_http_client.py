"""Below the SDK's transports: an event stream that is left after its answer is read to its end."""

from collections.abc import AsyncIterator

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.http_client import HttpClient

URL = "http://far.test/mcp"
ANSWER = b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'


class Stream(httpx2.AsyncByteStream):
    """An event stream: its answer, and what the server sends after it."""

    def __init__(self, *after: bytes, silent: bool = False, broken: bool = False) -> None:
        self._after = after
        self._silent = silent
        self._broken = broken
        self.read: list[bytes] = []
        self.ended = self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in (ANSWER, *self._after):
            self.read.append(chunk)
            yield chunk
        if self._silent:
            await anyio.sleep_forever()
        if self._broken:
            raise httpx2.ReadError("gone")
        self.ended = True

    async def aclose(self) -> None:
        self.closed = True


async def leave_after_the_answer(stream: Stream, *, method: str = "POST") -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, stream=stream)

    server = Server(id="far", transport="http", url=URL)
    async with (
        HttpClient(server, max_bytes=1_000_000, transport=httpx2.MockTransport(answer)) as http,
        http.stream(method, URL, content=b'{"id":1}') as response,
    ):
        assert [chunk async for chunk in first_of(response)] == [ANSWER]


async def first_of(response: httpx2.Response) -> AsyncIterator[bytes]:
    async for chunk in response.aiter_bytes():
        yield chunk
        return


@pytest.mark.parametrize("after", [(), (b": bye\n\n",)])
async def test_what_follows_the_answer_is_read_so_that_the_connection_is_used_again(
    after: tuple[bytes, ...],
) -> None:
    stream = Stream(*after)

    await leave_after_the_answer(stream)

    assert stream.read == [ANSWER, *after]
    assert stream.ended
    assert stream.closed


@pytest.mark.parametrize(
    "stream",
    [Stream(silent=True), Stream(*[b": more\n\n"] * 10_000), Stream(broken=True)],
    ids=["silent", "endless", "broken"],
)
async def test_a_stream_that_does_not_end_is_closed(stream: Stream) -> None:
    with anyio.fail_after(60):
        await leave_after_the_answer(stream)

    assert len(stream.read) < 1_000
    assert stream.closed
    assert not stream.ended


async def test_a_stream_without_an_answer_of_its_own_is_not_read_further() -> None:
    stream = Stream(silent=True)

    with anyio.fail_after(60):
        await leave_after_the_answer(stream, method="GET")

    assert stream.closed


async def test_a_call_that_is_cancelled_while_it_waits_closes_the_stream() -> None:
    stream = Stream(silent=True)

    async def read() -> None:
        def answer(_: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, stream=stream)

        server = Server(id="far", transport="http", url=URL)
        async with (
            HttpClient(server, max_bytes=1_000_000, transport=httpx2.MockTransport(answer)) as http,
            http.stream("POST", URL, content=b'{"id":1}') as response,
        ):
            async for _ in response.aiter_bytes():
                pass

    with anyio.move_on_after(0.05) as scope:
        await read()

    assert scope.cancelled_caught
    assert stream.closed
