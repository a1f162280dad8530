"""What came back from the server, checked and taken apart."""

import webbrowser
from typing import cast

import httpx2

from nextcloud_mcp_server.demo.wire_client import Message
from nextcloud_mcp_server.errors import NextcloudMcpError, NotAsPromised

#: What a step that does not turn out as promised may raise.
TROUBLES = (
    ExceptionGroup,
    NextcloudMcpError,
    httpx2.HTTPError,
    LookupError,
    ValueError,
    OSError,
    webbrowser.Error,
)


def reason(error: BaseException) -> str:
    """Find the first cause in what several tasks raised, as a sentence."""
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
    """Check what a step promises."""
    if not so:
        raise NotAsPromised(f"{otherwise}.")


def result_of(answer: Message, *, may_fail: bool = False) -> Message:
    """Take the result out of an answer that is no error."""
    if "error" in answer:
        raise NotAsPromised(str(answer["error"]["message"]))
    found: Message = answer["result"]
    if found.get("isError") and not may_fail:
        raise NotAsPromised(words(found))
    return found


def words(result: Message) -> str:
    """Read what a result says in words."""
    return str(result["content"][0]["text"])


def fields(result: Message) -> Message:
    """Read what a result says to programs."""
    found: Message = result["structuredContent"]
    return found
