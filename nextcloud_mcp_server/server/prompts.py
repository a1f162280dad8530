"""The prompts: instructions for the model that a user starts with one click; arguments can be completed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ResourceTemplateReference,
    TextContent,
)

from nextcloud_mcp_server.auth.scopes import TOOLSET_SCOPES, is_writing
from nextcloud_mcp_server.nextcloud.sanitize import meant, quoted, shown
from nextcloud_mcp_server.protocol import icons, wire
from nextcloud_mcp_server.protocol.availability import Availability, Facts
from nextcloud_mcp_server.resources.handlers import Resources
from nextcloud_mcp_server.resources.kind import Typed
from nextcloud_mcp_server.tools.registry import TOOLSETS

Ctx = ServerRequestContext[Any, Any]

#: A title or a date is short; a longer text is a mistake or an attack.
MAX_ARGUMENT_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Starter:
    """A prompt: its toolset, and at most one argument, which completes like that of the resource `completes`."""

    name: str
    toolset: str
    title: str
    description: str
    text: str
    argument: str = ""
    about_argument: str = ""
    completes: str = ""


STARTERS = (
    Starter(
        name="find_document",
        toolset="files",
        title="Find a document",
        description="Look for a file by what you remember of it.",
        argument="memory",
        about_argument="What you remember: words of the name, what it is about, when it was",
        text="Find the document in my Nextcloud of which I remember this: {memory}\n\n"
        "Search by words of the name first (nc_files_search_items), then by kind and date; look into notes too "
        "if those tools are there. Show me at most five candidates with path, date and why it may be the one, "
        "and ask before you read a long one.",
    ),
    Starter(
        name="tidy_note",
        toolset="notes",
        title="Tidy a note",
        description="Bring order into a note without losing anything of it.",
        argument="note",
        about_argument="The note, by its number or title",
        completes="nc://notes/{id}",
        text="Tidy this note of mine: {note}\n\n"
        "Read it (nc_notes_get_note). Mend spelling and Markdown, put related things together under headings, "
        "turn what is to be done into a checklist; keep every fact, link and name. Show me the new text and "
        "what you changed, and write it (nc_notes_update_note, with the etag you read) only when I agree.",
    ),
    Starter(
        name="prepare_meeting",
        toolset="calendar",
        title="Prepare a meeting",
        description="Gather what you have on an appointment.",
        argument="meeting",
        about_argument="Which one: a title, a person, a time",
        text="Help me prepare this meeting: {meeting}\n\n"
        "Find it in my calendar, with time, place and who comes. Then look in my files and notes for what belongs "
        "to it or to these people. Give me half a page: what it is about, what was agreed before, open questions, "
        "links to what you found. Change nothing.",
    ),
    Starter(
        name="weekly_review",
        toolset="calendar",
        title="Weekly review",
        description="Look back on the week, and ahead.",
        text="Let us review my week. List what was in my calendar in the last seven days and what comes in the next "
        "seven. If there are tools for tasks and notes, add what is overdue or due, and notes changed this week. Point "
        "out clashes and what seems forgotten, then ask me what to move, add or close; change nothing before I say so.",
    ),
)


class Prompts:
    """The prompts of the caller."""

    def __init__(self, toolsets: Sequence[str], availability: Availability, resources: Resources) -> None:
        self._starters = [one for one in STARTERS if one.toolset in toolsets]
        self._availability = availability
        self._resources = resources

    def install(self, server: Server[Any]) -> None:
        """Replace the SDK's handlers, which do not know the caller."""
        server.add_request_handler("prompts/list", PaginatedRequestParams, self.listed)
        server.add_request_handler("prompts/get", GetPromptRequestParams, self.get)
        server.add_request_handler("completion/complete", CompleteRequestParams, self.complete)

    async def listed(self, ctx: Ctx, _: PaginatedRequestParams) -> ListPromptsResult:
        """List the prompts whose tools are available to the caller."""
        return ListPromptsResult(prompts=[_listed(ctx, one) for one in self._shown(ctx)])

    async def get(self, ctx: Ctx, params: GetPromptRequestParams) -> GetPromptResult:
        """Return the instructions of a prompt.

        Raises:
            MCPError: There is no such prompt, or its argument is missing.
        """
        starter = self._find(ctx, params.name)
        given = dict(params.arguments or {})
        value = given.pop(starter.argument, "").strip() if starter.argument else ""
        if given or (starter.argument and not 0 < len(value) <= MAX_ARGUMENT_CHARS):
            takes = f"the argument '{starter.argument}', a short text" if starter.argument else "no argument"
            raise MCPError(INVALID_PARAMS, f"The prompt {starter.name} takes {takes}.")
        # Not `format`: the user may have typed braces.
        text = (
            starter.text.replace(f"{{{starter.argument}}}", shown(value))
            if starter.argument
            else starter.text
        )
        message = PromptMessage(role="user", content=TextContent(type="text", text=text))
        return GetPromptResult(description=starter.description, messages=[message])

    async def complete(self, ctx: Ctx, params: CompleteRequestParams) -> CompleteResult:
        """Complete an argument of a prompt or of a resource template."""
        if isinstance(params.ref, ResourceTemplateReference):
            template = params.ref.uri
        else:
            starter = self._find(ctx, params.ref.name)
            template = starter.completes if params.argument.name == starter.argument else ""
        if not template:
            return CompleteResult(completion=Completion(values=[], has_more=False))
        others = params.context.arguments if params.context else None
        typed = Typed(params.argument.name, meant(params.argument.value), others or {})
        return await self._resources.complete(ctx, template, typed)

    def _shown(self, ctx: Ctx) -> list[Starter]:
        return [one for one in self._starters if self._availability.shows(ctx, _facts(one))]

    def _find(self, ctx: Ctx, name: str) -> Starter:
        for one in self._shown(ctx):
            if one.name == name:
                return one
        raise MCPError(
            INVALID_PARAMS, f"There is no prompt {quoted(name[:64])}; list them to see which there are."
        )


def _facts(starter: Starter) -> Facts:
    """Return what a prompt depends on: the client must have a reading scope of its toolset."""
    return Facts(
        toolset=starter.toolset,
        app=TOOLSETS[starter.toolset].app,
        read_only=True,
        always=False,
        scopes=frozenset(scope for scope in TOOLSET_SCOPES[starter.toolset] if not is_writing(scope)),
    )


def _listed(ctx: Ctx, starter: Starter) -> Prompt:
    arguments = [PromptArgument(name=starter.argument, description=starter.about_argument, required=True)]
    return Prompt(
        name=starter.name,
        title=starter.title,
        description=starter.description,
        arguments=arguments if starter.argument else [],
        icons=icons.of(starter.toolset) if wire.takes_icons(ctx.protocol_version) else None,
    )
