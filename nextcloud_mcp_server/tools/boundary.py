"""Between MCP and the tool bodies: checks arguments, asks for consent, turns errors into answers.

The SDK's own way would turn the text "null" into None, drop unknown arguments in silence and put
"Error executing tool …" before every sentence; so tools are our subclass of the SDK's `Tool`.
"""

import logging
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import func_metadata
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import PrivateAttr, TypeAdapter

from nextcloud_mcp_server.auth.accounts import Opened
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import (
    CredentialRejected,
    ElicitationRequired,
    InvalidInput,
    NextcloudMcpError,
    NotFound,
    Unavailable,
    WrongAccount,
)
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.access import Access
from nextcloud_mcp_server.tools.arguments import PROGRESS
from nextcloud_mcp_server.tools.progress import Progress
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.state import Core, State
from nextcloud_mcp_server.tools.toolset import ToolSpec

logger = logging.getLogger(__name__)

Answer = CallToolResult | InputRequiredResult


async def _nothing() -> None:
    """Stands where the SDK wants a function; `GuardedTool.run` never calls it."""


_NO_METADATA = func_metadata(_nothing, structured_output=False)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call on its way through the boundary."""

    core: Core
    caller: Caller
    form: wire.Form
    retry: wire.Retry | None
    request_id: str
    progress: Progress

    @property
    def round(self) -> int:
        return self.retry.round if self.retry else 0

    @property
    def stand_in(self) -> str | None:
        """Name the client in the place of a session, when it is told in words and so brings nothing back."""
        if self.form is not wire.Form.TEXT:
            return None
        caller = self.caller
        return f"{caller.principal.issuer} {caller.principal.subject} {caller.client_id} {caller.client_name}"


class GuardedTool(Tool):
    """One tool as the SDK sees it."""

    _spec: ToolSpec = PrivateAttr()
    _state: State = PrivateAttr()

    @classmethod
    def build(cls, spec: ToolSpec, state: State) -> "GuardedTool":
        """Make the SDK's tool from ours."""
        metadata = _NO_METADATA
        if state.output_schemas:
            schema = TypeAdapter[Any](spec.result_type).json_schema(mode="serialization")
            metadata = metadata.model_copy(update={"output_schema": schema})
        tool = cls(
            fn=_nothing,
            name=spec.name,
            title=None,
            description=spec.description,
            parameters=spec.arguments.schema,
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
        tool._spec, tool._state = spec, state
        return tool

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = False,  # noqa: ARG002, FBT001, FBT002 - the SDK's signature
    ) -> Answer:
        """Run the tool for the caller of this request."""
        request_id = uuid4().hex[:12]
        try:
            checked = self._spec.arguments.validate(arguments)
            self._refuse_defanged(checked)
            call = await self._call(context, request_id)
            return await self._run(call, checked, context)
        except NextcloudMcpError as error:
            return answer.failure(str(error))
        except wire.MCPError:
            raise
        except Exception:
            logger.exception("%s failed; reference %s", self.name, request_id)
            return answer.failure(
                f"Something went wrong inside the server; it is logged under {request_id}. Try once more."
            )

    def _refuse_defanged(self, arguments: dict[str, Any]) -> None:
        if not self._spec.read_only and any(answer.holds_defanged(value) for value in arguments.values()):
            raise InvalidInput(
                f'The text "{answer.DEFANGED}" stands for a link that was not shown; '
                "writing it back would lose the link. Leave that passage out or edit around it."
            )

    async def _call(self, context: Context[Any, Any], request_id: str) -> _Call:
        ctx = context.request_context
        return _Call(
            core=await self._state.core(),
            caller=self._state.caller(ctx),
            form=wire.form(ctx, self._state.dialect),
            retry=wire.retry(context.input_responses, context.request_state),
            request_id=request_id,
            progress=Progress(context),
        )

    async def _run(self, call: _Call, arguments: dict[str, Any], context: Context[Any, Any]) -> Answer:
        told = (
            call.retry.elicitation_id
            if call.retry
            else self._state.notices.told(context.request_context, stand_in=call.stand_in)
        )
        if told is not None and (ended := await self._ended(call, told, context)) is not None:
            return ended
        try:
            return await self._execute(call, arguments, context)
        except ElicitationRequired as need:
            if told != need.elicitation_id:
                return self._tell(need, call, context)
            asked = need
        ended = await self._state.pending.wait(asked.elicitation_id, seconds=self._hold(call.form))
        return (
            await self._after_visit(call, asked.elicitation_id, arguments, context)
            if ended
            else wire.waiting(asked, call.form, round_=call.round)
        )

    async def _after_visit(
        self, call: _Call, told: str, arguments: dict[str, Any], context: Context[Any, Any]
    ) -> Answer:
        if (ended := await self._ended(call, told, context)) is not None:
            return ended
        try:
            return await self._execute(call, arguments, context)
        except ElicitationRequired as need:
            return self._tell(need, call, context)

    async def _execute(
        self, call: _Call, arguments: dict[str, Any], context: Context[Any, Any]
    ) -> CallToolResult:
        spec = self._spec
        if spec.guarded.scopes is None:
            access = Access(call.core, call.caller, call.form, self._state, context)
            return answer.result(await spec.guarded.body(access, **arguments))
        opened = await call.core.accounts.open(call.caller, spec.scopes)
        self._refuse_missing_app(call)
        try:
            value, opened = await self._attempt(call, opened, arguments)
        except NotFound:
            # Perhaps because the app is not there.
            self._learn_apps(call, opened)
            raise
        self._learn_apps(call, opened)
        return answer.result(value)

    async def _attempt(
        self, call: _Call, opened: Opened, arguments: dict[str, Any], *, again: bool = False
    ) -> tuple[Result, Opened]:
        """Run the body; once more with another credential, where nothing has happened yet."""
        accounts, changes = call.core.accounts, opened.account.changes
        try:
            return await self._body(call, opened, arguments), opened
        except CredentialRejected:
            await accounts.reject(call.caller, opened)
            # One 401 stops a credential. Opening once more finds another one, renewed or granted anew
            # meanwhile, or says what to do about it.
            another = await accounts.open(call.caller, self._spec.scopes)
            if opened.account.changes != changes:
                raise Unavailable(
                    "The access to Nextcloud had to be renewed in the middle of this, and a part of it was "
                    "done already. Read again what was changed before you repeat anything."
                ) from None
            if again:
                raise Unavailable(
                    "Nextcloud refused the access twice, and it was granted anew meanwhile. "
                    "Call the tool once more."
                ) from None
        return await self._attempt(call, another, arguments, again=True)

    async def _body(self, call: _Call, opened: Opened, arguments: dict[str, Any]) -> Result:
        result = "failed"
        ours = {
            name: call.progress if name == PROGRESS else getattr(self._state, name)
            for name in self._spec.ours
        }
        try:
            value = await self._spec.guarded.body(opened.account, **arguments, **ours)
            result = "ok"
        except NextcloudMcpError as error:
            result = type(error).__name__
            raise
        finally:
            await call.core.audit.record(
                call.caller,
                action=self.name,
                result=result,
                detail=_object(arguments),
                request_id=call.request_id,
                # An answer for another person must be known even when the server is killed next.
                now=not self._spec.read_only or result == WrongAccount.__name__,
            )
        return value

    def _learn_apps(self, call: _Call, opened: Opened) -> None:
        """Ask for the apps, once Nextcloud took the credential: a second refusal would count against us."""

        async def fetch() -> frozenset[str]:
            try:
                return (await opened.account.capabilities.get()).apps
            except CredentialRejected:
                await call.core.accounts.reject(call.caller, opened)
                raise

        self._state.availability.learn(call.caller.principal, fetch)

    def _refuse_missing_app(self, call: _Call) -> None:
        if app := self._state.availability.missing(call.caller.principal, self.name):
            raise NotFound(f"This Nextcloud does not have the app '{app}'; its administrator can install it.")

    def _tell(self, need: ElicitationRequired, call: _Call, context: Context[Any, Any]) -> Answer:
        self._state.notices.tell(
            context.request_context, need.elicitation_id, seconds=wire.TOLD_SECONDS, stand_in=call.stand_in
        )
        return wire.render(need, call.form, round_=call.round)

    async def _ended(self, call: _Call, told: str, context: Context[Any, Any]) -> CallToolResult | None:
        """Say so when the visit this client was sent on has ended without access."""
        provisioning = call.core.provisioning
        visit = await provisioning.find(told, call.caller.principal) if provisioning else None
        if provisioning is not None and visit is not None and not visit.state.final:
            if call.retry is None or call.retry.action not in ("decline", "cancel"):
                return None
            await provisioning.decline(told)
            return answer.failure("Not connected: you declined. Call the tool again if you change your mind.")
        self._state.notices.forget(context.request_context, stand_in=call.stand_in)
        if visit is None or visit.state == "complete":
            return None
        if visit.state == "declined":
            return answer.failure("Not connected: you declined. Call the tool again if you change your mind.")
        reason = visit.error or "The link expired before it was used."
        return answer.failure(f"Not connected: {reason} Call the tool again for a new link.")

    def _hold(self, form: wire.Form) -> float:
        seconds = self._state.hold_seconds
        return min(seconds, wire.TEXT_HOLD_SECONDS) if form is wire.Form.TEXT else seconds


def _object(arguments: dict[str, Any]) -> str:
    """Name what a call was about, for the audit: ids and paths, never texts."""
    names = (
        "path",
        "note_id",
        "source",
        "destination",
        "trash_id",
        "version_id",
        "title",
        "book",
        "contact_id",
    )
    parts = [f"{name}={arguments[name]}" for name in names if arguments.get(name) is not None]
    return " ".join(parts)[:500]
