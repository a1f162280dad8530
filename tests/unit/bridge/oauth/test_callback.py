"""The page to which a sign-in returns: one answer counts, and it says how the sign-in ended."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.bridge.oauth.callback import Callback, CallbackPage, open_callback, read_callback
from nextcloud_mcp_server.errors import AuthorizationFailed

STATE, CODE = "the-state", "the-code"


@asynccontextmanager
async def page() -> AsyncGenerator[CallbackPage]:
    async with open_callback(0) as opened, anyio.create_task_group() as group:
        opened.expect(STATE)
        group.start_soon(opened.serve)
        with anyio.fail_after(20):
            yield opened
        group.cancel_scope.cancel()


async def get(opened: CallbackPage, **query: str) -> httpx2.Response:
    async with httpx2.AsyncClient() as http:
        return await http.get(opened.redirect_uri, params=query)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:1/callback?code=c&state=s", Callback("s", "c")),
        (
            "/callback?code=c&state=s&iss=https%3A%2F%2Fas.example",
            Callback("s", "c", iss="https://as.example"),
        ),
        ("?error=access_denied&state=s", Callback("s", error="access_denied")),
        ("code=c&state=s", Callback("s", "c")),
        ("  code=c&state=s\n", Callback("s", "c")),
        ("code=c&state=s&other=x", Callback("s", "c")),
        # RFC 6749 §3.1 allows no parameter twice, and an answer is a code or an error.
        ("code=c&code=d&state=s", None),
        ("code=c&state=s&state=t", None),
        ("code=c&error=x&state=s", None),
        ("state=s", None),
        ("code=c", None),
        ("code=&state=s", None),
        ("the-code", None),
        ("", None),
        ("&".join(f"a{number}=1" for number in range(100)), None),
    ],
)
def test_a_redirect_is_read(url: str, expected: Callback | None) -> None:
    assert read_callback(url) == expected


def test_a_code_is_not_shown() -> None:
    assert CODE not in repr(Callback(STATE, CODE))


async def test_the_page_waits_for_the_end_and_says_it() -> None:
    shown: list[httpx2.Response] = []
    async with page() as opened, anyio.create_task_group() as group:

        async def browse() -> None:
            shown.append(await get(opened, code=CODE, state=STATE))

        group.start_soon(browse)
        assert await opened.wait() == Callback(STATE, CODE)
        assert shown == []
        await opened.finish("Signed in", "You can <b>close</b> this page.")

    assert shown[0].status_code == 200
    assert "<h1>Signed in</h1>" in shown[0].text
    assert "&lt;b&gt;" in shown[0].text
    assert shown[0].headers["Cache-Control"] == "no-store"
    assert shown[0].headers["Referrer-Policy"] == "no-referrer"
    assert CODE not in shown[0].text


async def test_a_wrong_state_ends_nothing_and_is_told_so() -> None:
    async with page() as opened:
        refused = await get(opened, code="evil", state="other")
        assert opened.foreign == 1
        assert opened.take(Callback(STATE, CODE))
        opened.pasted()

        assert await opened.wait() == Callback(STATE, CODE)
    assert refused.status_code == 400
    assert "does not belong to the sign-in" in refused.text


async def test_only_the_first_answer_counts() -> None:
    async with page() as opened, anyio.create_task_group() as group:
        group.start_soon(lambda: get(opened, code=CODE, state=STATE))
        await opened.wait()

        second = await get(opened, code="second", state=STATE)
        await opened.finish("Signed in", "")

        assert (await opened.wait()).code == CODE
        assert second.status_code == 409
        assert "answered already" in second.text


@pytest.mark.parametrize("path", ["/", "/favicon.ico", "/callback/x", "/callbac"])
async def test_no_other_page_is_there(path: str) -> None:
    async with page() as opened, httpx2.AsyncClient() as http:
        answer = await http.get(f"http://127.0.0.1:{opened.port}{path}?code={CODE}&state={STATE}")
        assert opened.foreign == 0
    assert answer.status_code == 404


@pytest.mark.parametrize(
    "sent", [b"", b"GARBAGE\r\n\r\n", b"\x16\x03\x01" * 20_000, b"POST /callback HTTP/1.1\r\n\r\n"]
)
async def test_garbage_ends_nothing(sent: bytes) -> None:
    async with page() as opened:
        async with await anyio.connect_tcp("127.0.0.1", opened.port) as stream:
            with anyio.move_on_after(5):
                try:
                    await stream.send(sent or b"x")
                    await stream.send_eof()
                    await stream.receive()
                except (anyio.BrokenResourceError, anyio.EndOfStream):
                    pass

        assert (await get(opened, code=CODE, state="other")).status_code == 400


async def test_it_listens_on_this_computer_alone() -> None:
    async with open_callback(0) as opened:
        assert opened.redirect_uri == f"http://127.0.0.1:{opened.port}/callback"


async def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(AuthorizationFailed, match=rf"uses port {port} .*--oauth-port"):
            async with open_callback(port):
                raise NotImplementedError


async def test_a_fixed_port_is_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async with open_callback(port) as opened:
        assert opened.port == port
