"""The two eras of the protocol: a handshake up to 2025-11-25, and an envelope in every request since 2026-07-28.

The bridge speaks to a remote server in the era of the chat client where it can, so that messages pass as they are.
Only where the remote server knows the other era alone are the envelope and the handshake translated here.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)

#: One JSON object of a message.
Message = dict[str, Any]

#: The capability of clients that know `elicitation/track` of SEP-1036's draft.
TRACK_EXTENSION = "io.github.nextcloud-mcp-server/elicitation-track"

#: The extension of servers that run calls as tasks (2026-07-28).
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

_ENVELOPE = (
    PROTOCOL_VERSION_META_KEY,
    CLIENT_INFO_META_KEY,
    CLIENT_CAPABILITIES_META_KEY,
    LOG_LEVEL_META_KEY,
)
#: Results that 2026-07-28 lets clients keep, which an older server says nothing about.
_KEPT = frozenset(
    {
        "server/discover",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
    }
)
_DISCOVER_SECONDS = 10.0
_NAMED = {**NAME_BEARING_METHODS, "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}


@dataclass(frozen=True, slots=True)
class Hello:
    """How a chat client described itself, in its handshake or in the envelope of a request."""

    version: str
    capabilities: Message
    info: Message

    @property
    def modern(self) -> bool:
        """Tell whether the chat client sends an envelope instead of a handshake."""
        return self.version in MODERN_PROTOCOL_VERSIONS

    @property
    def shows_urls(self) -> bool:
        """Tell whether the chat client can show URL elicitations; `elicitation: {}` means forms only."""
        return "url" in as_object(self.capabilities.get("elicitation"))

    @property
    def shows_forms(self) -> bool:
        """Tell whether the chat client can show form elicitations."""
        asked = self.capabilities.get("elicitation")
        return isinstance(asked, dict) and (not asked or "form" in asked)

    def can(self, capability: str) -> bool:
        """Tell whether the chat client declares a capability."""
        return isinstance(self.capabilities.get(capability), dict)


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a remote server and the bridge agreed on: the version, and the server's description as it was sent."""

    version: str
    described: Message

    @property
    def modern(self) -> bool:
        """Tell whether the remote server takes an envelope."""
        return self.version in MODERN_PROTOCOL_VERSIONS

    @property
    def capabilities(self) -> Message:
        """The capabilities of the remote server."""
        return as_object(self.described.get("capabilities"))

    @property
    def server_info(self) -> Message:
        """The name and version of the remote server."""
        stamped = as_object(self.described.get("_meta")).get(SERVER_INFO_META_KEY)
        return as_object(stamped if self.modern else self.described.get("serverInfo"))

    def without(self, hidden: Container[str]) -> Self:
        """Leave out capabilities that the chat client is not to see."""
        shown = {name: value for name, value in self.capabilities.items() if name not in hidden}
        return replace(self, described={**self.described, "capabilities": shown})


@dataclass(slots=True)
class Envelope:
    """Writes the requests to one remote server: their metadata and, over HTTP, their headers."""

    agreement: Agreement
    hello: Hello
    offered: Message
    log_level: str | None = None
    #: Whether tools run as tasks (2025-11-25), by tool.
    task_support: dict[str, str] = field(default_factory=dict[str, str])
    #: The arguments of tools that belong into headers, by tool.
    header_arguments: dict[str, dict[tuple[str, ...], str]] = field(
        default_factory=dict[str, dict[tuple[str, ...], str]]
    )

    def write(self, method: str, params: Mapping[str, Any] | None) -> tuple[Message | None, CallOptions]:
        """Return the parameters and the options of a request, in the era of the remote server."""
        version = self.agreement.version
        if not self.agreement.modern:
            bare = without_envelope(params) if self.hello.modern else params
            sent = None if bare is None else dict(bare)
            return sent, {"headers": {MCP_PROTOCOL_VERSION_HEADER: version}}
        written = dict(params or {})
        stamp = {
            PROTOCOL_VERSION_META_KEY: version,
            CLIENT_INFO_META_KEY: self.hello.info,
            CLIENT_CAPABILITIES_META_KEY: self.offered,
        }
        given = as_object(written.get("_meta"))
        meta = stamp | given
        if not self.hello.modern:
            # The bridge waits for tasks in place of a chat client that cannot know them.
            meta[CLIENT_CAPABILITIES_META_KEY] = with_tasks(self.offered)
        elif self.offered is not self.hello.capabilities:
            has_tasks = names_tasks(as_object(given.get(CLIENT_CAPABILITIES_META_KEY)))
            meta[CLIENT_CAPABILITIES_META_KEY] = with_tasks(self.offered) if has_tasks else self.offered
        if self.log_level is not None:
            meta.setdefault(LOG_LEVEL_META_KEY, self.log_level)
        written["_meta"] = meta
        return written, {"headers": self._headers(method, written)}

    def learn(self, result: Message) -> None:
        """Remember from a list of tools which arguments belong into headers (SEP-2243), and which run as tasks."""
        for tool in as_list(result.get("tools")):
            name, schema = str(as_object(tool).get("name")), as_object(tool).get("inputSchema")
            if find_invalid_x_mcp_header(schema) is None and (found := x_mcp_header_map(schema)):
                self.header_arguments[name] = found
            if isinstance(support := as_object(as_object(tool).get("execution")).get("taskSupport"), str):
                self.task_support[name] = support

    def _headers(self, method: str, params: Message) -> dict[str, str]:
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.agreement.version, MCP_METHOD_HEADER: method}
        name = params.get(_NAMED.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if method == "tools/call" and name in self.header_arguments:
                arguments = as_object(params.get("arguments"))
                headers |= mcp_param_headers(self.header_arguments[name], arguments)
        return headers


def hello_of(method: str, params: Mapping[str, Any] | None) -> Hello | None:
    """Read how a chat client describes itself in a request; None if it does not.

    Raises:
        MCPError: The request has an envelope of a version that this program does not know.
    """
    given = params or {}
    if method == "initialize":
        version = given.get("protocolVersion")
        known = version if version in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        return Hello(str(known), as_object(given.get("capabilities")), as_object(given.get("clientInfo")))
    meta = as_object(given.get("_meta"))
    version = meta.get(PROTOCOL_VERSION_META_KEY)
    if not isinstance(version, str):
        return None
    if version not in MODERN_PROTOCOL_VERSIONS:
        known = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]
        raise MCPError(
            UNSUPPORTED_PROTOCOL_VERSION,
            f"This bridge does not speak version {version[:40]!r} of MCP.",
            {"supported": known, "requested": version[:40]},
        )
    return Hello(
        version, as_object(meta.get(CLIENT_CAPABILITIES_META_KEY)), as_object(meta.get(CLIENT_INFO_META_KEY))
    )


