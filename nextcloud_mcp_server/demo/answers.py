"""Checks and parses the responses of the server."""

import webbrowser
from typing import cast

import httpx2

from nextcloud_mcp_server.demo.wire_client import Message
from nextcloud_mcp_server.errors import NextcloudMcpError, NotAsPromised

#: The errors that a step may raise when it fails.
STEP_ERRORS = (
    ExceptionGroup,
    NextcloudMcpError,
    httpx2.HTTPError,
    LookupError,
    ValueError,
    OSError,
    webbrowser.Error,
)


def reason(error: BaseException) -> str:
    """Return the first cause of an error of several tasks, as a sentence."""
    if isinstance(error, BaseExceptionGroup):
        return reason(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    if isinstance(error, NextcloudMcpError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "it took too long."
    if isinstance(error, LookupError):
        return f"an answer lacks {error}."
    return f"{type(error).__name__}: {error}"


def expect(so: bool, otherwise: str) -> None:  # noqa: FBT001 - reads like an assert
    """Raise NotAsPromised with `otherwise` unless `so` holds."""
    if not so:
        raise NotAsPromised(f"{otherwise}.")


def result_of(answer: Message, *, may_fail: bool = False) -> Message:
    """Return the result in a response, which must not be an error."""
    if "error" in answer:
        raise NotAsPromised(str(answer["error"]["message"]))
    found: Message = answer["result"]
    if found.get("isError") and not may_fail:
        raise NotAsPromised(words(found))
    return found


def words(result: Message) -> str:
    """Return the text content of a result."""
    return str(result["content"][0]["text"])


def fields(result: Message) -> Message:
    """Return the structured content of a result."""
    found: Message = result["structuredContent"]
    return found
