"""Declares tools: a toolset, a title, and the scopes that a tool requires.

    notes = Toolset("notes")

    @notes.tool("Read a note", read_only=True)
    @require_provisioning("notes:read")
    async def nc_notes_get_note(nc: Account, note_id: Id) -> Note:
        '''Read one note, with its text and its etag.'''

`Toolset.tool` accepts only what `require_provisioning`, `without_provisioning` or `without_asking` return. So a tool
without a guard fails the type check and cannot be imported.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from nextcloud_mcp_server.auth.scopes import OUTWARD, SCOPES
from nextcloud_mcp_server.tools import schemas
from nextcloud_mcp_server.tools.arguments import INJECTED_PARAMETERS, Arguments
from nextcloud_mcp_server.tools.result import Result

Body = Callable[..., Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Guarded:
    """A tool body with the scopes that it requires; None means that it requires no consent.

    `never_asks`: it starts no consent request, and so does not report one that has ended.
    """

    body: Body
    scopes: frozenset[str] | None
    never_asks: bool = False


def require_provisioning(*scopes: str) -> Callable[[Body], Guarded]:
    """Let a tool run only for users who have connected their Nextcloud and granted `scopes`.

    The body's first argument is then the user's `nextcloud.account.Account`. Those of `arguments.INJECTED_PARAMETERS`
    are passed by the server, such as `Progress`, and all others by the model. Without a usable credential the call
    ends in `ElicitationRequired` (code -32000) and the body does not run.
    """
    unknown = set(scopes) - set(SCOPES)
    if unknown or not scopes:
        raise TypeError(f"require_provisioning needs scopes that an app declares, not {sorted(unknown)}")
    return lambda body: Guarded(body, frozenset(scopes))


def without_provisioning(body: Body) -> Guarded:
    """Let a tool run without consent: the connection tools, whose first argument is an `Access`."""
    return Guarded(body, None)


def without_asking(body: Body) -> Guarded:
    """Let a tool run without consent, as `without_provisioning`, that never asks for access."""
    return Guarded(body, None, never_asks=True)


@dataclass(frozen=True)
class ToolSpec:
    """The specification of a tool, from which the MCP tool, scopes, documentation and tests are derived.

    `local`: useful only with a local folder on the user's computer. `long`: a call may take so long that it becomes a
    task, where the client takes tasks.
    """

    toolset: str
    name: str
    title: str
    description: str
    guarded: Guarded
    read_only: bool
    destructive: bool
    repeatable: bool | None
    reaches_others: bool
    local: bool = False
    long: bool = False
    aliases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    alias_of: str = ""
    preset: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def old_names(self) -> "list[ToolSpec]":
        """The same tool under the names that it or its predecessors had; callable, but not listed.

        A predecessor may have done a part of what the tool does: `preset` has the arguments for that.
        """
        return [
            replace(self, name=name, aliases={}, alias_of=self.name, preset=preset)
            for name, preset in self.aliases.items()
        ]

    @property
    def idempotent(self) -> bool:
        """Whether a repeated call changes nothing more.

        True for reading, for deleting, and for a change that requires the etag: the second call finds another etag.
        Any other tool declares it itself.
        """
        if self.repeatable is not None:
            return self.repeatable
        etag = inspect.signature(self.guarded.body).parameters.get("etag")
        guarded = etag is not None and etag.default is inspect.Parameter.empty
        return self.read_only or guarded or "_delete_" in self.name

    @property
    def open_world(self) -> bool:
        """Whether a call notifies or otherwise reaches other users: by its scopes, or as declared."""
        return self.reaches_others or bool(self.scopes & OUTWARD)

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes it requires; empty for the connection tools."""
        return self.guarded.scopes or frozenset()

    @cached_property
    def arguments(self) -> Arguments:
        """The validated arguments; built with the first call, because pydantic takes a while."""
        return Arguments(self.guarded.body)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, from the generated file; an old name has that of its tool."""
        return schemas.printed().get(self.alias_of or self.name) or self.arguments.schema

    @cached_property
    def injected(self) -> frozenset[str]:
        """The injected parameters of the body."""
        return INJECTED_PARAMETERS.intersection(inspect.signature(self.guarded.body).parameters)

    @property
    def result_type(self) -> Any:  # noqa: ANN401 - a return annotation can be any type
        """The return type of the body."""
        return inspect.signature(self.guarded.body).return_annotation


class Toolset:
    """The tools of one Nextcloud app, enabled and disabled together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tools: list[ToolSpec] = []

    def tool(
        self,
        title: str,
        *,
        read_only: bool = False,
        destructive: bool = False,
        repeatable: bool | None = None,
        reaches_others: bool = False,
        local: bool = False,
        long: bool = False,
        aliases: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Callable[[Guarded], Guarded]:
        """Add a guarded body as a tool; its name and docstring become the tool's name and description.

        `repeatable` and `reaches_others` declare what `ToolSpec.idempotent` and `open_world` cannot derive; `aliases`
        are old names, each with the arguments that it stands for.
        """

        def add(guarded: Guarded) -> Guarded:
            body = guarded.body
            description = inspect.getdoc(body)
            if not description:
                raise TypeError(f"{body.__name__} needs a docstring: it is what the model reads")
            spec = ToolSpec(
                toolset=self.name,
                name=body.__name__,
                title=title,
                description=" ".join(description.split()),
                guarded=guarded,
                read_only=read_only,
                destructive=destructive,
                repeatable=repeatable,
                reaches_others=reaches_others,
                local=local,
                long=long,
                aliases=aliases or {},
            )
            self.tools.append(spec)
            return guarded

        return add