def without_envelope(params: Mapping[str, Any] | None) -> Message | None:
    """Remove the envelope of 2026-07-28 from the parameters of a request."""
    if params is None or "_meta" not in params:
        return None if params is None else dict(params)
    rest = {key: value for key, value in as_object(params["_meta"]).items() if key not in _ENVELOPE}
    return {key: value for key, value in params.items() if key != "_meta"} | ({"_meta": rest} if rest else {})


def for_chat(method: str, result: Message, hello: Hello, agreement: Agreement) -> Message:
    """Add to a result of an older server what 2026-07-28 requires; all other results stay as they are."""
    if not hello.modern or agreement.modern:
        return result
    kept = {"ttlMs": 0, "cacheScope": "private"} if method in _KEPT else {}
    return {"resultType": "complete", **kept, **result}


def offered(hello: Hello, *, acts: bool) -> Message:
    """Return the capabilities that a remote server gets to see: the chat client's, and those of the bridge.

    `acts` says that the bridge opens pages in place of a chat client that cannot.
    """
    if not acts:
        return hello.capabilities
    forms: Message = {"form": {}} if hello.shows_forms else {}
    elicitation: Message = {**forms, **as_object(hello.capabilities.get("elicitation")), "url": {}}
    extensions: Message = {**as_object(hello.capabilities.get("extensions")), TRACK_EXTENSION: {}}
    return {**hello.capabilities, "elicitation": elicitation, "extensions": extensions}


def names_tasks(capabilities: Message) -> bool:
    """Tell whether capabilities name the extension for tasks of 2026-07-28."""
    return TASKS_EXTENSION in as_object(capabilities.get("extensions"))


def with_tasks(capabilities: Message) -> Message:
    """Return capabilities that name this extension, too."""
    return {**capabilities, "extensions": {TASKS_EXTENSION: {}, **as_object(capabilities.get("extensions"))}}


async def agree(
    dispatcher: JSONRPCDispatcher, hello: Hello, capabilities: Message, *, acts: bool
) -> Agreement:
    """Agree with a remote server on a version: first in the era of the chat client, then in the other.

    Raises:
        MCPError: The server refused both; the error is that of the first.
    """
    try:
        if hello.modern:
            return await _discover(dispatcher, hello, capabilities)
        return await _handshake(dispatcher, hello, capabilities, acts=acts)
    except MCPError as error:
        try:
            if hello.modern:
                return await _handshake(dispatcher, hello, capabilities, acts=acts)
            return await _discover(dispatcher, hello, capabilities)
        except MCPError:
            raise error from None


async def _discover(dispatcher: JSONRPCDispatcher, hello: Hello, capabilities: Message) -> Agreement:
    agreement = Agreement(LATEST_MODERN_VERSION, {})
    params, options = Envelope(agreement, hello, capabilities).write("server/discover", {})
    patient: CallOptions = {**options, "timeout": _DISCOVER_SECONDS, "cancel_on_abandon": False}
    try:
        answer = await dispatcher.send_raw_request("server/discover", params, patient)
    except MCPError as error:
        # A server that refuses a version names those that it speaks, and the client tries one of them.
        if error.code != UNSUPPORTED_PROTOCOL_VERSION or LATEST_MODERN_VERSION not in as_list(
            as_object(error.error.data).get("supported")
        ):
            raise
        answer = await dispatcher.send_raw_request("server/discover", params, patient)
    known = as_list(answer.get("supportedVersions"))
    if LATEST_MODERN_VERSION not in known:
        raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, f"The server speaks only the versions {known!r:.200}.")
    return Agreement(LATEST_MODERN_VERSION, answer)


async def _handshake(
    dispatcher: JSONRPCDispatcher, hello: Hello, capabilities: Message, *, acts: bool
) -> Agreement:
    # Only the newest version of this era has -32042, so a bridge that opens pages asks for it.
    version = LATEST_HANDSHAKE_VERSION if acts or hello.modern else hello.version
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": hello.info}
    answer = await dispatcher.send_raw_request("initialize", params, {"cancel_on_abandon": False})
    agreed = answer.get("protocolVersion")
    if agreed not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise MCPError(
            UNSUPPORTED_PROTOCOL_VERSION,
            f"The server answered with version {str(agreed)[:40]!r} of MCP, which this bridge does not speak.",
        )
    await dispatcher.notify(
        "notifications/initialized", None, {"headers": {MCP_PROTOCOL_VERSION_HEADER: str(agreed)}}
    )
    return Agreement(str(agreed), answer)


def as_object(value: object) -> Message:
    """Return a JSON object, or an empty one in place of anything else."""
    return cast("Message", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a JSON array, or an empty one in place of anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []
