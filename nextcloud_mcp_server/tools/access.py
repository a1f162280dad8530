"""What the connection tools get instead of an account: access to the consent requests themselves."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context

from nextcloud_mcp_server.auth.accounts import Connection, Disconnected, Opened
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.token_scopes import effective
from nextcloud_mcp_server.errors import (
    CredentialRejected,
    ElicitationRequired,
    NextcloudError,
    WrongAccount,
)
from nextcloud_mcp_server.nextcloud.capabilities import ServerCapabilities
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.availability import NOTHING, AppList, Apps
from nextcloud_mcp_server.protocol.client_request import Reply, show_page
from nextcloud_mcp_server.protocol.hold import hold
from nextcloud_mcp_server.storage.records import Elicitation
from nextcloud_mcp_server.tools.apps import menu_of, stop
from nextcloud_mcp_server.tools.guard import DISMISSED, NOT_ASKED, declined, refuse_ended
from nextcloud_mcp_server.tools.state import State, ToolServices

if TYPE_CHECKING:
    # The type only: what it imports is left to the first call that needs it.
    from nextcloud_mcp_server.auth.consent.provisioning import Provisioning

#: How long a client may take to answer a question, where calls are held for less.
LEAST_SECONDS = 2.0

#: Why the link is sent as text after all.
_UNANSWERED = {
    Reply.CANCEL: DISMISSED,
    Reply.DECLINE: NOT_ASKED,
    Reply.NONE: "The client did not show the question, or not in time.",
}
_UNFINISHED = "The user has not finished in the browser yet, and the link still works."


@dataclass(frozen=True, slots=True)
class Access:
    """The caller's connection to Nextcloud, whether or not it exists yet."""

    services: ToolServices
    caller: Caller
    form: wire.Form
    state: State
    context: Context[Any, Any]
    #: The time of the event loop at which every wait of this call ends.
    until: float

    @property
    def bound(self) -> frozenset[str]:
        """The scopes that the operator's settings and the client's access token both allow."""
        return effective(self.services.bound, token=self.caller.token_scopes, bound=self.services.bound)

    @property
    def beyond_token(self) -> frozenset[str]:
        """The scopes that this server offers but the client's access token does not cover."""
        return self.services.bound - self.bound

    async def server(self) -> ServerCapabilities | None:
        """Fetch the capabilities of the user's Nextcloud; None if unreachable or the access has ended.

        Raises:
          WrongAccount: It answered for another user.
        """
        try:
            opened = await self.open(frozenset())
        except ElicitationRequired:
            # The access ended after it was checked.
            return None
        availability, person = self.state.availability, self.caller.principal
        account = opened.account
        try:
            found = await account.capabilities.get()
            known = availability.known(person)
            same = known if known.account == account.uid else NOTHING
            menu = await menu_of(account, same) if availability.in_menu else None
        except (CredentialRejected, WrongAccount) as error:
            await stop(self.services, self.caller, opened, error)
            if isinstance(error, WrongAccount):
                raise
            return None
        except NextcloudError:
            return None
        await availability.heard(person, Apps(AppList(found.apps, found.etag), menu, account.uid))
        return replace(found, apps=found.apps | (availability.in_menu & menu.names)) if menu else found

    async def connection(self) -> Connection:
        """Return the state of the caller's connection."""
        return await self.services.accounts.connection(self.caller)

    async def open_request(self) -> Elicitation | None:
        """Return the consent request that waits for the user; None if there is none that they can open."""
        provisioning = self.services.provisioning
        found = await provisioning.find_active(self.caller) if provisioning else None
        # A request that leads straight to Nextcloud has no link while Nextcloud could not be reached.
        return found if found and found.url else None

    async def disconnect(self) -> Disconnected:
        """End the connection."""
        return await self.services.accounts.disconnect(self.caller)

    async def open(self, scopes: frozenset[str]) -> Opened:
        """Open the account, or raise the error that asks for consent."""
        return await self.services.accounts.open(self.caller, scopes)

    async def request(self, scopes: frozenset[str]) -> Opened:
        """Open the account; where the client can show a page during the call, ask for consent and wait.

        All of it ends within the hold.

        Raises:
          ElicitationRequired: The client cannot show a page during a call, or its answer or the consent request took
            longer than the wait. The guard then sends the link in the client's form or as text.
          ConsentDeclined: The user declined in the client.
        """
        try:
            return await self.open(scopes)
        except ElicitationRequired as need:
            provisioning, ctx = self.services.provisioning, self.context.request_context
            notified = self.state.notifier.last_link(ctx)
            in_text = (
                notified is not None and notified.in_text and notified.elicitation_id == need.elicitation_id
            )
            if self.form is not wire.Form.URL_ERROR or in_text or provisioning is None:
                raise
            asked_at = provisioning.now()
            reply = await show_page(ctx, need, until=self.until)
            if reply is Reply.DECLINE and not wire.is_instant(asked_at, provisioning.now()):
                await self.services.accounts.decline(need.elicitation_id)
                raise declined(self.services) from None
            if reply is not Reply.ACCEPT:
                need.unanswered = _UNANSWERED[reply]
                raise
            return await self._finished(need, provisioning, scopes)

    async def _finished(
        self, need: ElicitationRequired, provisioning: "Provisioning", scopes: frozenset[str]
    ) -> Opened:
        """Wait until the user has finished in the browser, and open the account."""
        ctx, elicitation_id = self.context.request_context, need.elicitation_id
        # A client that shows "waiting for the browser" closes that when the notification arrives.
        self.state.notifier.record_link(ctx, elicitation_id)
        if await hold(ctx, self.state.pending, elicitation_id, until=self.until):
            refuse_ended(self.services, await provisioning.find(elicitation_id, self.caller))
            return await self.open(scopes)
        need.unanswered = _UNFINISHED
        raise need
