"""The HTTP client below the SDK's transports: what goes wrong becomes one sentence, and no answer is endless.

The SDK's transport lets an error of the network end its task group, and with it every call of the connection. So a POST
that fails is answered here, with a JSON-RPC error that holds a token; `Link.fault_of` finds the exception by it.
"""

import json
from collections.abc import AsyncIterator, Callable
from secrets import token_hex
from typing import Any, Final

import anyio
import httpx2

from nextcloud_mcp_server.bridge.certificate import distrusted
from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.errors import (
    AnswerUnreadable,
    AuthorizationFailed,
    NextcloudMcpError,
    TransportFailed,
)
from nextcloud_mcp_server.logs import one_line

SESSION_HEADER: Final = "mcp-session-id"
#: Member of the error data of an answer that was made here.
FAULT_KEY: Final = "nextcloud-mcp-server/fault"
_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_ERRORS: Final = 400
#: What a server, or a proxy before it, answers for now.
_FOR_NOW: Final = frozenset({429, 502, 503, 504})
_REFUSED: Final = _FOR_NOW | {403}
_ACCEPTED: Final = 202
_READ: Final = frozenset({"application/json", "text/event-stream"})
_LONGEST_CHALLENGE: Final = 500
#: What a server still sends on an event stream after its answer: the end of a chunk, or a comment.
_MOST_LEFT: Final = 4_096
_MOST_SECONDS_LEFT: Final = 0.25


class TooMuch(httpx2.StreamError):
    """An answer is larger than the limit; the SDK reports the errors of this kind to the call."""


class HttpClient(httpx2.AsyncClient):
    """A client for one server; `faults` holds what failed, by the token in the answer that stands in for it."""

    def __init__(
        self,
        server: Server,
        *,
        max_bytes: int,
        auth: httpx2.Auth | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        on_fault: Callable[[NextcloudMcpError], None] | None = None,
    ) -> None:
        limit = server.timeout_seconds
        super().__init__(
            # What is compressed can be small here and endless when it is read.
            headers={"accept-encoding": "identity", **server.headers},
            auth=auth,
            # A server may hold a call, and an open stream is silent while nothing happens.
            timeout=httpx2.Timeout(limit, read=max(limit, server.tool_timeout_seconds, 300.0)),
            follow_redirects=False,
            transport=transport,
        )
        self.faults: dict[str, NextcloudMcpError] = {}
        self.session_lost = False
        self._server = server
        self._max_bytes = max_bytes
        self._on_fault = on_fault

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401 - as the base class
        """Send a request; a POST that fails gets an answer that stands in for the one that is missing."""
        if request.method != "POST":
            return self._limited(await super().send(request, **options))
        try:
            response = await super().send(request, **options)
        except NextcloudMcpError as error:
            return self._stand_in(request, error)
        except httpx2.TransportError as error:
            return self._stand_in(request, unreachable(self._server, error))
        fault = self._fault(request, response)
        if fault is None:
            response = _ending(self._limited(response))
            fault = await self._refusal(request, response)
        if fault is None:
            return response
        await response.aclose()
        return self._stand_in(request, fault, response.status_code)

    def _fault(self, request: httpx2.Request, response: httpx2.Response) -> NextcloudMcpError | None:
        """Return what is wrong with an answer that cannot be MCP; None where the SDK understands it."""
        status, kind = response.status_code, _content_type(response)
        fault: NextcloudMcpError | None = None
        if status == _NOT_FOUND and SESSION_HEADER in request.headers:
            self.session_lost = True
        elif status == _UNAUTHORIZED:
            fault = authorization_needed(self._server, response)
        elif response.headers.get("content-encoding", "identity") != "identity":
            fault = AnswerUnreadable(
                f"{_prefix(self._server)} compressed its answer, which was not asked for."
            )
        elif status >= _ERRORS and kind != "application/json":
            fault = TransportFailed(f"{_prefix(self._server)} answered with HTTP status {status}.")
        elif not (kind in _READ or response.is_redirect or status == _ACCEPTED) and _has_id(request):
            what = one_line(kind[:100]) or "text without a type"
            fault = AnswerUnreadable(
                f"{_prefix(self._server)} answered {what}, which is not MCP: check the path of its address."
            )
        return fault

    async def _refusal(self, request: httpx2.Request, response: httpx2.Response) -> NextcloudMcpError | None:
        """Name the status of a refusal in JSON that is no JSON-RPC: the SDK says nothing about it.

        The question that finds the version is left to the SDK, which then tries an older one.
        """
        if response.status_code not in _REFUSED or _content_type(response) != "application/json":
            return None
        try:
            if b'"server/discover"' in request.content or b'"jsonrpc"' in await response.aread():
                return None
        except (httpx2.RequestNotRead, httpx2.StreamError):
            return None
        again = " Try again in a minute." if response.status_code in _FOR_NOW else ""
        return TransportFailed(
            f"{_prefix(self._server)} answered with HTTP status {response.status_code}.{again}"
        )

    def _stand_in(
        self, request: httpx2.Request, error: NextcloudMcpError, status: int = 502
    ) -> httpx2.Response:
        if self._on_fault is not None:
            self._on_fault(error)
        token = token_hex(8)
        self.faults[token] = error
        body = {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": -32603, "message": str(error), "data": {FAULT_KEY: token}},
        }
        # The SDK reads the error of an answer from 400 on as that of the call.
        return httpx2.Response(
            max(status, _ERRORS),
            headers={"content-type": "application/json"},
            content=json.dumps(body).encode(),
            request=request,
        )

    def _limited(self, response: httpx2.Response) -> httpx2.Response:
        # An event stream has no end; each of its events is limited by the SDK.
        if _content_type(response) != "text/event-stream":
            assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - an AsyncClient's answer
            response.stream = _Limited(response.stream, self._max_bytes, self._server)
        return response


