"""What went wrong on a connection, as one sentence and as the exception that a caller can tell apart."""

import json
from typing import Final, cast

import httpx2
from mcp import MCPError
from mcp.client import InputRequiredRoundsExceededError
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT, UNSUPPORTED_PROTOCOL_VERSION
from pydantic import ValidationError

from nextcloud_mcp_server.bridge.http_client import FAULT_KEY, unreachable
from nextcloud_mcp_server.bridge.link import SPOKEN_VERSIONS, Link
from nextcloud_mcp_server.errors import (
    AnswerLate,
    AnswerUnreadable,
    ElicitationFailed,
    NextcloudMcpError,
    ProtocolVersionRefused,
    TransportFailed,
)
from nextcloud_mcp_server.logs import one_line, redact

_LONGEST: Final = 300


def from_group(error: BaseException) -> BaseException:
    """Return the first of what a task group gathered; any other exception as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def explained(error: BaseException, link: Link, method: str) -> BaseException:
    """Return what to raise in place of an error of the SDK; an answer of the server stays as it is."""
    error = from_group(error)
    name = link.server.id
    if isinstance(error, MCPError):
        return _answered(error, link, method)
    if isinstance(error, httpx2.HTTPStatusError):
        return _status(error, link)
    if isinstance(error, httpx2.TransportError) and not isinstance(error, httpx2.SSEError):
        return link.fault or unreachable(link.server, error)
    if isinstance(error, RuntimeError) and "protocol version" in str(error):
        return version_refused(str(error).rpartition(":")[2])
    for kind, words, cause, sentence in _UNREADABLE:
        if isinstance(error, kind) and words in str(error):
            return cause(sentence.format(name=name, method=method))
    return error


_UNREADABLE: Final[tuple[tuple[type[Exception], str, type[NextcloudMcpError], str], ...]] = (
    (
        InputRequiredRoundsExceededError,
        "",
        ElicitationFailed,
        'MCP elicitation error: the server "{name}" asks again and again.',
    ),
    (
        ValidationError,
        "",
        AnswerUnreadable,
        'MCP transport error: the server "{name}" answered {method} with what the protocol does not have.',
    ),
    (
        RuntimeError,
        "structured content",
        AnswerUnreadable,
        'MCP transport error: a result of the server "{name}" does not fit the schema of its tool.',
    ),
    (
        RuntimeError,
        "Invalid schema for tool",
        AnswerUnreadable,
        'MCP transport error: a tool of the server "{name}" has a schema of results that is not valid.',
    ),
    (
        httpx2.SSEError,
        "",
        AnswerUnreadable,
        'MCP transport error: the server "{name}" sent no event stream: check the path of its address.',
    ),
)


def _answered(error: MCPError, link: Link, method: str) -> BaseException:
    """Tell an error that the SDK or our HTTP client made apart from an answer of the server."""
    name = link.server.id
    data: object = error.data
    told = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    token = told.get(FAULT_KEY)
    if isinstance(token, str) and (fault := link.fault_of(token)) is not None:
        return fault
    if error.code == REQUEST_TIMEOUT and data is None:
        return AnswerLate(f"MCP timeout: server={name}, method={method}.")
    if error.code == CONNECTION_CLOSED and data is None and link.is_over:
        return link.fault or TransportFailed(
            f'MCP transport error: the server "{name}" closed the connection.'
        )
    if error.code == PARSE_ERROR and error.message.startswith("Failed to parse"):
        too_much = "of more than" in error.message
        sentence = error.message.partition(": ")[2] if too_much else f'the server "{name}" sent no JSON-RPC.'
        return AnswerUnreadable(sentence if too_much else f"MCP transport error: {sentence}")
    supported = told.get("supported")
    if error.code == UNSUPPORTED_PROTOCOL_VERSION and isinstance(supported, list):
        return version_refused(", ".join(str(version) for version in cast("list[object]", supported)))
    return error


def _status(error: httpx2.HTTPStatusError, link: Link) -> NextcloudMcpError:
    location = error.response.headers.get("location")
    where = f", a redirect to {_short(location)} that is not followed" if location else ""
    return link.fault or TransportFailed(
        f'MCP transport error: the server "{link.server.id}" answered with HTTP status '
        f"{error.response.status_code}{where}."
    )


def version_refused(got: str) -> ProtocolVersionRefused:
    """Name the versions of both sides."""
    return ProtocolVersionRefused(
        f"MCP protocol version mismatch: expected one of {json.dumps(SPOKEN_VERSIONS)}, got {_short(got.strip())}"
    )


def sentence_of(error: Exception) -> str:
    """Return what a server's error says, as one line for a user."""
    text = error.message if isinstance(error, MCPError) else str(error)
    return f"MCP error: {_short(text).rstrip('.')}."


def _short(text: str) -> str:
    line = one_line(redact(" ".join(text.split())))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
