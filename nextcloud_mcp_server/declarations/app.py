"""What this server knows of a Nextcloud app before any of its code is imported.

Scopes and their texts, the toolset, the required app, audit fields, resources, prompts and the pages of the
documentation are derived from the declarations. `apps/NAME/app.py` holds one. Its texts are in English; the catalogues
of the pages (`web/catalogue`) have their translations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: Fields with paths, of which people know the last part.
PATHS: Final = frozenset({"path", "source"})


@dataclass(frozen=True, slots=True)
class Scope:
    """A permission: what it allows, as the pages say it. The name of a writing scope ends in `:write`.

    `outward`: its tools affect other users. Nextcloud notifies or invites them, or shows them the result.
    """

    name: str
    what: str
    detail: str
    outward: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """Instructions for the model that a user starts with one click.

    It has at most one argument, which completes like that of the resource `completes`; `text` names it in braces.
    """

    name: str
    title: str
    description: str
    text: str
    argument: str = ""
    about_argument: str = ""
    completes: str = ""


@dataclass(frozen=True, slots=True)
class App:
    """One app: `name` is its package below `apps`, with its tools in the module `tools`."""

    name: str
    #: The name of its toolset in settings and headers, if it is not the name of the package.
    toolset: str = ""
    #: What the instructions for the model call it; empty: nothing.
    about: str = ""
    #: The app that must be installed at Nextcloud, as in the capabilities.
    requires: str | None = None
    #: The app is not in the capabilities, only in the menu of the users who may open it.
    menu: bool = False
    #: What the pages call it, and its drawing there: an SVG path of strokes, 24 by 24. Apps with scopes have both.
    title: str = ""
    icon: str = ""
    #: At most one that reads and one that changes, named after the package: the pages show one row for an app.
    scopes: tuple[Scope, ...] = ()
    #: Scopes of other apps that its tools need, too.
    uses: tuple[str, ...] = ()
    #: What the account page says of a call, by the name of the tool.
    actions: Mapping[str, str] = field(default_factory=dict[str, str])
    #: By the name of a tool, the tools of earlier Nextcloud MCP servers that did the same, with other arguments.
    earlier_tools: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    #: The arguments that identify the object of a call; the audit log keeps their values.
    audit_fields: tuple[str, ...] = ()
    #: The fields of arguments and results by which people know the object; of those with a value the first counts. The
    #: account page shows it.
    named_by: tuple[str, ...] = ()
    #: The classes in its module `resources`.
    resources: tuple[str, ...] = ()
    prompts: tuple[Prompt, ...] = ()

    def __post_init__(self) -> None:
        """Name the toolset after the package where nothing else is declared."""
        if not self.toolset:
            object.__setattr__(self, "toolset", self.name)

    @property
    def scope_names(self) -> tuple[str, ...]:
        """The scopes that its tools need."""
        return (*(scope.name for scope in self.scopes), *self.uses)
