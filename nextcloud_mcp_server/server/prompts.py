"""The prompts: instructions for the model that a user starts with one click; arguments can be completed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

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
    PromptArgument,
    PromptMessage,
    ResourceTemplateReference,
    TextContent,
)
from mcp_types import Prompt as McpPrompt

from nextcloud_mcp_server.auth.scopes import is_writing
from nextcloud_mcp_server.declarations.app import App, Prompt
from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.nextcloud.sanitize import meant, quoted, shown
from nextcloud_mcp_server.protocol import icons, wire
from nextcloud_mcp_server.protocol.availability import Availability, Facts
from nextcloud_mcp_server.resources.handlers import Resources
from nextcloud_mcp_server.resources.kind import Typed
from nextcloud_mcp_server.tools.answer import refusal

Ctx = ServerRequestContext[Any, Any]

#: A title or a date is short; a longer text is a mistake or an attack.
MAX_ARGUMENT_CHARS = 1000


class Starter(NamedTuple):
    """A prompt, and the app that declares it."""

    app: App
    prompt: Prompt


class Prompts:
    """The prompts of the caller."""

    def __init__(self, toolsets: Sequence[str], availability: Availability, resources: Resources) -> None:
        self._starters = [Starter(app, one) for app in APPS if app.toolset in toolsets for one in app.prompts]
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
        prompt = self._find(ctx, params.name).prompt
        given = dict(params.arguments or {})
        value = given.pop(prompt.argument, "").strip() if prompt.argument else ""
        if given or (prompt.argument and not 0 < len(value) <= MAX_ARGUMENT_CHARS):
            takes = f"the argument '{prompt.argument}', a short text" if prompt.argument else "no argument"
            raise MCPError(INVALID_PARAMS, f"The prompt {prompt.name} takes {takes}.")
        # Not `format`: the user may have typed braces.
        text = prompt.text.replace(f"{{{prompt.argument}}}", shown(value)) if prompt.argument else prompt.text
        message = PromptMessage(role="user", content=TextContent(type="text", text=text))
        return GetPromptResult(description=prompt.description, messages=[message])

    async def complete(self, ctx: Ctx, params: CompleteRequestParams) -> CompleteResult:
        """Complete an argument of a prompt or of a resource template."""
        if isinstance(params.ref, ResourceTemplateReference):
            template = params.ref.uri
        else:
            prompt = self._find(ctx, params.ref.name).prompt
            template = prompt.completes if params.argument.name == prompt.argument else ""
        if not template:
            return CompleteResult(completion=Completion(values=[], has_more=False))
        others = params.context.arguments if params.context else None
        typed = Typed(params.argument.name, meant(params.argument.value), others or {})
        return await self._resources.complete(ctx, template, typed)

    def _shown(self, ctx: Ctx) -> list[Starter]:
        return [one for one in self._starters if self._availability.shows(ctx, _facts(one))]

    def _find(self, ctx: Ctx, name: str) -> Starter:
        for one in self._shown(ctx):
            if one.prompt.name == name:
                return one
        sentence = f"There is no prompt {quoted(name[:64])}; list them to see which there are."
        raise MCPError(INVALID_PARAMS, refusal(sentence))


def _facts(starter: Starter) -> Facts:
    """Return what a prompt depends on: the client must have a reading scope of its toolset."""
    return Facts(
        toolset=starter.app.toolset,
        app=starter.app.requires,
        read_only=True,
        always=False,
        scopes=frozenset(scope for scope in starter.app.scope_names if not is_writing(scope)),
    )


def _listed(ctx: Ctx, starter: Starter) -> McpPrompt:
    prompt = starter.prompt
    arguments = [PromptArgument(name=prompt.argument, description=prompt.about_argument, required=True)]
    return McpPrompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=arguments if prompt.argument else [],
        icons=icons.of(starter.app.toolset) if wire.takes_icons(ctx.protocol_version) else None,
    )
