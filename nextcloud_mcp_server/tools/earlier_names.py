"""Tools of earlier Nextcloud MCP servers, and which tool of this server does the same.

Their arguments differ, so a call of an earlier name is refused with the name of today. Where nothing differs, the tool
itself has the earlier name as an alias.
"""

from collections.abc import Collection, Mapping
from typing import Final

from nextcloud_mcp_server.declarations.apps import APPS

#: Earlier name → name of today.
EARLIER: Final[Mapping[str, str]] = {
    name: tool for app in APPS for tool, names in app.earlier_tools.items() for name in names
}


def sentence(name: str, known: Collection[str]) -> str | None:
    """Return what to call instead of a tool of an earlier server; None for another name.

    `known` are the tools that the settings enable.
    """
    if (today := EARLIER.get(name)) is None:
        return None
    said = f"Unknown tool: {name}. This server calls it {today}"
    return (
        f"{said}; see tools/list for its arguments."
        if today in known
        else f"{said}, which is not enabled here."
    )
