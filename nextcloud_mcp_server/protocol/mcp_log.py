"""Logs and counts each MCP request.

The log line says who called what, how it ended, and how long it took; never what it contained.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from time import monotonic
from typing import Any, cast

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.auth.principal import PERSONAL_ISSUER, Caller
from nextcloud_mcp_server.telemetry import metrics

logger = logging.getLogger(__name__)

#: Of the methods and names that a client makes up, only so much is logged.
_LONGEST = 100
#: What the parameters of these methods call the object that is named in the log: it stands in a list of this server.
_NAMED = {"tools/call": "tool", "prompts/get": "prompt"}
_UNKNOWN = "(unknown)"
_TRACK = "elicitation/track"
#: The methods that metrics and traces have by name.
METHODS = frozenset(
    {
        "completion/complete",
        _TRACK,
        "initialize",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tasks/cancel",
        "tasks/get",
        "tasks/result",
        "tasks/update",
        "tools/call",
        "tools/list",
    }
)
_ASKED_CODES = frozenset({-32042, -32000})


class McpLog:
    """Middleware of the SDK's server; `known` are the names of tools and prompts, others are logged as unknown."""

    def __init__(
        self,
        caller: Callable[[ServerRequestContext[Any, Any]], Caller],
        *,
        known: Collection[str],
    ) -> None:
        self._caller = caller
        self._known = known

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Handle a request under an id that all its lines share; notifications have no line of their own."""
        if ctx.request_id is None:
            return await call_next(ctx)
        # Always a new one: the task of a session inherits the id of the request that started it.
        token = logs.request_id.set(logs.new_request_id())
        started_at, status = monotonic(), "failed"
        try:
            result = await call_next(ctx)
            status = _status(result)
        except MCPError as error:
            status = _status_of(error.error.code, ctx.method)
            raise
        except anyio.get_cancelled_exc_class():
            status = "cancelled"
            raise
        else:
            return result
        finally:
            self._log(ctx, status, monotonic() - started_at)
            logs.request_id.reset(token)

    def _log(self, ctx: ServerRequestContext[Any, Any], status: str, seconds: float) -> None:
        name = str((ctx.params or {}).get("name")) if ctx.method in _NAMED else ""
        name = name if not name or name in self._known else _UNKNOWN
        _count(ctx.method, name, status, seconds)
        if not logger.isEnabledFor(logging.INFO):
            return
        caller, fields = self._caller(ctx), {"method": ctx.method[:_LONGEST]}
        if name:
            fields[_NAMED[ctx.method]] = name
        if caller.principal.issuer != PERSONAL_ISSUER:
            fields |= {"person": caller.principal.subject, "client_id": caller.client_id}
        fields |= {"client": caller.client_name, "status": status}
        logger.info("request", extra={**fields, "ms": round(seconds * 1000)})


def _count(method: str, name: str, status: str, seconds: float) -> None:
    # A client can make up methods, and each error code is a status: neither may make rows without end.
    known = method if method in METHODS else "other"
    metrics.REQUESTS.add(known, name, "error" if status.startswith("error ") else status)
    metrics.REQUEST_SECONDS.add(known, name, value=seconds)


def _status_of(code: int, method: str) -> str:
    """Return how a request ended with an error; `elicitation/track` uses the code of a question for its time-out."""
    if code in _ASKED_CODES:
        return "timed out" if method == _TRACK else "asked"
    return f"error {code}"


def _status(result: object) -> str:
    """Return how a request ended: `ok`, `tool error`, or `asked` where the user must do something first."""
    if not isinstance(result, Mapping):
        return "ok"
    fields = cast("Mapping[str, object]", result)
    if fields.get("resultType") == "input_required":
        return "asked"
    return "tool error" if fields.get("isError") else "ok"
