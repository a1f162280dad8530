"""Protocol version and client capability → the wire form of an elicitation. Only this module compares them.

| client | form |
|---|---|
| 2026-07-28 with `elicitation.url` | INPUT_REQUIRED: an `input_required` result; its retry is held |
| handshake era with our extension, or `draft` forced | DRAFT: error -32000, then `elicitation/track` |
| handshake era with `elicitation.url`, or `2025-11-25` forced | URL_ERROR: error -32042, then a notice |
| everyone else, or `text` forced | TEXT: a tool error whose text holds the link |

A forced dialect binds handshake-era clients only: 2026-07-28 forbids -32042 and discourages -32000.
Sources: SEP-1036 (draft of November 2025), MCP 2025-11-25 and 2026-07-28, client/elicitation.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestURLParams,
    InputRequiredResult,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from nextcloud_mcp_server.errors import ElicitationRequired

EXTENSION_ID = "io.github.nextcloud-mcp-server/elicitation-track"

URL_ELICITATION_REQUIRED = -32042

#: Name of our one input request in an `input_required` result.
INPUT_KEY = "provision"

#: The SDK's client gives up after ten rounds; the answer before that must be one a model can use.
LAST_ROUND = 9

#: Clients that are told in text are held for a shorter time: some time out a call after ten seconds.
TEXT_HOLD_SECONDS = 8.0

#: How long a told session is remembered: a little longer than a visit can last.
TOLD_SECONDS = 615.0

#: The one session there is over stdio.
STDIO = "stdio"

Dialect = Literal["auto", "draft", "2025-11-25", "text"]


class Form(Enum):
    """What a client is told in."""

    INPUT_REQUIRED = "2026-07-28"
    DRAFT = "draft"
    URL_ERROR = "2025-11-25"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Retry:
    """What an `input_required` retry brings back. `action` is None for a state-only round."""

    elicitation_id: str
    round: int
    action: str | None


def form(ctx: ServerRequestContext[Any, Any], dialect: Dialect) -> Form:
    """Decide what this client understands."""
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    # `elicitation: {}` means form mode only (2025-11-25, client/elicitation).
    url_mode = elicitation is not None and elicitation.url is not None
    if is_modern(ctx):
        return Form.INPUT_REQUIRED if url_mode else Form.TEXT
    if dialect != "auto":
        return Form(dialect)
    if _advertises_track(capabilities):
        return Form.DRAFT
    return Form.URL_ERROR if url_mode else Form.TEXT


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Tell whether the request speaks 2026-07-28, where every request stands alone."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def keeps_scopes(protocol_version: str | None) -> bool:
    """Tell whether clients of a version add the scopes of a challenge to those they have.

    Since 2026-07-28 they do (SEP-2350). Before, the server was to name both (2025-11-25,
    basic/authorization), and a client gave up what it was not told.
    """
    return protocol_version in MODERN_PROTOCOL_VERSIONS


def session_key(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Name the session a handshake-era client speaks on; None where there is none."""
    if is_modern(ctx):
        return None
    headers = getattr(ctx.request, "headers", None)
    return STDIO if headers is None else headers.get("mcp-session-id")


def connection(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """Find the connection of a request, on which it is told of what happens later, and which knows its end."""
    # The SDK hands handlers a session for each request alone, which would keep the whole request.
    return ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def client_name(ctx: ServerRequestContext[Any, Any]) -> str:
    """Tell what the client calls itself: a label, proof of nothing."""
    params = ctx.session.client_params
    if params is None:
        return "An assistant"
    return (params.client_info.title or params.client_info.name or "An assistant")[:64]


def retry(input_responses: Mapping[str, object] | None, request_state: str | None) -> Retry | None:
    """Read what a 2026-07-28 client brings back; the SDK has already verified the state's seal."""
    if request_state is None:
        return None
    try:
        state = json.loads(request_state)
        elicitation_id, rounds = str(state["e"]), int(state["r"])
    except (ValueError, KeyError, TypeError):
        return None
    answer = input_responses.get(INPUT_KEY) if input_responses else None
    return Retry(elicitation_id, rounds, getattr(answer, "action", None))


def render(
    need: ElicitationRequired, form_: Form, *, round_: int = 0
) -> CallToolResult | InputRequiredResult:
    """Tell a client for the first time that a browser visit is needed.

    Raises:
        MCPError: -32000 or -32042, for the handshake-era forms that are errors.
    """
    if form_ is Form.INPUT_REQUIRED:
        params = ElicitRequestURLParams(message=str(need), url=need.url)
        return InputRequiredResult(
            input_requests={INPUT_KEY: ElicitRequest(params=params)},
            request_state=_state(need.elicitation_id, round_ + 1),
        )
    if form_ is Form.TEXT:
        return text(need)
    raise _error(need, form_)


def waiting(
    need: ElicitationRequired, form_: Form, *, round_: int = 0
) -> CallToolResult | InputRequiredResult:
    """Tell a client that was told already, and held, that the visit is still not finished.

    Raises:
        MCPError: As in `render`, with the same URL and id.
    """
    if form_ is Form.INPUT_REQUIRED and round_ + 1 < LAST_ROUND:
        return InputRequiredResult(request_state=_state(need.elicitation_id, round_ + 1))
    if form_ in (Form.INPUT_REQUIRED, Form.TEXT):
        return text(need)
    raise _error(need, form_)


def text(need: ElicitationRequired) -> CallToolResult:
    """Say it in words, for clients that cannot open a page themselves."""
    sentence = f"{need} Open this link in a browser, then call the tool again: {need.url}"
    return CallToolResult(content=[TextContent(type="text", text=sentence)], is_error=True)


def declares_url(capabilities: ClientCapabilities | None) -> bool:
    """Tell whether a client declares URL elicitation; `elicitation: {}` means form mode only (2025-11-25)."""
    return bool(capabilities and capabilities.elicitation and capabilities.elicitation.url is not None)


def advertise(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Add `elicitation.url`, our extension and the lists' changes to what the server says it can do.

    The SDK leaves all of them out of an initialize result: the first is a client capability in the
    released specifications, the second belongs to 2026-07-28, and it does not know of the others.
    Draft clients look for the first two there.
    """
    if method not in ("initialize", "server/discover"):
        return result
    capabilities: dict[str, Any] = dict(result.get("capabilities") or {})
    capabilities["elicitation"] = {"url": {}}
    for listed in ("tools", "prompts", "resources"):
        capabilities[listed] = {**(capabilities.get(listed) or {}), "listChanged": True}
    capabilities["extensions"] = {**(capabilities.get("extensions") or {}), EXTENSION_ID: {}}
    return {**result, "capabilities": capabilities}


def _advertises_track(capabilities: ClientCapabilities | None) -> bool:
    return bool(capabilities and capabilities.extensions and EXTENSION_ID in capabilities.extensions)


def _state(elicitation_id: str, round_: int) -> str:
    return json.dumps({"e": elicitation_id, "r": round_}, separators=(",", ":"))


def _error(need: ElicitationRequired, form_: Form) -> MCPError:
    params = ElicitRequestURLParams(message=str(need), url=need.url, elicitation_id=need.elicitation_id)
    data = {"elicitations": [params.model_dump(by_alias=True, mode="json", exclude_none=True)]}
    if form_ is Form.DRAFT:
        return MCPError(need.code, "Nextcloud access provisioning required", data)
    # Some clients show the message and not the data, so the link stands in both.
    return MCPError(URL_ELICITATION_REQUIRED, f"{need} Open: {need.url}", data)
