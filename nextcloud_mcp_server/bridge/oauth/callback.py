"""The redirect that ends a sign-in: a page on this computer that one answer counts at (RFC 8252 §7.3).

The page waits for the exchange of the code, and says how it ended.
"""

import html
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from secrets import compare_digest
from typing import Final
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream

from nextcloud_mcp_server.errors import AuthorizationFailed

PATH: Final = "/callback"
_HOST: Final = "127.0.0.1"
_LARGEST: Final = 16_000
_REQUEST_SECONDS: Final = 10.0
#: What the exchange of the code may take while the page waits.
_OUTCOME_SECONDS: Final = 60.0
_WRITTEN_SECONDS: Final = 2.0
_FOREIGN: Final = "This page does not belong to the sign-in that this program waits for. You can close it."
_SECOND: Final = (
    "This sign-in was answered already; this second answer counts for nothing. You can close this page."
)
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><meta name="referrer" content="no-referrer">
<style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:4rem auto;padding:0 1rem}}</style></head>
<body><main><h1>{title}</h1><p>{text}</p></main></body></html>
"""


@dataclass(frozen=True, slots=True)
class Callback:
    """The parameters of a redirect; `repr` hides the code."""

    state: str
    code: str | None = field(default=None, repr=False)
    error: str | None = None
    iss: str | None = None


def read_callback(url: str) -> Callback | None:
    """Read a redirect's URL, or its query alone; None if it is not one.

    RFC 6749 §3.1: a parameter that comes twice makes it invalid.
    """
    query = urlsplit(url).query if "?" in url else url.strip().lstrip("?")
    try:
        found = parse_qs(query, max_num_fields=40)
    except ValueError:
        return None
    if (
        any(len(found.get(name, ())) > 1 for name in ("state", "code", "error", "iss"))
        or "state" not in found
    ):
        return None
    values = {name: texts[0] for name, texts in found.items()}
    if ("code" in values) == ("error" in values):
        return None
    return Callback(values["state"], values.get("code"), values.get("error"), values.get("iss"))


@asynccontextmanager
async def open_callback(port: int) -> AsyncGenerator["CallbackPage"]:
    """Listen on this computer for the redirect; port 0 lets the system choose one.

    Raises:
      AuthorizationFailed: Another program uses the port.
    """
    try:
        listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=port, reuse_port=False)
    except OSError:
        raise AuthorizationFailed(
            f"Another program uses port {port} of this computer, which the sign-in needs; end it, or choose another "
            "with --oauth-port (or NEXTCLOUD_MCP_CLIENT_OAUTH_PORT)."
        ) from None
    async with listener:
        yield CallbackPage(listener.listeners[0])


class CallbackPage:
    """Waits for the redirect of one sign-in."""

    def __init__(self, listener: Listener[SocketStream]) -> None:
        self._listener = listener
        self.port: int = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no query of Django
        self.redirect_uri = f"http://{_HOST}:{self.port}{PATH}"
        self.foreign = 0
        self._state = ""
        self._callback: Callback | None = None
        self._came = anyio.Event()
        self._outcome: tuple[str, str] | None = None
        self._known = anyio.Event()
        self._written = anyio.Event()

    def expect(self, state: str) -> None:
        """Accept the redirect with this state."""
        self._state = state

    async def serve(self) -> None:
        """Answer requests until it is cancelled."""
        await self._listener.serve(self._answer)

    async def wait(self) -> Callback:
        """Wait for the redirect."""
        await self._came.wait()
        assert self._callback is not None  # noqa: S101 - set before the event
        return self._callback

    def take(self, callback: Callback) -> bool:
        """Accept a redirect; return whether it is the first with the right state."""
        if not self._is_right(callback) or self._callback is not None:
            return False
        self._callback = callback
        self._came.set()
        return True

    async def finish(self, title: str, text: str) -> None:
        """Say on the page how the sign-in ended, where the redirect came to it."""
        self._outcome = (title, text)
        self._known.set()
        if self._came.is_set():
            with anyio.move_on_after(_WRITTEN_SECONDS):
                await self._written.wait()

    def pasted(self) -> None:
        """Note that the redirect came another way, so that no page waits."""
        self._written.set()

    def _is_right(self, callback: Callback) -> bool:
        return bool(self._state) and compare_digest(callback.state.encode(), self._state.encode())

    async def _answer(self, stream: SocketStream) -> None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.EndOfStream):
            async with stream:
                target: str | None = None
                with anyio.move_on_after(_REQUEST_SECONDS):
                    target = await _read_target(stream)
                await self._answer_target(stream, target)

    async def _answer_target(self, stream: SocketStream, target: str | None) -> None:
        if target is None or urlsplit(target).path != PATH:
            await _write(stream, 404, "Not found", "Nothing is here.")
            return
        callback = read_callback(target)
        if callback is None or not self._is_right(callback):
            self.foreign += 1
            await _write(stream, 400, "Not this sign-in", _FOREIGN)
        elif not self.take(callback):
            await _write(stream, 409, "Answered already", _SECOND)
        else:
            try:
                with anyio.move_on_after(_OUTCOME_SECONDS):
                    await self._known.wait()
                title, text = self._outcome or (
                    "Not finished",
                    "Look at the program that started this sign-in.",
                )
                await _write(stream, 200, title, text)
            finally:
                self._written.set()


async def _read_target(stream: SocketStream) -> str | None:
    """Read the head of a request; return the target of a GET, None for others."""
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        if len(head) > _LARGEST:
            return None
        head += await stream.receive(4096)
    parts = head.split(b"\n", 1)[0].decode("latin-1").split()
    return parts[1] if len(parts) == 3 and parts[0] == "GET" and parts[1].startswith("/") else None  # noqa: PLR2004 - method, target, version


async def _write(stream: SocketStream, status: int, title: str, text: str) -> None:
    body = _PAGE.format(title=html.escape(title), text=html.escape(text)).encode()
    head = (
        f"HTTP/1.1 {status} {title}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\r\n"
    )
    await stream.send(head.encode() + body)
