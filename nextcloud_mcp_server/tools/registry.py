"""The table of toolsets, from the declarations of the apps: the modules of their tools, and what each requires.

A toolset's module is imported when it is enabled, so that others do not slow down the start.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module

from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.tools.toolset import Toolset

CONNECTION = "connection"


@dataclass(frozen=True, slots=True)
class Entry:
    """A toolset: the module of this package that declares it under its own name, and its app.

    `about` is its name in the instructions for the model, and `app` must be installed at Nextcloud. `menu`: the app
    announces nothing in the capabilities and appears only in the menu of users who may open it.
    """

    module: str
    about: str = ""
    app: str | None = None
    menu: bool = False


TOOLSETS: dict[str, Entry] = {
    CONNECTION: Entry("tools.connection"),
    **{app.toolset: Entry(f"apps.{app.name}.tools", app.about, app.requires, app.menu) for app in APPS},
}


@cache
def load(name: str) -> Toolset:
    """Import the toolset with that name."""
    module = import_module(f"nextcloud_mcp_server.{TOOLSETS[name].module}")
    toolset = getattr(module, name)
    if not isinstance(toolset, Toolset):
        raise TypeError(f"{module.__name__}.{name} is no toolset")
    return toolset
