"""Looks at the permits to hold much in memory from outside of the call of a test."""

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, cast

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.nextcloud import memory_permit
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp


async def apart(use: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Use something as no part of the call in which it is started."""
    async with anyio.create_task_group() as group:
        Context().run(group.start_soon, use)


async def is_held(uid: str) -> bool:
    """Tell whether a call has the permit of a user."""
    refused = list[bool]()

    async def other() -> None:
        async with memory_permit.of_call():
            refused.append(not memory_permit.take_now(uid))

    await apart(other)
    return refused == [True]


def watch_notes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let every response need the permit; return, filled later, whether alice's was held after each one of Notes."""
    monkeypatch.setattr(memory_permit, "LARGE_BYTES", 0)
    held = list[bool]()
    request = NextcloudHttp.request

    async def watched(http: NextcloudHttp, *given: object, **named: object) -> httpx2.Response:
        response = await cast("Any", request)(http, *given, **named)
        if "/apps/notes/" in str(given[1]):
            held.append(await is_held("alice"))
        return response

    monkeypatch.setattr(NextcloudHttp, "request", watched)
    return held
