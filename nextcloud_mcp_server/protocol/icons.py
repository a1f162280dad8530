"""The icons of the server, of kinds of resources and of prompts, each for light and dark themes.

They are data URIs, since a server over stdio has no address. A pair takes about 700 bytes, so tools and rows of
resources have none: the tool list would be more than twice as long, and every row several times.
"""

from functools import cache
from typing import Any, Final
from urllib.parse import quote

from mcp_types import Icon

#: SVG paths in a square of 24 by 24, by toolset; the server's own icon is used for the rest.
_LINES: Final = {
    "connection": "M12 7a5 5 0 1 0 .1 0M4 9a3 3 0 1 0 .1 0M20 9a3 3 0 1 0 .1 0",
    "notes": "M5 3h14v14l-4 4H5zM9 8h6M9 12h6",
    "files": "M3 6h6l2 2h10v11H3z",
    "calendar": "M4 5h16v16H4zM4 10h16M8 3v4M16 3v4",
    "contacts": "M12 4a4 4 0 1 0 .1 0M4 21c0-8 16-8 16 0",
}
_SERVER: Final = "connection"
_COLOURS: Final = {"light": "#222", "dark": "#eee"}


@cache
def of(toolset: str) -> list[Icon]:
    """Return the icons of a toolset."""
    lines = _LINES.get(toolset, _LINES[_SERVER])
    return [
        Icon(src=_drawn(lines, _COLOURS[theme]), mime_type="image/svg+xml", sizes=["any"], theme=theme)
        for theme in ("light", "dark")
    ]


def with_icons(server_info: dict[str, Any]) -> dict[str, Any]:
    """Add the server's icons to its description.

    The SDK would repeat them in every answer of 2026-07-28, so they are not passed to it.
    """
    icons = [icon.model_dump(by_alias=True, mode="json", exclude_none=True) for icon in of(_SERVER)]
    return {**server_info, "icons": icons}


def _drawn(lines: str, colour: str) -> str:
    svg = (
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' "
        f"fill='none' stroke='{colour}' stroke-width='2'><path d='{lines}'/></svg>"
    )
    return "data:image/svg+xml," + quote(svg, safe="/:='")