class _Limited(httpx2.AsyncByteStream):
    """A body that fails once it is larger than allowed."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int, server: Server) -> None:
        self._stream = stream
        self._left = limit
        self._sentence = f"{_prefix(server)} sent an answer of more than {limit} bytes."

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise TooMuch(self._sentence)
            yield chunk

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()


def _ending(response: httpx2.Response) -> httpx2.Response:
    """Let the event stream of a POST be read to its end when it is closed."""
    if _content_type(response) == "text/event-stream":
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - an AsyncClient's answer
        response.stream = _ReadToItsEnd(response.stream)
    return response


class _ReadToItsEnd(httpx2.AsyncByteStream):
    """An event stream that is left after its answer.

    A server ends it then, which is a few bytes more. Unread, they would cost the connection: each call would open a new
    one.
    """

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream
        self._chunks = aiter(stream)
        self._is_read = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            yield chunk
        self._is_read = True

    async def aclose(self) -> None:
        """Read what is left, for a moment, and close."""
        left = _MOST_LEFT
        try:
            with anyio.move_on_after(_MOST_SECONDS_LEFT):
                while not self._is_read and left > 0:
                    left -= len(await anext(self._chunks))
        except (StopAsyncIteration, httpx2.HTTPError, httpx2.StreamError, RuntimeError):
            # Ended, broken, or still being read by a task that was cancelled.
            pass
        finally:
            await self._stream.aclose()


def unreachable(server: Server, error: httpx2.TransportError) -> TransportFailed:
    """Word an error of the network: which server, and what happened."""
    if (certificate := distrusted(error)) is not None:
        return TransportFailed(
            f'MCP transport error: the certificate of the server "{server.id}" {certificate}'
        )
    what = "did not answer in time" if isinstance(error, httpx2.TimeoutException) else "could not be reached"
    reason = one_line(str(error)).rstrip(".")
    return TransportFailed(f"{_prefix(server)} {what}{f' ({reason})' if reason else ''}.")


def authorization_needed(server: Server, response: httpx2.Response) -> AuthorizationFailed:
    """Word a 401: the challenge says what the server wants, and the command what to do."""
    challenge = one_line(response.headers.get("www-authenticate", "")[:_LONGEST_CHALLENGE])
    asked = f" ({challenge})" if challenge else ""
    return AuthorizationFailed(
        f'MCP auth error: the server "{server.id}" asks for authorization{asked}: set oauth = "auto" for it and run '
        f"`nextcloud-mcp-server client auth {server.id}`, or put a token into its headers."
    )


def _prefix(server: Server) -> str:
    return f'MCP transport error: the server "{server.id}"'


def _content_type(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _has_id(request: httpx2.Request) -> bool:
    """Say whether a message wants an answer; a notification may be answered with anything."""
    try:
        return b'"id"' in request.content
    except httpx2.RequestNotRead:
        return True
