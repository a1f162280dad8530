"""Runs requests in parallel: the first error cancels the others and is raised unchanged."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import anyio

from nextcloud_mcp_server import errors

Call = Callable[[], Awaitable[None]]


async def together(*calls: Call) -> None:
    """Run calls in parallel; the first error cancels the others and is raised."""
    failed: list[errors.NextcloudMcpError] = []

    async def one(call: Call) -> None:
        try:
            await call()
        except errors.NextcloudMcpError as error:
            failed.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(one, call)
    if failed:
        raise failed[0]


async def side_by_side(names: Iterable[str], call: Callable[[str], Awaitable[None]]) -> None:
    """Call `call` for each name, in parallel as in `together`."""
    await together(*(partial(call, name) for name in names))


async def of_each(
    listing: Callable[[], Awaitable[list[str]]],
    expected: Iterable[str],
    call: Callable[[str], Awaitable[None]],
) -> list[str]:
    """Call `call` for each name of a list, and return the list.

    The calls for `expected` names start while the list is still being fetched. Expected names that are no longer in
    the list are ignored.
    """
    begun = list(dict.fromkeys(expected))
    missing: dict[str, errors.NotFound] = {}
    names: list[str] = []

    async def early(name: str) -> None:
        try:
            await call(name)
        except errors.NotFound as error:
            missing[name] = error

    async def rest() -> None:
        names.extend(await listing())
        await side_by_side([name for name in names if name not in begun], call)

    await together(rest, *(partial(early, name) for name in begun))
    for name in names:
        if name in missing:
            raise missing[name]
    return names
