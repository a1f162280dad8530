"""Completes MCP's HTTP transport: one message per POST, and one answer per request in every case.

| request | the SDK's behaviour | the answer here |
|---|---|---|
| several messages in one body (a batch) | the text of its validation | one sentence, no id |
| JSON that is no message | the text of its validation | one sentence, no id |
| an id or progress token of megabytes | it is repeated in each answer | one sentence, no id |
| megabytes that are no argument, such as a client's name | a session or stream keeps them | one sentence, no id |
| an id that is in use in this session | its first request is never answered | one sentence, no id |
| a request that the server's stop cuts off | a bare 500, or a stream that just ends | that it can be sent again |
| HEAD, OPTIONS | each mode in its own way | 405 and 204, with the allowed methods |

Sources: MCP 2025-06-18 removed batches from the protocol; 2025-11-25, basic/transports, lets a refusal carry a
JSON-RPC error without id; an id must not be used twice in a session (basic).
"""

import json
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, cast

import anyio
import pydantic_core
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, jsonrpc_message_adapter
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.formats import untrusted
from nextcloud_mcp_server.web.stopping import StopState

#: The key of the ASGI scope in which the first layer that parses the message stores it.
MESSAGE = "nextcloud_mcp_server.message"

#: Is answered by a stream without an end, as GET is.
_STREAM = "subscriptions/listen"
METHODS = "GET, POST, DELETE, OPTIONS"

_RETRY_AFTER_SECONDS = 5
_BATCH = "This server takes one JSON-RPC message for each request, no batches: send each message on its own."
_NO_MESSAGE = (
    "The body is no JSON-RPC 2.0 message: send one object with jsonrpc, method and, for a request, a string or a whole "
    "number as id."
)
#: Both come back in every answer; real ones are numbers or UUIDs.
_LONGEST_ID = 1_000
_LONG_ID = f"An id or a progress token cannot be longer than {_LONGEST_ID:,} characters."
#: Only arguments are long. What else a message holds is kept for as long as its session, stream or task, in several
#: copies: a name of 4 MB took 50 MB for each of 25 sessions.
_MOST_BYTES = 65_536
_MOST_ELEMENTS = 1_000
_LONG_MESSAGE = (
    f"Besides its arguments, a message cannot have more than {_MOST_BYTES:,} bytes or {_MOST_ELEMENTS:,} "
    "elements."
)
_WITH_ARGUMENTS = frozenset({"tools/call", "prompts/get"})
_TWICE = "A request with this id is still under way in this session: give each request an id of its own."
_CUT_OFF = (
    "The server is restarting, and this request was not finished. Send it again in a few seconds; if it was to change "
    "something, read first whether that is done already."
)
_ENDED = (
    "The session or the sign-in of this request has ended, and the request was not finished. Send it again in a new "
    "session; if it was to change something, read first whether that is done already."
)


