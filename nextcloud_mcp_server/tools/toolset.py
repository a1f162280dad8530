"""How a tool is declared: a toolset, a title, and what it needs before it may run.

    notes = Toolset("notes")

    @notes.tool("Read a note", read_only=True)
    @require_provisioning("notes:read")
    async def nc_notes_get_note(nc: Account, note_id: Id) -> Note:
        '''Read one note, with its text and its etag.'''

`Toolset.tool` takes only what `require_provisioning`, `without_provisioning` or `without_asking` return, so a tool
without the guard fails the type check and cannot be imported.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nextcloud_mcp_server.auth.scopes import OUTWARD, SCOPES
from nextcloud_mcp_server.tools import schemas
from nextcloud_mcp_server.tools.arguments import INJECTED_PARAMETERS, Arguments
from nextcloud_mcp_server.tools.result import Result

Body = Callable[..., Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Guarded:
    """A tool body together with what must be permitted before it runs; None asks for nothing.

    `never_asks`: it leads to no consent request, and so does not answer for one that has ended.
    """

    body: Body
    scopes: frozenset[str] | None
    never_asks: bool = False


def require_provisioning(*scopes: str) -> Callable[[Body], Guarded]:
    """Let a tool run only for someone who connected their Nextcloud and permitted `scopes`.

    The body's first argument is then the person's `nextcloud.account.Account`; those of `arguments.INJECTED_PARAMETERS`
    are the server's, such as its `Progress`, and all others the model's. Without a usable credential the call ends in
    `ElicitationRequired` (code -32000) and the body never runs.
    """
    unknown = set(scopes) - set(SCOPES)
    if unknown or not scopes:
        raise TypeError(
            f"require_provisioning needs scopes from the list in auth/scopes.py, not {sorted(unknown)}"
        )
    return lambda body: Guarded(body, frozenset(scopes))


def without_provisioning(body: Body) -> Guarded:
    """Let a tool run for anyone: the connection tools, whose first argument is an `Access`."""
    return Guarded(body, None)


def without_asking(body: Body) -> Guarded:
    """Let a tool run for anyone, as `without_provisioning`, that never asks for access."""
    return Guarded(body, None, never_asks=True)


@dataclass(frozen=True)
class ToolSpec:
    """One tool as data: the MCP tool, the scope map, the docs table and the tests derive from it.

    `local`: of use only where a folder of the person's own computer is open to it.
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

    @property
    def idempotent(self) -> bool:
        """Whether repeating a call changes nothing more.

        So it is with reading, with deleting, and with a change that needs the etag of what was read: the second call
        finds another one. Of all others a tool says so itself.
        """
        if self.repeatable is not None:
            return self.repeatable
        etag = inspect.signature(self.guarded.body).parameters.get("etag")
        guarded = etag is not None and etag.default is inspect.Parameter.empty
        return self.read_only or guarded or "_delete_" in self.name

    @property
    def open_personal_app(self) -> bool:
        """Whether a call notifies or otherwise reaches other people: by its scopes, or as the tool says itself."""
        return self.reaches_others or bool(self.scopes & OUTWARD)

    @property
    def scopes(self) -> frozenset[str]:
        """What must be permitted; empty for the connection tools."""
        return self.guarded.scopes or frozenset()

    @cached_property
    def arguments(self) -> Arguments:
        """The checked arguments; built with the first call, because pydantic takes its time."""
        return Arguments(self.guarded.body)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, as the printed file has it."""
        return schemas.printed().get(self.name) or self.arguments.schema

    @cached_property
    def ours(self) -> frozenset[str]:
        """The parameters that the server fills in."""
        return INJECTED_PARAMETERS.intersection(inspect.signature(self.guarded.body).parameters)

    @property
    def result_type(self) -> Any:  # noqa: ANN401 - a return annotation can be any type
        """What the body says it returns."""
        return inspect.signature(self.guarded.body).return_annotation


class Toolset:
    """The tools of one Nextcloud app, switched on and off together."""

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
    ) -> Callable[[Guarded], Guarded]:
        """Add a guarded body as a tool; its name and docstring are the tool's name and description.

        `repeatable` and `reaches_others` are for what `ToolSpec.idempotent` and `open_personal_app` cannot know.
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
            )
            self.tools.append(spec)
            return guarded

        return add
