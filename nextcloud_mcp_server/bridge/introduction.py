"""How the bridge describes itself to a chat client: as its one server, or as all of them together."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from nextcloud_mcp_server.bridge.envelope import (
    TASKS_EXTENSION,
    Agreement,
    Hello,
    Message,
    as_list,
    as_object,
    names_tasks,
)
from nextcloud_mcp_server.bridge.remote import Remote

_CHANGES: Final = {"listChanged": True}
#: What a server may turn out to have that is not connected yet; its lists are empty until then.
_UNKNOWN: Final[Message] = {
    "tools": _CHANGES,
    "prompts": _CHANGES,
    "resources": {"subscribe": True, **_CHANGES},
    "logging": {},
    "completions": {},
}


async def introduce(hello: Hello, remotes: Sequence[Remote], *, seconds: float) -> Message:
    """Answer `initialize` or `server/discover`, once the servers are connected or have had this time.

    Raises:
        MCPError: There is one server, and it cannot be used.
    """
    failures: list[MCPError] = []

    async def wait(remote: Remote) -> None:
        try:
            await remote.connected()
        except MCPError as error:
            failures.append(error)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as group:
            for remote in remotes:
                group.start_soon(wait, remote)
    known = [remote.agreement for remote in remotes if remote.agreement is not None]
    if len(failures) == len(remotes):
        raise failures[0]
    if len(remotes) == 1 and known:
        return _alone(hello, known[0])
    waiting = len(known) + len(failures) < len(remotes)
    return _described(hello, _joined(hello, remotes, known, waiting=waiting))


def _alone(hello: Hello, agreement: Agreement) -> Message:
    """Pass on what the one server said, in the era of the chat client."""
    if hello.modern and agreement.modern:
        known = as_list(agreement.described.get("supportedVersions"))
        both = [one for one in MODERN_PROTOCOL_VERSIONS if one in known]
        return {**agreement.described, "supportedVersions": both}
    if not hello.modern and not agreement.modern:
        return {**agreement.described, "protocolVersion": min(hello.version, agreement.version)}
    return _described(
        hello,
        {
            "capabilities": _usable(hello, agreement),
            "serverInfo": agreement.server_info,
            **_instructions([agreement]),
        },
    )


def _usable(hello: Hello, agreement: Agreement) -> Message:
    """Return the capabilities of a server without the tasks of the other era, which the bridge uses by itself."""
    capabilities = agreement.capabilities
    if hello.modern == agreement.modern:
        return capabilities
    if hello.modern:
        return {name: value for name, value in capabilities.items() if name != "tasks"}
    if not names_tasks(capabilities):
        return capabilities
    others = {k: v for k, v in as_object(capabilities.get("extensions")).items() if k != TASKS_EXTENSION}
    return {**capabilities, "extensions": others}


def _joined(hello: Hello, remotes: Sequence[Remote], known: Sequence[Agreement], *, waiting: bool) -> Message:
    capabilities: Message = dict(_UNKNOWN) if waiting else {}
    for agreement in known:
        for name, value in _usable(hello, agreement).items():
            capabilities[name] = as_object(capabilities.get(name)) | as_object(value)
    own = {"name": "nextcloud-mcp-server-bridge", "version": version("nextcloud-mcp-server")}
    names = ", ".join(remote.name for remote in remotes)
    own |= {"title": f"Bridge to {names}"}
    return {"capabilities": capabilities, "serverInfo": own, **_instructions(known)}


def _instructions(known: Sequence[Agreement]) -> dict[str, Any]:
    texts = [text for one in known if isinstance(text := one.described.get("instructions"), str)]
    return {"instructions": "\n\n".join(texts)} if texts else {}


def _described(hello: Hello, description: Message) -> Message:
    if not hello.modern:
        return {"protocolVersion": hello.version, **description}
    own = description.pop("serverInfo")
    return {
        "resultType": "complete",
        "supportedVersions": list(MODERN_PROTOCOL_VERSIONS),
        "ttlMs": 0,
        "cacheScope": "private",
        **description,
        "_meta": {SERVER_INFO_META_KEY: own},
    }
