"""Ends the streams that outlast the token they were opened with; their clients go on with the next one."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_DISCONNECT = "http.disconnect"


def lasts(method: str, value: object) -> bool:
    """Tell whether a request is answered with a stream that ends when its client leaves, not with its work.

    `GET` opens the one of a session (2025-11-25), `subscriptions/listen` one of its own (2026-07-28).
    """
    messages = cast("list[object]", value) if isinstance(value, list) else [value]
    asked = (cast("dict[str, Any]", each).get("method") for each in messages if isinstance(each, dict))
    return method == "GET" or "subscriptions/listen" in asked


async def run_for(app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, seconds: float) -> None:
    """Run an application that answers with a stream; after so many seconds its client has left, for all it hears.

    The client sees the answer end without a last word, as it does when a proxy cuts it off.
    """
    left = anyio.current_time() + seconds
    unfinished = False

    async def hear() -> Message:
        return await _by(left, receive) or {"type": _DISCONNECT}

    async def tell(message: Message) -> None:
        nonlocal unfinished
        await send(message)
        unfinished = message["type"] == "http.response.start" or message.get("more_body", False)

    await app(scope, hear, tell)
    if unfinished:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _by(moment: float, receive: Callable[[], Awaitable[Message]]) -> Message | None:
    with anyio.CancelScope(deadline=moment):
        return await receive()
