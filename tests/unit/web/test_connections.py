import gc
import re
import socket
from functools import partial
from weakref import ref

import anyio
import h11
import pytest
import uvicorn
from h11 import _abnf  # pyright: ignore[reportPrivateUsage]
from h11 import _readers as readers  # pyright: ignore[reportPrivateUsage]
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response

from nextcloud_mcp_server.web import connections
from nextcloud_mcp_server.web.connections import ConnectionLimits, server_config


def test_the_server_believes_no_header_writes_no_address_down_and_speaks_no_web_sockets() -> None:
    config = server_config(None, ConnectionLimits())

    assert (config.proxy_headers, config.access_log, config.server_header) == (False, False, False)
    assert (config.ws, config.log_config) == ("none", None)


@pytest.mark.parametrize(
    ("name", "original", "letters"),
    [
        ("header_field_re", _abnf.header_field, "a:\t \0\x01\x0b\xe9\r\n"),
        # h11 also takes a carriage return inside of an extension, which RFC 9112 §2.2 forbids.
        ("chunk_header_re", _abnf.chunk_header, "1aF; \t=\n"),
    ],
)
def test_a_line_of_a_request_is_read_as_h11_reads_it(name: str, original: str, letters: str) -> None:
    pattern = getattr(readers, name)
    theirs = re.compile(original.encode("ascii"))

    @given(st.text(letters, max_size=12), st.sampled_from(["", "\r\n"]))
    def same(text: str, end: str) -> None:
        line = (text + end).encode("latin-1")
        found, expected = pattern.fullmatch(line), theirs.fullmatch(line)
        assert (found and found["field_value"] if name.startswith("header") else bool(found)) == (
            expected and expected["field_value"] if name.startswith("header") else bool(expected)
        )

    assert pattern is connections.LINEAR_PATTERNS[name]
    same()


@pytest.mark.parametrize(("name", "size"), [(b"a", 70_000), (b"Cookie", 17_000)])
def test_headers_that_arrive_in_one_piece_have_the_same_limit(name: bytes, size: int) -> None:
    parser = connections._BoundedParser(h11.SERVER, connections.MAX_HEADER_BYTES)  # pyright: ignore[reportPrivateUsage]
    parser.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n" + name + b": " + b"b" * size + b"\r\n\r\n")

    with pytest.raises(h11.RemoteProtocolError, match="too large"):
        parser.next_event()


async def test_nothing_of_a_connection_that_ended_waits_for_pythons_collector() -> None:
    server = uvicorn.Server(server_config(Response(), ConnectionLimits(), lifespan="off"))
    answer, left = b"", list[object]()
    with socket.create_server(("127.0.0.1", 0)) as listening, anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(server.serve, sockets=[listening]))
            async with await anyio.connect_tcp(*listening.getsockname()) as client:
                await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = await client.receive()
                (made,) = map(ref, server.server_state.connections)
                gc.disable()
            try:
                while server.server_state.connections:
                    await anyio.lowlevel.checkpoint()
                for _ in range(1_000):
                    await anyio.lowlevel.checkpoint()
                    left = [one for one in (made(),) if one is not None]
                    if not left:
                        break
            finally:
                gc.enable()
            server.should_exit = True

    assert answer.startswith(b"HTTP/1.1 200")
    assert left == []
