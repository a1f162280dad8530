"""Looks at the permits to hold much in memory from outside of the call of a test."""

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

import anyio

from nextcloud_mcp_server.nextcloud import memory_permit


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
