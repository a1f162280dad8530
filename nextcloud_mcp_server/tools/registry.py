"""The table of toolsets, from the declarations of the apps.

A toolset's module is imported when it is enabled, so that others do not slow down the start.
"""

from functools import cache
from importlib import import_module

from nextcloud_mcp_server.declarations.app import App
from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.tools.toolset import Toolset

#: The tools for the connection itself, which need no app.
CONNECTION = "connection"
TOOLSETS: dict[str, App] = {CONNECTION: App(CONNECTION), **{app.toolset: app for app in APPS}}


@cache
def load(name: str) -> Toolset:
    """Import the toolset with that name, which its module declares under the same name."""
    module = "tools.connection" if name == CONNECTION else f"apps.{TOOLSETS[name].name}.tools"
    toolset = getattr(import_module(f"nextcloud_mcp_server.{module}"), name)
    if not isinstance(toolset, Toolset):
        raise TypeError(f"nextcloud_mcp_server.{module}.{name} is no toolset")
    return toolset
