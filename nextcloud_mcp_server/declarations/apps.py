"""The one list of apps."""

from importlib import import_module
from typing import cast

from nextcloud_mcp_server.declarations.app import App

#: The packages below `apps`, in the order in which pages and documents name them. A new app is one line here.
NAMES = (
    "notes",
    "files",
    "versions",
    "tags_and_comments",
    "upload",
    "sharing",
    "calendar",
    "tasks",
    "contacts",
    "deck",
    "tables",
    "talk",
    "status",
    "search",
    "research",
    "cookbook",
    "collectives",
    "forms",
    "news",
    "mail",
    "bookmarks",
)


def _declared(name: str) -> App:
    return cast("App", import_module(f"nextcloud_mcp_server.apps.{name}.app").app)


APPS: tuple[App, ...] = tuple(map(_declared, NAMES))
