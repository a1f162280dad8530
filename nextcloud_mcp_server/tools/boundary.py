"""Connects MCP to the tool bodies: validates arguments, asks for consent, turns errors into results.

The SDK would convert the text "null" to None, silently drop unknown arguments, and put "Error executing tool …"
before every sentence. So tools are instances of a subclass of the SDK's `Tool`.
"""

import logging
from functools import partial
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import func_metadata
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import PrivateAttr

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.errors import InvalidInput, NextcloudMcpError, StorageUnavailable
from nextcloud_mcp_server.nextcloud import remarks
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.tools import answer, output_schema
from nextcloud_mcp_server.tools.access import LEAST_SECONDS, Access
from nextcloud_mcp_server.tools.arguments import PROGRESS
from nextcloud_mcp_server.tools.guard import Asked, Call, Guard, Job
from nextcloud_mcp_server.tools.object_name import object_name
from nextcloud_mcp_server.tools.registry import TOOLSETS
from nextcloud_mcp_server.tools.state import State
from nextcloud_mcp_server.tools.toolset import ToolSpec

logger = logging.getLogger(__name__)


async def _nothing() -> None:
    """The function that the SDK requires; `GuardedTool.run` never calls it."""


_NO_METADATA = func_metadata(_nothing, structured_output=False)

#: The audit fields of all apps: arguments that identify the object of a call.
AUDIT_FIELDS = tuple(dict.fromkeys(name for app in APPS for name in app.audit_fields))


class GuardedTool(Tool):
    """One tool in the form of the SDK."""

    _spec: ToolSpec = PrivateAttr()
    _state: State = PrivateAttr()
    _guard: Guard = PrivateAttr()

    @classmethod
    def build(cls, spec: ToolSpec, state: State) -> "GuardedTool":
        """Build the SDK's tool from a specification."""
        metadata = _NO_METADATA
        if state.output_schemas:
            metadata = metadata.model_copy(update={"output_schema": output_schema.of(spec.result_type)})
        tool = cls(
            fn=_nothing,
            name=spec.name,
            title=spec.title,
            description=spec.description,
            parameters=spec.schema,
            fn_metadata=metadata,
            is_async=True,
            context_kwarg=None,
            annotations=ToolAnnotations(
                title=spec.title,
                read_only_hint=spec.read_only,
                destructive_hint=None if spec.read_only else spec.destructive,
                idempotent_hint=None if spec.read_only else spec.idempotent,
                open_world_hint=spec.open_world,
            ),
        )
        tool._spec, tool._state, tool._guard = spec, state, Guard(state)
        return tool

    @property
    def spec(self) -> ToolSpec:
        """The specification of the tool."""
        return self._spec

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = False,  # noqa: ARG002, FBT001, FBT002 - the SDK's signature
    ) -> Asked:
        """Run the tool for the caller of this request."""
        request_id = logs.current_request_id()
        try:
            checked = self._spec.arguments.validate(
                {**answer.arguments_meant(arguments), **self._spec.preset}
            )
            self._refuse_neutralised_links(checked)
            call = await self._guard.call(context, request_id)
            execute = partial(self._execute, call, checked)
            # A question about the connection must be answered even when a consent request has ended.
            never_asks = self._spec.guarded.never_asks
            return await (execute() if never_asks else self._guard.through(call, execute))
        except StorageUnavailable as error:
            return answer.failure(f"{error} Call again in a minute.")
        except NextcloudMcpError as error:
            return answer.failure(str(error), error.link)
        except wire.MCPError:
            raise
        except Exception:
            logger.exception("%s failed; reference %s", self.name, request_id)
            return answer.failure(
                f"Something went wrong inside the server; it is logged under {request_id}. Try once more."
            )

    async def _execute(self, call: Call, arguments: dict[str, Any]) -> CallToolResult:
        spec = self._spec
        if spec.guarded.scopes is None:
            until = call.started_at + max(self._state.hold_seconds, LEAST_SECONDS)
            access = Access(call.services, call.caller, call.form, self._state, call.context, until)
            with remarks.collected() as said:
                return answer.result(await spec.guarded.body(access, **arguments), remarks=said)
        ours = {
            name: call.progress if name == PROGRESS else getattr(self._state, name) for name in spec.injected
        }
        job = Job(
            # The audit log names the tool, not the old name by which it was called.
            name=spec.alias_of or spec.name,
            scopes=spec.scopes,
            app=self._state.availability.app_of(self.name),
            read_only=spec.read_only,
            detail=_object(arguments),
            object_name=partial(object_name, TOOLSETS[spec.toolset].named_by, arguments),
            body=lambda account: spec.guarded.body(account, **arguments, **ours),
        )
        with remarks.collected() as said:
            return answer.result(await self._guard.run(call, job), remarks=said)

    def _refuse_neutralised_links(self, arguments: dict[str, Any]) -> None:
        if not self._spec.read_only and any(
            answer.holds_neutralised_links(value) for value in arguments.values()
        ):
            raise InvalidInput(
                f'The text "{answer.NEUTRALISED}" stands for a link that was not shown; '
                "writing it back would lose the link. Leave that passage out or edit around it."
            )


async def safe_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware of the SDK's server: every error leaves with data that is safe for a model.

    The SDK and the handlers quote in it what the client sent. Messages are made safe where they are written, because
    some end with a link of this server.
    """
    try:
        return await call_next(ctx)
    except wire.Question:
        raise
    except wire.MCPError as error:
        fault = error.error
        raise wire.MCPError(fault.code, fault.message, answer.error_data(fault.data)) from error


def _object(arguments: dict[str, Any]) -> str:
    """Return the object of a call for the audit: ids and paths, never texts."""
    parts = [f"{name}={arguments[name]}" for name in AUDIT_FIELDS if arguments.get(name) is not None]
    return " ".join(parts)[:500]
