"""Protocol version and client capability → the wire form of an elicitation. Only this module compares them.

| client | form |
|---|---|
| 2026-07-28 with `elicitation.url` | INPUT_REQUIRED: an `input_required` result; its retry is held |
| handshake era with this server's extension, or `draft` forced | DRAFT: error -32000, then `elicitation/track` |
| 2025-11-25 with `elicitation.url`, or forced for it | URL_ERROR: error -32042, then a notification |
| all others, or `text` forced | TEXT: a tool error whose text holds the link |

A forced dialect applies to handshake-era clients only: 2026-07-28 forbids -32042 and discourages -32000.
Versions before 2025-11-25 have neither URL mode nor -32042, whatever a client declares. A client whose own form
brought no answer from the user gets TEXT for that consent request from then on.

Sources: SEP-1036 (draft of November 2025), MCP 2025-11-25 and 2026-07-28, client/elicitation.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal, cast

from mcp.server.connection import Connection
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    SERVER_INFO_META_KEY,
    CallToolResult,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestURLParams,
    InputRequiredResult,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from nextcloud_mcp_server.errors import ElicitationRequired, Link
from nextcloud_mcp_server.nextcloud.sanitize import escaped_start
from nextcloud_mcp_server.protocol import icons

EXTENSION_ID = "io.github.nextcloud-mcp-server/elicitation-track"

URL_ELICITATION_REQUIRED = -32042

#: The name of the one input request in an `input_required` result.
INPUT_KEY = "provision"

#: The SDK's client gives up after ten rounds; the last answer before that must be one that a model can use.
LAST_ROUND = 9

#: Clients that get the link as text are held for a shorter time: some end a call after five seconds. Those that
#: ask for progress are held as long as the others.
TEXT_HOLD_SECONDS = 4.0

#: A faster decline is the client's own: no user reads the question and decides in less.
INSTANT_SECONDS = 2.0

#: The versions of the handshake era that have URL mode and -32042.
URL_MODE_VERSIONS = frozenset({"2025-11-25"})

#: The extension for tasks of 2026-07-28 (ext-tasks, "Extension Identifier").
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

#: The versions whose tasks are a part of the protocol itself (2025-11-25, basic/utilities/tasks).
TASK_VERSIONS = frozenset({"2025-11-25"})

#: The sentence behind each link to a consent request.
THEN = "When that is done, call the tool again."

_FIRST_WITH_ICONS = "2025-11-25"

#: The key of the one session over stdio.
STDIO = "stdio"

Dialect = Literal["auto", "draft", "2025-11-25", "text"]


class Form(Enum):
    """The wire form of an elicitation."""

    INPUT_REQUIRED = "2026-07-28"
    DRAFT = "draft"
    URL_ERROR = "2025-11-25"
    TEXT = "text"


class TaskForm(Enum):
    """The wire form of tasks."""

    EXTENSION = "io.modelcontextprotocol/tasks"
    CORE = "2025-11-25"


@dataclass(frozen=True, slots=True)
class Retry:
    """The content of an `input_required` retry. `action` is None for a state-only round.

    `asked_at` is when the URL was sent; None in a state of an earlier release.
    """

    elicitation_id: str
    round: int
    action: str | None
    asked_at: datetime | None = None

    def declined(self, now: datetime) -> bool:
        """Tell whether the user declined; a decline by the client itself does not count."""
        return self.action == "decline" and (self.asked_at is None or not is_instant(self.asked_at, now))


def form(ctx: ServerRequestContext[Any, Any], dialect: Dialect) -> Form:
    """Choose the form that this client understands."""
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    # `elicitation: {}` means form mode only (2025-11-25, client/elicitation).
    url_mode = elicitation is not None and elicitation.url is not None
    if is_modern(ctx):
        return Form.INPUT_REQUIRED if url_mode else Form.TEXT
    asked = Form.URL_ERROR if url_mode else Form.TEXT
    if dialect != "auto":
        asked = Form(dialect)
    elif _advertises_track(capabilities):
        asked = Form.DRAFT
    if asked is Form.URL_ERROR and ctx.protocol_version not in URL_MODE_VERSIONS:
        return Form.TEXT
    return asked


def task_form(ctx: ServerRequestContext[Any, Any]) -> TaskForm | None:
    """Tell in which form this client takes tasks: by its request, or by the version that has them; None for no task.

    A client of the extension says so in each request, and a server must not return a task to any other ("Capability
    Negotiation").
    """
    if ctx.protocol_version in TASK_VERSIONS:
        return TaskForm.CORE
    capabilities = ctx.session.client_capabilities
    declared = bool(capabilities and capabilities.extensions and TASKS_EXTENSION in capabilities.extensions)
    return TaskForm.EXTENSION if is_modern(ctx) and declared else None


def is_instant(asked_at: datetime, now: datetime) -> bool:
    """Tell whether an answer came sooner than a user can give one."""
    return (now - asked_at).total_seconds() < INSTANT_SECONDS


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Tell whether the request uses 2026-07-28, where requests have no session."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def keeps_scopes(protocol_version: str | None) -> bool:
    """Tell whether clients of a version add the scopes of a challenge to those they have.

    Since 2026-07-28 they do (SEP-2350). Before, the server had to name both (2025-11-25, basic/authorization),
    and a client dropped the scopes that were not named.
    """
    return protocol_version in MODERN_PROTOCOL_VERSIONS


def takes_icons(protocol_version: str | None) -> bool:
    """Tell whether a version has icons: since 2025-11-25."""
    # Versions are dates in a format that sorts as text.
    return (protocol_version or "") >= _FIRST_WITH_ICONS


def session_key(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the key of a handshake-era client's session; None if there is none."""
    if is_modern(ctx):
        return None
    headers = getattr(ctx.request, "headers", None)
    return STDIO if headers is None else headers.get("mcp-session-id")


def connection(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """Return the connection of a request, which outlives it: for later notifications, and for its end."""
    # The SDK passes handlers a session object per request, which would keep the whole request in memory.
    return ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def client_name(ctx: ServerRequestContext[Any, Any]) -> str:
    """Return the name that the client gives itself; it proves nothing."""
    params = ctx.session.client_params
    if params is None:
        # `initialize` itself, whose parameters the SDK has not checked yet.
        return _name_of((ctx.params or {}).get("clientInfo") if ctx.method == "initialize" else None)
    return _shown_name(params.client_info.title or params.client_info.name)


def _name_of(info: object) -> str:
    fields = cast("Mapping[str, object]", info if isinstance(info, Mapping) else {})
    written = fields.get("title") or fields.get("name")
    return _shown_name(written if isinstance(written, str) else "")


def _shown_name(name: str) -> str:
    return escaped_start(name.strip(), 64) or "An assistant"


def retry(input_responses: Mapping[str, object] | None, request_state: str | None) -> Retry | None:
    """Parse the retry of a 2026-07-28 client; the SDK has already verified the state's seal."""
    if request_state is None:
        return None
    try:
        state = json.loads(request_state)
        elicitation_id, rounds = str(state["e"]), int(state["r"])
        asked_at = datetime.fromtimestamp(state["t"] / 1000, UTC) if "t" in state else None
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return None
    answer = input_responses.get(INPUT_KEY) if input_responses else None
    return Retry(elicitation_id, rounds, getattr(answer, "action", None), asked_at)


def render(
    need: ElicitationRequired, form_: Form, *, round_: int = 0, now: datetime
) -> CallToolResult | InputRequiredResult:
    """Build the first answer that a consent request is needed.

    Raises:
        MCPError: -32000 or -32042, for the handshake-era forms that are errors.
    """
    if form_ is Form.INPUT_REQUIRED:
        params = ElicitRequestURLParams(message=str(need), url=need.url)
        return InputRequiredResult(
            input_requests={INPUT_KEY: ElicitRequest(params=params)},
            request_state=_state(need.elicitation_id, round_ + 1, now),
        )
    if form_ is Form.TEXT:
        return text(need)
    raise _error(need, form_)


def waiting(
    need: ElicitationRequired, form_: Form, *, round_: int = 0
) -> CallToolResult | InputRequiredResult:
    """Build the answer, to a client that has the link and was held, that the request is not finished.

    An error that brought no answer is not repeated: the model of such a client may never have seen the link.
    """
    if form_ is Form.INPUT_REQUIRED and round_ + 1 < LAST_ROUND:
        return InputRequiredResult(request_state=_state(need.elicitation_id, round_ + 1))
    return text(need)


def with_link(sentence: str, link: Link) -> str:
    """Write a link for a model or a terminal: on a line of its own, with a line of text behind it.

    Some clients glue other data to the end of a message, and a link there would lead elsewhere.
    """
    return f"{sentence}\n\n{link.url}\n\n{link.then}"


def text(need: ElicitationRequired) -> CallToolResult:
    """Build a text answer, for clients that cannot open a page themselves, or did not show it to the user."""
    said = f"{need.unanswered} {need}".strip()
    sentence = with_link(f"{said} The user opens this link in a browser:", Link(need.url, THEN))
    return CallToolResult(content=[TextContent(type="text", text=sentence)], is_error=True)


def declares_url(capabilities: ClientCapabilities | None) -> bool:
    """Tell whether a client declares URL elicitation; `elicitation: {}` means form mode only (2025-11-25)."""
    return bool(capabilities and capabilities.elicitation and capabilities.elicitation.url is not None)


def advertise(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Add `elicitation.url`, this server's extension and `listChanged` to the server's capabilities.

    The SDK leaves all of them out of an initialize result: the first is a client capability in the released
    specifications, the second belongs to 2026-07-28, and it does not know of the others. Draft clients look for
    the first two there.
    """
    if method not in ("initialize", "server/discover"):
        return result
    capabilities: dict[str, Any] = dict(result.get("capabilities") or {})
    capabilities["elicitation"] = {"url": {}}
    for listed in ("tools", "prompts", "resources"):
        capabilities[listed] = {**(capabilities.get(listed) or {}), "listChanged": True}
    capabilities["extensions"] = {**(capabilities.get("extensions") or {}), EXTENSION_ID: {}}
    return {**_named(method, result), "capabilities": capabilities}


def advertise_tasks(result: HandlerResult) -> HandlerResult:
    """Add tasks to the server's capabilities, in the version that has them there (2025-11-25, "Capabilities").

    There is no `list`: nothing lists tasks.
    """
    if not isinstance(result, dict) or result["protocolVersion"] not in TASK_VERSIONS:
        return result
    capabilities: dict[str, Any] = dict(result.get("capabilities") or {})
    capabilities["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    return {**result, "capabilities": capabilities}


def _named(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Add icons to the server's description; 2026-07-28 has that in the result's metadata."""
    if method == "server/discover":
        meta = result["_meta"]
        return {
            **result,
            "_meta": {**meta, SERVER_INFO_META_KEY: icons.with_icons(meta[SERVER_INFO_META_KEY])},
        }
    if not takes_icons(result["protocolVersion"]):
        return result
    return {**result, "serverInfo": icons.with_icons(result["serverInfo"])}


def _advertises_track(capabilities: ClientCapabilities | None) -> bool:
    return bool(capabilities and capabilities.extensions and EXTENSION_ID in capabilities.extensions)


def _state(elicitation_id: str, round_: int, asked_at: datetime | None = None) -> str:
    state: dict[str, object] = {"e": elicitation_id, "r": round_}
    if asked_at is not None:
        state["t"] = round(asked_at.timestamp() * 1000)
    return json.dumps(state, separators=(",", ":"))


class Question(MCPError):
    """An elicitation in a form that is an error; its data holds a link of this server, and no text of a client."""


def _error(need: ElicitationRequired, form_: Form) -> Question:
    params = ElicitRequestURLParams(message=str(need), url=need.url, elicitation_id=need.elicitation_id)
    data = {"elicitations": [params.model_dump(by_alias=True, mode="json", exclude_none=True)]}
    if form_ is Form.DRAFT:
        return Question(need.code, "Nextcloud access provisioning required", data)
    # Some clients show the message and not the data, so both contain the link.
    message = with_link(f"{need} The user opens this link in a browser:", Link(need.url, THEN))
    return Question(URL_ELICITATION_REQUIRED, message, data)
