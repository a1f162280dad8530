"""Between a request and a person's Nextcloud: asks for consent where it is missing, and holds the request.

A tool and a resource go the same way: what the client was told, whether the visit has ended, the
account, one 401, the audit, and the visit that is still needed.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, InputRequiredResult

from nextcloud_mcp_server.auth.accounts import Opened
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import (
    ConsentDeclined,
    CredentialRejected,
    ElicitationRequired,
    NextcloudMcpError,
    NotConnected,
    NotFound,
    Unavailable,
    WrongAccount,
)
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.availability import FetchApps
from nextcloud_mcp_server.tools.apps import apps_of
from nextcloud_mcp_server.tools.progress import Progress
from nextcloud_mcp_server.tools.state import Core, State

T = TypeVar("T")

#: What a client is answered instead of what it asked for, when its person has to say yes first.
Asked = CallToolResult | InputRequiredResult


@dataclass(frozen=True, slots=True)
class Call:
    """One request on its way through the guard."""

    core: Core
    caller: Caller
    form: wire.Form
    retry: wire.Retry | None
    request_id: str
    context: Context[Any, Any]

    @property
    def round(self) -> int:
        """How many times this request has been asked already."""
        return self.retry.round if self.retry else 0

    @property
    def progress(self) -> Progress:
        """Where long work says how far it is."""
        return Progress(self.context)

    @property
    def stand_in(self) -> str | None:
        """Name the client in the place of a session, when it is told in words and so brings nothing back."""
        if self.form is not wire.Form.TEXT:
            return None
        caller = self.caller
        # As a list: a subject may hold whatever would stand between the parts.
        return json.dumps(
            [caller.principal.issuer, caller.principal.subject, caller.client_id, caller.client_name]
        )


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """What is done at Nextcloud: `name` and `detail` go into the audit, `app` must be installed."""

    name: str
    scopes: frozenset[str]
    app: str | None
    read_only: bool
    detail: str
    body: Callable[[Account], Awaitable[T]]


class Guard:
    """Lets jobs run for those who have allowed them, and asks the others."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def call(self, context: Context[Any, Any], request_id: str) -> Call:
        """Take up a request."""
        ctx = context.request_context
        return Call(
            core=await self._state.core(),
            caller=self._state.caller(ctx),
            form=wire.form(ctx, self._state.dialect),
            retry=wire.retry(context.input_responses, context.request_state),
            request_id=request_id,
            context=context,
        )

    async def through(self, call: Call, execute: Callable[[], Awaitable[T]]) -> T | Asked:
        """Run something that may raise `ElicitationRequired`; then tell the client, or hold it once told.

        Raises:
            NotConnected: The visit this client was sent on has ended without access.
            MCPError: The handshake-era forms of the question.
        """
        told = (
            call.retry.elicitation_id
            if call.retry
            else self._state.notices.told(call.context.request_context, stand_in=call.stand_in)
        )
        if told is not None:
            await self._refuse_ended(call, told)
        try:
            return await execute()
        except ElicitationRequired as need:
            if told != need.elicitation_id:
                return self._tell(need, call)
            asked = need
        ended = await self._state.pending.wait(asked.elicitation_id, seconds=self._hold(call.form))
        return (
            await self._after_visit(call, asked.elicitation_id, execute)
            if ended
            else wire.waiting(asked, call.form, round_=call.round)
        )

    async def run(self, call: Call, job: Job[T]) -> T:
        """Run a job on the caller's account.

        Raises:
            ElicitationRequired: The person has to allow it first.
        """
        opened = await call.core.accounts.open(call.caller, job.scopes)
        if self._state.availability.lacks(call.caller.principal, job.app):
            await self._refuse_missing_app(call, opened, job.app)
        try:
            value, opened = await self._attempt(call, opened, job)
        except NotFound:
            # Perhaps because the app is not there, or not any more.
            await self._refuse_missing_app(call, opened, job.app)
            raise
        # Once Nextcloud took the credential: a second refusal would count against us.
        self._state.availability.learn(
            call.caller.principal, self._apps_of(call, opened), account=opened.account.uid
        )
        return value

    async def _after_visit(self, call: Call, told: str, execute: Callable[[], Awaitable[T]]) -> T | Asked:
        await self._refuse_ended(call, told)
        try:
            return await execute()
        except ElicitationRequired as need:
            return self._tell(need, call)

    async def _attempt(
        self, call: Call, opened: Opened, job: Job[T], *, again: bool = False
    ) -> tuple[T, Opened]:
        """Run the body; once more with another credential, where nothing has happened yet."""
        accounts, changes = call.core.accounts, opened.account.changes
        try:
            return await self._body(call, opened, job), opened
        except CredentialRejected:
            await accounts.reject(call.caller, opened)
            # One 401 stops a credential. Opening once more finds another one, renewed or granted anew
            # meanwhile, or says what to do about it.
            another = await accounts.open(call.caller, job.scopes)
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
        return await self._attempt(call, another, job, again=True)

    async def _body(self, call: Call, opened: Opened, job: Job[T]) -> T:
        result = "failed"
        try:
            value = await job.body(opened.account)
            result = "ok"
        except NextcloudMcpError as error:
            result = type(error).__name__
            raise
        finally:
            await call.core.audit.record(
                call.caller,
                action=job.name,
                result=result,
                detail=job.detail,
                request_id=call.request_id,
                # An answer for another person must be known even when the server is killed next.
                now=not job.read_only or result == WrongAccount.__name__,
            )
            if not job.read_only:
                # What failed may have been done in part.
                self._state.availability.on_write(call.caller.principal)
        return value

    async def _refuse_missing_app(self, call: Call, opened: Opened, app: str | None) -> None:
        """Say that an app is missing, if it still is: it may have been installed this minute."""
        availability, person = self._state.availability, call.caller.principal
        await availability.ask(person, self._apps_of(call, opened), account=opened.account.uid)
        if availability.lacks(person, app):
            raise NotFound(
                f"This Nextcloud does not have the app '{app}', or not for this person; its administrator can "
                "install it or allow it to them. Do not retry before that."
            )

    def _apps_of(self, call: Call, opened: Opened) -> FetchApps:
        return apps_of(call.core, call.caller, opened, in_menu=self._state.availability.in_menu)

    def _tell(self, need: ElicitationRequired, call: Call) -> Asked:
        self._state.notices.tell(
            call.context.request_context,
            need.elicitation_id,
            seconds=wire.TOLD_SECONDS,
            stand_in=call.stand_in,
        )
        return wire.render(need, call.form, round_=call.round)

    async def _refuse_ended(self, call: Call, told: str) -> None:
        """Say so when the visit this client was sent on has ended without access."""
        provisioning = call.core.provisioning
        visit = await provisioning.find(told, call.caller.principal) if provisioning else None
        if provisioning is not None and visit is not None and not visit.state.final:
            if call.retry is None or call.retry.action not in ("decline", "cancel"):
                return
            await provisioning.decline(told)
            raise _declined()
        self._state.notices.forget(call.context.request_context, stand_in=call.stand_in)
        if visit is None or visit.state == "complete":
            return
        if visit.state == "declined":
            raise _declined()
        reason = visit.error or "The link expired before it was used."
        raise NotConnected(f"Not connected: {reason} Call the tool again for a new link.")

    def _hold(self, form: wire.Form) -> float:
        seconds = self._state.hold_seconds
        return min(seconds, wire.TEXT_HOLD_SECONDS) if form is wire.Form.TEXT else seconds


def _declined() -> ConsentDeclined:
    return ConsentDeclined("Not connected: you declined. Call the tool again if you change your mind.")
