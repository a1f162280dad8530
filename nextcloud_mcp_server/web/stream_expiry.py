"""Ends the streams that outlast the token they were opened with; their clients go on with the next one."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.auth.verifier import Bearer

_DISCONNECT = "http.disconnect"


def lasts(method: str, value: object) -> bool:
    """Tell whether a request is answered with a stream that ends when its client leaves, not with its work.

    `GET` opens the one of a session (2025-11-25), `subscriptions/listen` one of its own (2026-07-28).
    """
    messages = cast("list[object]", value) if isinstance(value, list) else [value]
    asked = (cast("dict[str, Any]", each).get("method") for each in messages if isinstance(each, dict))
    return method == "GET" or "subscriptions/listen" in asked


class OpenStreams:
    """The streams that are open, each with the token it was opened with."""

    def __init__(self) -> None:
        self._open: dict[Cut, Bearer] = {}

    def end(self, meant: Callable[[Bearer], bool]) -> None:
        """Cut off the streams whose tokens are meant."""
        for cut, bearer in list(self._open.items()):
            if meant(bearer):
                cut.now()

    @contextmanager
    def opened(self, bearer: Bearer) -> Generator["Cut"]:
        """Note a stream while it is open."""
        cut = Cut()
        self._open[cut] = bearer
        try:
            yield cut
        finally:
            del self._open[cut]


class Cut:
    """Cuts one stream off."""

    def __init__(self) -> None:
        self.done = False
        self._waiting = anyio.CancelScope()

    def now(self) -> None:
        """Let the application hear that its client has left."""
        self.done = True
        self._waiting.cancel()

    async def wait(self, receive: Callable[[], Awaitable[Message]], *, until: float) -> Message | None:
        """Receive, unless the moment comes or the stream is cut off before."""
        if self.done:
            return None
        self._waiting = anyio.CancelScope(deadline=until)
        with self._waiting:
            return await receive()


async def run_for(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, seconds: float, cut: Cut | None = None
) -> None:
    """Run an application that answers with a stream; after so many seconds its client has left, for all it hears.

    The client sees the answer end without a last word, as it does when a proxy cuts it off.
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
