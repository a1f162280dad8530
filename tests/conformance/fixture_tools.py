"""The tools that the official conformance runner calls by name; what they answer is laid down in its descriptions."""

# pyright: reportDeprecated=false
# Logging and sampling are tested for the versions that have them.

from collections.abc import Callable
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    EmbeddedResource,
    ImageContent,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, Field

from nextcloud_mcp_server.protocol.availability import Availability

Ctx = Context[Any, Any]

#: One pixel, and a sound of no length.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

#: The schema that the runner expects in `tools/list`, keyword by keyword (SEP-1613, SEP-2106).
SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _text(text: str) -> list[TextContent]:
    return [TextContent(type="text", text=text)]


def _embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=contents)


async def test_simple_text() -> list[TextContent]:
    """Answer with a text."""
    return _text("This is a simple text response for testing.")


async def test_image_content() -> list[ImageContent]:
    """Answer with a picture."""
    return [ImageContent(type="image", data=PNG, mime_type="image/png")]


async def test_audio_content() -> list[AudioContent]:
    """Answer with a sound."""
    return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


async def test_embedded_resource() -> list[EmbeddedResource]:
    """Answer with a resource."""
    return [_embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


async def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Answer with three kinds of content."""
    resource = _embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    picture = ImageContent(type="image", data=PNG, mime_type="image/png")
    return [*_text("Multiple content types test:"), picture, resource]


async def test_tool_with_logging(ctx: Ctx) -> list[TextContent]:
    """Send three log messages."""
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(said)
    return _text("Three messages were sent.")


async def test_error_handling() -> list[TextContent]:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


async def test_tool_with_progress(ctx: Ctx) -> list[TextContent]:
    """Say three times how far it is."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
    return _text("Progress was reported.")


async def test_sampling(prompt: str, ctx: Ctx) -> list[TextContent]:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message([message], max_tokens=100)
    return _text(f"LLM response: {getattr(answer.content, 'text', '')}")


class UserDetails(BaseModel):
    """What `test_elicitation` asks for."""

    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Defaults(BaseModel):
    """A form with a default of each kind (SEP-1034)."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = True


_TITLED: dict[str, Any] = {
    "oneOf": [{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}]
}
_MANY_TITLED: dict[str, Any] = {
    "anyOf": [{"const": "value1", "title": "First Choice"}, {"const": "value2", "title": "Second Choice"}]
}
_OPTIONS = ["option1", "option2", "option3"]


class Enums(BaseModel):
    """A form with a choice of each kind (SEP-1330)."""

    # The names are the runner's.
    untitledSingle: str = Field(json_schema_extra={"enum": [*_OPTIONS]})  # noqa: N815 - see above
    titledSingle: str = Field(json_schema_extra={**_TITLED})  # noqa: N815 - see above
    legacyEnum: str = Field(  # noqa: N815 - see above
        json_schema_extra={"enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]}
    )
    untitledMulti: list[str] = Field(  # noqa: N815 - see above
        json_schema_extra={"items": {"type": "string", "enum": [*_OPTIONS]}}
    )
    titledMulti: list[str] = Field(json_schema_extra={"items": {**_MANY_TITLED}})  # noqa: N815 - see above


async def _elicit(ctx: Ctx, message: str, schema: type[BaseModel]) -> list[TextContent]:
    answer = await ctx.elicit(message, schema)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return _text(f"Elicitation completed: action={answer.action}, content={content}")


async def test_elicitation(message: str, ctx: Ctx) -> list[TextContent]:
    """Ask the user for two texts."""
    answer = await ctx.elicit(message, UserDetails)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return _text(f"User response: action={answer.action}, content={content}")


async def test_elicitation_sep1034_defaults(ctx: Ctx) -> list[TextContent]:
    """Ask the user with defaults."""
    return await _elicit(ctx, "Who are you?", Defaults)


async def test_elicitation_sep1330_enums(ctx: Ctx) -> list[TextContent]:
    """Ask the user to choose."""
    return await _elicit(ctx, "Which do you take?", Enums)


async def test_reconnection(ctx: Ctx) -> list[TextContent]:
    """End the stream on which the answer was to come, where the transport can."""
    await ctx.close_sse_stream()
    await anyio.lowlevel.checkpoint()
    return _text("Reconnection test completed")


async def test_missing_capability(ctx: Ctx) -> list[TextContent]:
    """Work only with clients that have a model."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs a client with sampling.",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return _text("The client has sampling.")


async def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "",  # noqa: PT028 - a tool, no test
) -> list[TextContent]:
    """Take an argument that a header repeats (SEP-2243)."""
    return _text(f"region={region}")


async def json_schema_2020_12_tool() -> list[TextContent]:
    """Show a schema with keywords of JSON Schema 2020-12."""
    return _text("json_schema_2020_12_tool")


def triggers(availability: Availability) -> list[Callable[..., Any]]:
    """Return the tools that announce a change of a list, in the same way as the server does."""

    async def test_trigger_tool_change(ctx: Ctx) -> list[TextContent]:
        """Say that the list of tools has changed."""
        audience = availability.change_notifier
        await audience.tell(audience.owner(ctx.request_context), ToolsListChanged())
        return _text("told")

    async def test_trigger_prompt_change(ctx: Ctx) -> list[TextContent]:
        """Say that the list of prompts has changed."""
        audience = availability.change_notifier
        await audience.tell(audience.owner(ctx.request_context), PromptsListChanged())
        return _text("told")

    return [test_trigger_tool_change, test_trigger_prompt_change]


TOOLS: tuple[Callable[..., Any], ...] = (
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_tool_with_logging,
    test_error_handling,
    test_tool_with_progress,
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_reconnection,
    test_missing_capability,
    test_x_mcp_header,
    json_schema_2020_12_tool,
)
