"""Asks for consent where it is missing, and holds the request, before a job runs at Nextcloud.

Tools and resources use the same steps: what was sent to the client, whether its consent request has ended, the
account, the handling of a 401, the audit, and the consent request that is still needed.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import anyio
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, InputRequiredResult

from nextcloud_mcp_server.auth.accounts import Opened
from nextcloud_mcp_server.auth.consent.policy import NOT_CONFIRMED
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import (
    ConsentDeclined,
    CredentialRejected,
    ElicitationRequired,
    Link,
    NextcloudMcpError,
    NotConnected,
    NotFound,
    Unavailable,
    WrongAccount,
)
from nextcloud_mcp_server.nextcloud import memory_permit, pace
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.protocol import wire, work
from nextcloud_mcp_server.protocol.availability import FetchApps
from nextcloud_mcp_server.protocol.hold import hold, wants_progress
from nextcloud_mcp_server.storage.records import Elicitation
from nextcloud_mcp_server.tools.apps import apps_of
from nextcloud_mcp_server.tools.progress import Progress
from nextcloud_mcp_server.tools.state import State, ToolServices

T = TypeVar("T")

#: Why a client's own form has no answer from the user.
DISMISSED = "The question was closed without an answer, so nothing is decided, and the link still works."
NOT_ASKED = (
    "The client declined at once, before the user can have read the question, so nothing is decided, and the link "
    "still works."
)
#: What the user can do after a consent request has ended.
NEW_LINK = "If the user wants to allow it after all, call the tool again for a new link."

#: What a client receives in place of a result when the user must give consent first.
Asked = CallToolResult | InputRequiredResult


@dataclass(frozen=True, slots=True)
class Call:
    """One request on its way through the guard."""

    services: ToolServices
    caller: Caller
    form: wire.Form
    retry: wire.Retry | None
    request_id: str
    context: Context[Any, Any]
    #: The time of the event loop from which every wait of the request counts.
    started_at: float = field(default_factory=anyio.current_time)

    @property
    def round(self) -> int:
        """How often the client was asked in this request already."""
        return self.retry.round if self.retry else 0

    @property
    def progress(self) -> Progress:
        """Reports the progress of long work."""
        return Progress(self.context)

    @property
    def stand_in(self) -> str:
        """Return an identifier of the client in place of a session, for clients that get links as text.

        Such clients return no state. A client that shows pages and one of the same name that does not are two.
        """
        caller = self.caller
        # As a list: a subject may contain any separator.
        parts = [caller.principal.issuer, caller.principal.subject, caller.client_id, caller.client_name]
        return json.dumps([*parts, self.form.value])


def _nameless(_: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """The work at Nextcloud: `name` and `detail` are for the audit, `app` must be installed.

    `object_name` names the object of the work, with its value, or None after a failure; it is for the audit, too.
    """

    name: str
    scopes: frozenset[str]
    app: str | None
    read_only: bool
    detail: str
    body: Callable[[Account], Awaitable[T]]
    object_name: Callable[[T | None], str] = _nameless


class Guard:
    """Runs jobs for clients with consent, and asks the users of the others for it."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def call(self, context: Context[Any, Any], request_id: str) -> Call:
        """Create the call for a request."""
        ctx = context.request_context
        return Call(
            services=await self._state.services(),
            caller=self._state.caller(ctx),
            form=wire.form(ctx, self._state.dialect),
            retry=wire.retry(context.input_responses, context.request_state),
            request_id=request_id,
            context=context,
        )

    async def through(self, call: Call, execute: Callable[[], Awaitable[T]]) -> T | Asked:
        """Run `execute`; after `ElicitationRequired` send the link, or hold the call if it was sent.

        Raises:
          NotConnected: The consent request that this client received has ended without access.
          MCPError: The question in its form before 2026-07-28.
        """
        notifier, ctx = self._state.notifier, call.context.request_context
        notified = notifier.last_link(ctx, stand_in=call.stand_in)
        sent_id = call.retry.elicitation_id if call.retry else notified and notified.elicitation_id
        in_text = call.retry is None and notified is not None and notified.in_text
        form = wire.Form.TEXT if in_text else call.form
        dismissed = await self._refuse_ended(call, sent_id)
        try:
            return await execute()
        except ElicitationRequired as need:
            if sent_id is not None and sent_id != need.elicitation_id:
                # The consent request ended while the account was being opened.
                await self._refuse_ended(call, sent_id)
            need.unanswered = need.unanswered or dismissed
            if sent_id != need.elicitation_id or need.unanswered:
                return self._send_link(need, call)
            asked = need
        until = call.started_at + self._hold(call, form)
        if await hold(ctx, self._state.pending, asked.elicitation_id, until=until):
            return await self._after_consent_request(call, asked.elicitation_id, execute)
        answer = wire.waiting(asked, form, round_=call.round)
        if isinstance(answer, CallToolResult):
            self._note(asked, call, in_text=True)
        return answer

    async def run(self, call: Call, job: Job[T]) -> T:
        """Run a job on the caller's account.

        Raises:
          ElicitationRequired: The user must give consent first.
        """
        opened = await call.services.accounts.open(call.caller, job.scopes)
        if self._state.availability.lacks(call.caller.principal, job.app):
            await self._refuse_missing_app(call, opened, job.app)
        try:
            value, opened = await self._attempt(call, opened, job)
        except NotFound:
            # The error may mean that the app is not installed, or no longer.
            await self._refuse_missing_app(call, opened, job.app)
            raise
        # Only after Nextcloud accepted the credential: a second rejection would count against this server's address.
        self._state.availability.learn(
            call.caller.principal, self._apps_of(call, opened), account=opened.account.uid
        )
        return value

    async def _after_consent_request(
        self, call: Call, sent_id: str, execute: Callable[[], Awaitable[T]]
    ) -> T | Asked:
        await self._refuse_ended(call, sent_id)
        try:
            return await execute()
        except ElicitationRequired as need:
            return self._send_link(need, call)

    async def _attempt(
        self, call: Call, opened: Opened, job: Job[T], *, again: bool = False
    ) -> tuple[T, Opened]:
        """Run the job; once more with another credential, where nothing has been done yet."""
        accounts, changes = call.services.accounts, opened.account.changes
        try:
            return await self._body(call, opened, job), opened
        except CredentialRejected:
            await accounts.reject(call.caller, opened)
            # One 401 stops a credential. Opening the account again finds another one, refreshed or granted
            # meanwhile, or raises the error that says what to do.
            try:
                another = await accounts.open(call.caller, job.scopes)
            except ElicitationRequired:
                if opened.account.changes == changes:
                    raise
                # The answer to this question would repeat the call; the next call asks it.
                raise Unavailable(
                    "Nextcloud ended the access in the middle of this, and a part of it was done already. Read again "
                    "what was changed before you repeat anything; the person is then asked for access."
                ) from None
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
        result, began = "failed", anyio.current_time()
        found: T | None = None
        work.begin(opened.credential_id)
        try:
            with pace.work_of(call.caller.principal):
                async with memory_permit.of_call():
                    value = found = await job.body(opened.account)
            result = "ok"
        except NextcloudMcpError as error:
            result = type(error).__name__
            raise
        finally:
            await call.services.audit.record(
                call.caller,
                action=job.name,
                result=result,
                detail=job.detail,
                request_id=call.request_id,
                object_name=job.object_name(found),
                # A response for another user must be recorded even if the server is killed next.
                now=not job.read_only or result == WrongAccount.__name__,
            )
            if not job.read_only:
                # A failed call may be partly done.
                self._state.availability.on_write(call.caller.principal, began)
        return value

    async def _refuse_missing_app(self, call: Call, opened: Opened, app: str | None) -> None:
        """Raise if the app is missing; fetch the apps again, as it may have just been installed."""
        availability, person = self._state.availability, call.caller.principal
        await availability.ask(person, self._apps_of(call, opened), account=opened.account.uid)
        if availability.lacks(person, app):
            raise NotFound(
                f"This Nextcloud does not have the app '{app}', or not for this person; its administrator can "
                "install it or allow it to them. Do not retry before that."
            )

    def _apps_of(self, call: Call, opened: Opened) -> FetchApps:
        return apps_of(call.services, call.caller, opened, in_menu=self._state.availability.in_menu)

    def _send_link(self, need: ElicitationRequired, call: Call) -> Asked:
        """Send a client a link that it has not received yet, or has not shown to the user."""
        provisioning = call.services.provisioning
        if need.unanswered or provisioning is None:
            self._note(need, call, in_text=True)
            return wire.text(need)
        # A client of 2026-07-28 that shows pages returns the state that it received.
        if call.form is not wire.Form.INPUT_REQUIRED:
            self._note(need, call, in_text=False)
        return wire.render(need, call.form, round_=call.round, now=provisioning.now())

    def _note(self, need: ElicitationRequired, call: Call, *, in_text: bool) -> None:
        self._state.notifier.record_link(
            call.context.request_context,
            need.elicitation_id,
            stand_in=call.stand_in,
            in_text=in_text,
        )

    async def _refuse_ended(self, call: Call, sent_id: str | None) -> str:
        """Raise where the consent request that this client received has ended without access.

        Return why the client's own form has no answer from the user; "" where it has, or none is expected.

        Raises:
          ConsentDeclined: The user declined.
          NotConnected: It ended in another way.
        """
        provisioning, retry = call.services.provisioning, call.retry
        if sent_id is None or provisioning is None:
            return ""
        request = await provisioning.find(sent_id, call.caller)
        if request is None or request.state.final:
            self._state.notifier.forget(call.context.request_context, stand_in=call.stand_in)
            refuse_ended(call.services, request)
            return ""
        if retry is None or retry.action not in ("decline", "cancel"):
            return ""
        if not retry.declined(provisioning.now()):
            return DISMISSED if retry.action == "cancel" else NOT_ASKED
        await provisioning.decline(sent_id)
        raise declined(call.services)

    def _hold(self, call: Call, form: wire.Form) -> float:
        seconds = self._state.hold_seconds
        if form is wire.Form.TEXT and not wants_progress(call.context.request_context):
            return min(seconds, wire.TEXT_HOLD_SECONDS)
        return seconds


def refuse_ended(services: ToolServices, request: Elicitation | None) -> None:
    """Raise after a consent request that has ended without access: continuing would start another one.

    Raises:
      ConsentDeclined: The user declined.
      NotConnected: It ended in another way.
    """
    if request is None or not request.state.final or request.state == "complete":
        return
    if request.state == "declined":
        raise declined(services)
    reason = request.error or NOT_CONFIRMED
    raise NotConnected(f"Not connected: {reason} {NEW_LINK}", link=account_link(services))


def declined(services: ToolServices) -> ConsentDeclined:
    """Return the error for a declined consent request, with the page where the user can still allow it."""
    return ConsentDeclined(
        f"Not connected: the user declined, and the link no longer works. {NEW_LINK}",
        link=account_link(services),
    )


def account_link(services: ToolServices) -> Link | None:
    """Return a link to the page on which users manage their clients; None without such a page."""
    url = services.accounts.account_url
    return Link(url, "There the user sees and changes what is allowed already.") if url else None