class Exchanges:
    """Wraps the MCP endpoint, inside the layer that verifies tokens."""

    def __init__(self, app: ASGIApp, stop_state: StopState) -> None:
        self._app = app
        self._stop_state = stop_state
        self._under_way: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in the application's place, or run it."""
        if scope["method"] == "OPTIONS":
            await Response(status_code=204, headers={"Allow": METHODS})(scope, receive, send)
        elif scope["method"] == "HEAD":
            # GET opens a stream, which has no length for HEAD to report.
            await Response(status_code=405, headers={"Allow": METHODS})(scope, receive, send)
        elif scope["method"] == "POST":
            await self._post(scope, receive, send)
        elif scope["method"] == "GET":
            with self._stop_state.stream():
                await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _whole(receive)
        if body is None:
            return
        receive = _again(body, receive)
        try:
            message = scope[MESSAGE] if MESSAGE in scope else cast("object", pydantic_core.from_json(body))
        except ValueError:
            # The SDK reports where the JSON is invalid.
            await self._app(scope, receive, send)
            return
        refusal = _refusal(message) or (_LONG_MESSAGE if _is_too_long(message, body) else None)
        if refusal is not None:
            await _error(None, INVALID_REQUEST, refusal, 400)(scope, receive, send)
            return
        fields, scope = cast("dict[str, Any]", message), {**scope, MESSAGE: message}
        request_id = fields.get("id") if "method" in fields else None
        with self._stop_state.stream() if fields.get("method") == _STREAM else nullcontext():
            await self._once(request_id, scope, receive, send)

    async def _once(self, request_id: object, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a message on, unless its session has a request with this id already."""
        session = Headers(scope=scope).get("mcp-session-id")
        # The SDK stores the requests of a session by the text of their ids.
        key = (session, str(request_id)) if session and request_id is not None else None
        if key is None:
            await self._answered(request_id, scope, receive, send)
        elif key in self._under_way:
            await _error(None, INVALID_REQUEST, _TWICE, 400)(scope, receive, send)
        else:
            self._under_way.add(key)
            try:
                await self._answered(request_id, scope, receive, send)
            finally:
                self._under_way.discard(key)

    async def _answered(self, request_id: object, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, and complete the answer if it did not."""
        answer = _Answer(send, self._stop_state)
        try:
            await self._app(scope, receive, answer.send)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await answer.end(request_id, scope, receive)
            raise
        await answer.end(request_id, scope, receive)


class _Answer:
    """How far an answer was sent."""

    def __init__(self, send: Send, stop_state: StopState) -> None:
        self._send = send
        self._stop_state = stop_state
        self._streams = self._started = self._ended = False

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        await self._send(message)
        if message["type"] == "http.response.start":
            self._started = True
            self._streams = (
                Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
            )
        else:
            self._ended = not message.get("more_body", False)

    async def end(self, request_id: object, scope: Scope, receive: Receive) -> None:
        """Report that the answer was cut off, if it is incomplete and the client still connected."""
        why = _CUT_OFF if self._stop_state.is_stopping else _ENDED
        if not self._started:
            response = _error(request_id, INTERNAL_ERROR, why, 503)
            response.headers["Retry-After"] = str(_RETRY_AFTER_SECONDS)
            await response(scope, receive, self._send)
        elif self._streams and not self._ended:
            event = f"event: message\r\ndata: {json.dumps(_body(request_id, INTERNAL_ERROR, why))}\r\n\r\n"
            await self._send({"type": "http.response.body", "body": event.encode(), "more_body": False})


def _refusal(message: object) -> str | None:
    """Return why a parsed body is not one message; None if it is."""
    if isinstance(message, list):
        return _BATCH
    try:
        jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        return _NO_MESSAGE
    fields = cast("dict[str, Any]", message)
    # The SDK treats a request with another type of id as a notification, and does not answer it.
    strange = "method" in fields and type(fields.get("id", 0)) not in (str, int)
    if strange:
        return _NO_MESSAGE
    return _LONG_ID if any(_is_long(each) for each in (fields.get("id"), _progress_token(fields))) else None


def _is_too_long(message: object, body: bytes) -> bool:
    """Tell whether a message has too much besides the arguments of a tool or prompt."""
    if len(body) <= _MOST_BYTES and not untrusted.has_more_elements(body, _MOST_ELEMENTS):
        return False
    fields = cast("dict[str, Any]", message)
    params = fields.get("params")
    if fields.get("method") not in _WITH_ARGUMENTS or not isinstance(params, dict):
        return True
    others = {name: each for name, each in cast("dict[str, Any]", params).items() if name != "arguments"}
    rest = pydantic_core.to_json({**fields, "params": others}, inf_nan_mode="constants")
    return len(rest) > _MOST_BYTES or untrusted.has_more_elements(rest, _MOST_ELEMENTS)


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > _LONGEST_ID


def _progress_token(fields: dict[str, Any]) -> object:
    found: object = fields
    for name in ("params", "_meta", "progressToken"):
        found = cast("dict[str, object]", found).get(name) if isinstance(found, dict) else None
    return found


async def _whole(receive: Receive) -> bytes | None:
    """Read a body; None if the client has disconnected."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return a `receive` that gives the body once more, then the next messages, such as a disconnect."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


def _body(request_id: object, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _error(request_id: object, code: int, message: str, status: int) -> JSONResponse:
    return JSONResponse(_body(request_id, code, message), status)
