"""Stream expiry: ends the streams that outlast the token they were opened with; clients reopen them."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.auth.verifier import Bearer

_DISCONNECT = "http.disconnect"


def lasts(method: str, value: object) -> bool:
    """Tell whether a request is answered with a stream that ends only when its client disconnects.

    `GET` opens the stream of a session (2025-11-25), `subscriptions/listen` one of its own (2026-07-28).
    """
    messages = cast("list[object]", value) if isinstance(value, list) else [value]
    asked = (cast("dict[str, Any]", each).get("method") for each in messages if isinstance(each, dict))
    return method == "GET" or "subscriptions/listen" in asked


class OpenStreams:
    """The open streams, each with the token it was opened with."""

    def __init__(self) -> None:
        self._open: dict[Cut, Bearer] = {}

    def tokens(self) -> list[Bearer]:
        """Return the tokens with which the open streams were opened."""
        return list(self._open.values())

    def end(self, meant: Callable[[Bearer], bool]) -> None:
        """End the streams whose token matches a predicate."""
        for cut, bearer in list(self._open.items()):
            if meant(bearer):
                cut.now()

    @contextmanager
    def opened(self, bearer: Bearer) -> Generator["Cut"]:
        """Record a stream while it is open."""
        cut = Cut()
        self._open[cut] = bearer
        try:
            yield cut
        finally:
            del self._open[cut]


class Cut:
    """Ends one stream."""

    def __init__(self) -> None:
        self.done = False
        self._waiting = anyio.CancelScope()

    def now(self) -> None:
        """Report a disconnect of the client to the application."""
        self.done = True
        self._waiting.cancel()

    async def wait(self, receive: Callable[[], Awaitable[Message]], *, until: float) -> Message | None:
        """Receive a message; None if the time is reached or the stream is ended before."""
        if self.done:
            return None
        self._waiting = anyio.CancelScope(deadline=until)
        with self._waiting:
            return await receive()


async def run_for(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, seconds: float, cut: Cut | None = None
) -> None:
    """Run an application that answers with a stream; after so many seconds it sees a disconnect.

    The client sees the response end without a final message, as when a proxy cuts it off.
    """
    left, cut = anyio.current_time() + seconds, cut or Cut()
    unfinished = False

    async def hear() -> Message:
        return await cut.wait(receive, until=left) or {"type": _DISCONNECT}

    async def tell(message: Message) -> None:
        nonlocal unfinished
        await send(message)
        unfinished = message["type"] == "http.response.start" or message.get("more_body", False)

    await app(scope, hear, tell)
    if unfinished:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
