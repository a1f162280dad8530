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
    "notes": Entry("apps.notes.tools", "notes", app="notes"),
    "files": Entry("apps.files.tools", "files"),
    "history": Entry("apps.versions.tools", "earlier versions of files", app="files_versions"),
    "labels": Entry("apps.tags_and_comments.tools", "tags, favorites and comments of files"),
    "upload": Entry("apps.upload.tools"),
    "sharing": Entry("apps.sharing.tools", "sharing", app="files_sharing"),
    "calendar": Entry("apps.calendar.tools", "calendars"),
    "tasks": Entry("apps.tasks.tools", "tasks"),
    "contacts": Entry("apps.contacts.tools", "contacts"),
    "deck": Entry("apps.deck.tools", "Deck boards", app="deck"),
    "tables": Entry("apps.tables.tools", "tables", app="tables"),
    "talk": Entry("apps.talk.tools", "Talk conversations", app="spreed"),
    "status": Entry("apps.status.tools", "user status", app="user_status"),
    "search": Entry("apps.search.tools", "search in everything"),
    "research": Entry("apps.research.tools", "research in notes and files"),
    "cookbook": Entry("apps.cookbook.tools", "recipes", app="cookbook"),
    "collectives": Entry("apps.collectives.tools", "pages of collectives", app="collectives", menu=True),
    "forms": Entry("apps.forms.tools", "forms and what was answered", app="forms"),
    "news": Entry("apps.news.tools", "articles of feeds", app="news", menu=True),
    "mail": Entry("apps.mail.tools", "mail", app="mail", menu=True),
}


@cache
def load(name: str) -> Toolset:
    """Import the toolset with that name."""
    module = import_module(f"nextcloud_mcp_server.{TOOLSETS[name].module}")
    toolset = getattr(module, name)
    if not isinstance(toolset, Toolset):
        raise TypeError(f"{module.__name__}.{name} is no toolset")
    return toolset
