"""Adds to a server the fixtures that the official conformance runner requires by name.

The transport, the middleware, the guard of resources, subscriptions, the lists and their cache hints, and the sealed
request state are the server's own. Tools and prompts are added to its own; the resources are further kinds.
"""

# pyright: reportPrivateUsage=false

import base64
import json
from collections.abc import Collection
from functools import partial
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context
from mcp_types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    SetLevelRequestParams,
    TextContent,
    TextResourceContents,
)

from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.protocol.availability import Facts
from nextcloud_mcp_server.resources.kind import About, Contents, Listed, Marks, Page, Reader, Typed, no_such
from nextcloud_mcp_server.server.composition import ServerParts
from tests.conformance.fixture_questions import QUESTIONS, field, form
from tests.conformance.fixture_tools import PNG, SCHEMA_2020_12, TOOLS, triggers

Ctx = ServerRequestContext[Any, Any]

ALWAYS = Facts(toolset="connection", app=None, read_only=True, always=True)

PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


class Static:
    """A kind of resource with fixed contents."""

    def __init__(self, template: str, contents: Contents) -> None:
        self._contents = contents
        self.about = About(
            toolset="connection",
            template=template,
            name=template.rpartition("://")[2],
            title=template,
            description="A fixture of the conformance runner.",
            mime_type=contents.mime_type,
            action="check_provisioning_status",
            listing="check_provisioning_status",
            free=True,
        )

    async def page(self, nc: Account, cursor: str | None) -> Page:
        del nc, cursor
        one = Listed(self.about.template, self.about.title, self._contents.mime_type)
        return Page([] if self.about.argument else [one])

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:
        del nc, reader
        if not self.about.argument:
            return self._contents
        id_, _, rest = value.partition("/")
        if rest != "data":
            raise no_such(value)
        data = {"id": id_, "templateTest": True, "data": f"Data for ID: {id_}"}
        return Contents(json.dumps(data), self._contents.mime_type)

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        del nc, before
        return Marks(dict.fromkeys(values, "same"), "same" if listing else None)

    async def complete(self, nc: Account, typed: Typed) -> list[str]:
        del nc, typed
        return []


KINDS = (
    Static("test://static-text", Contents("This is the content of the static text resource.", "text/plain")),
    Static("test://static-binary", Contents(base64.b64decode(PNG), "image/png")),
    Static("test://watched-resource", Contents("Watched resource content", "text/plain")),
    Static("test://template/{id}/data", Contents("", "application/json")),
)


def add_fixtures(parts: ServerParts[Any]) -> None:
    """Add all of them, before the first request."""
    facts: dict[str, Facts] = dict(parts.availability._tools)
    for body in (*TOOLS, *QUESTIONS, *triggers(parts.availability)):
        parts.mcp.add_tool(body, structured_output=False)
        facts[body.__name__] = ALWAYS
    parts.availability._tools = facts
    parts.mcp._tool_manager._tools["json_schema_2020_12_tool"].parameters = SCHEMA_2020_12
    catalogue = parts.poller._catalogue
    catalogue.kinds.extend(KINDS)
    catalogue._facts.update({kind.about.name: ALWAYS for kind in KINDS})
    _add_prompts(parts.mcp._lowlevel_server)


def _add_prompts(server: Server[Any]) -> None:
    """Handle the fixtures' prompts, and pass all others to the server's own handlers."""
    listed, got, completed = (
        server.get_request_handler(method)
        for method in ("prompts/list", "prompts/get", "completion/complete")
    )
    assert listed
    assert got
    assert completed

    async def list_(ctx: Ctx, params: PaginatedRequestParams) -> ListPromptsResult:
        ours: Any = await listed.handler(ctx, params)
        return ours.model_copy(update={"prompts": [*ours.prompts, *map(_prompt, PROMPTS)]})

    async def get(ctx: Ctx, params: GetPromptRequestParams) -> Any:  # noqa: ANN401 - whatever the handler answers
        if params.name not in PROMPTS:
            return await got.handler(ctx, params)
        return _filled(Context(request_context=ctx, input_params=params), params)

    async def complete(ctx: Ctx, params: CompleteRequestParams) -> Any:  # noqa: ANN401 - whatever the handler answers
        if isinstance(params.ref, PromptReference) and params.ref.name in PROMPTS:
            return CompleteResult(completion=Completion(values=[], total=0, has_more=False))
        return await completed.handler(ctx, params)

    async def set_level(ctx: Ctx, params: SetLevelRequestParams) -> EmptyResult:
        del ctx, params
        return EmptyResult()

    server.add_request_handler("prompts/list", PaginatedRequestParams, list_)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get)
    server.add_request_handler("completion/complete", CompleteRequestParams, complete)
    # The server sends no log messages and does not declare logging; the tool with logging does.
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)


def _prompt(name: str) -> Prompt:
    arguments = [PromptArgument(name=one, description=one, required=True) for one in PROMPTS[name]]
    return Prompt(name=name, description="A fixture of the conformance runner.", arguments=arguments)


def _filled(ctx: Context[Any, Any], params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult:
    given = params.arguments or {}
    user = partial(PromptMessage, role="user")
    text = partial(TextContent, type="text")
    if params.name == "test_input_required_result_prompt":
        context = field(ctx.input_responses, "user_context", "context")
        if context is None:
            question = form("What context should the prompt use?", "context")
            return InputRequiredResult(input_requests={"user_context": question})
        return GetPromptResult(messages=[user(content=text(text=f"Use this context: {context}"))])
    if params.name == "test_prompt_with_arguments":
        said = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
        return GetPromptResult(messages=[user(content=text(text=said))])
    if params.name == "test_prompt_with_embedded_resource":
        held = TextResourceContents(
            uri=given["resourceUri"], mime_type="text/plain", text="Embedded resource content for testing."
        )
        resource = user(content=EmbeddedResource(type="resource", resource=held))
        return GetPromptResult(
            messages=[resource, user(content=text(text="Please process the embedded resource above."))]
        )
    if params.name == "test_prompt_with_image":
        image = user(content=ImageContent(type="image", data=PNG, mime_type="image/png"))
        return GetPromptResult(messages=[image, user(content=text(text="Please analyze the image above."))])
    return GetPromptResult(messages=[user(content=text(text="This is a simple prompt for testing."))])
