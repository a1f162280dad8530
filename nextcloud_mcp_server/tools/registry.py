"""The table of toolsets: their names, the modules of their tools, and what each requires.

A toolset's module is imported when it is enabled, so that others do not slow down the start.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module

from nextcloud_mcp_server.tools.toolset import Toolset

CONNECTION = "connection"


@dataclass(frozen=True, slots=True)
class Entry:
    """A toolset: the module below `tools` that declares it under its own name, and its app.

    `about` is its name in the instructions for the model, and `app` must be installed at Nextcloud. `menu`: the app
    announces nothing in the capabilities and appears only in the menu of users who may open it.
    """

    module: str
    about: str = ""
    app: str | None = None
    menu: bool = False


TOOLSETS: dict[str, Entry] = {
    CONNECTION: Entry("connection"),
    "notes": Entry("notes", "notes", app="notes"),
    "files": Entry("files", "files"),
    "history": Entry("versions", "earlier versions of files", app="files_versions"),
    "labels": Entry("tags_and_comments", "tags, favorites and comments of files"),
    "upload": Entry("upload"),
    "sharing": Entry("sharing", "sharing", app="files_sharing"),
    "calendar": Entry("calendar", "calendars"),
    "tasks": Entry("tasks", "tasks"),
    "contacts": Entry("contacts", "contacts"),
    "deck": Entry("deck", "Deck boards", app="deck"),
    "tables": Entry("tables", "tables", app="tables"),
    "talk": Entry("talk", "Talk conversations", app="spreed"),
    "status": Entry("status", "user status", app="user_status"),
    "search": Entry("search", "search in everything"),
    "research": Entry("research", "research in notes and files"),
    "cookbook": Entry("cookbook", "recipes", app="cookbook"),
    "collectives": Entry("collectives", "pages of collectives", app="collectives", menu=True),
    "forms": Entry("forms", "forms and what was answered", app="forms"),
    "news": Entry("news", "articles of feeds", app="news", menu=True),
    "mail": Entry("mail", "mail", app="mail", menu=True),
}


@cache
def load(name: str) -> Toolset:
    """Import the toolset with that name."""
    module = import_module(f"nextcloud_mcp_server.tools.{TOOLSETS[name].module}")
    toolset = getattr(module, name)
    if not isinstance(toolset, Toolset):
        raise TypeError(f"{module.__name__}.{name} is no toolset")
    return toolset
