"""What the connection tools get instead of an account: the way to consent itself."""

import logging
from dataclasses import dataclass, replace
from typing import Any

import anyio
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import NoBackChannelError
from pydantic import ValidationError

from nextcloud_mcp_server.auth.accounts import Connection, Disconnected, Opened
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.token_scopes import effective
from nextcloud_mcp_server.errors import (
    ConsentDeclined,
    CredentialRejected,
    ElicitationRequired,
    NextcloudError,
    WrongAccount,
)
from nextcloud_mcp_server.nextcloud.capabilities import ServerCapabilities
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.availability import NOTHING, Apps, Told
from nextcloud_mcp_server.tools.apps import menu_of, stop
from nextcloud_mcp_server.tools.state import Core, State

logger = logging.getLogger(__name__)

#: How long a client may take to say that it shows a page, where calls are held for less.
_LEAST_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Access:
    """The caller's connection to their Nextcloud, whether or not there is one."""

    core: Core
    caller: Caller
    form: wire.Form
    state: State
    context: Context[Any, Any]

    @property
    def bound(self) -> frozenset[str]:
        """What can be permitted: the operator's settings and the caller's access token allow it."""
        return effective(self.core.bound, token=self.caller.token_scopes, bound=self.core.bound)

    @property
    def beyond_token(self) -> frozenset[str]:
        """What this server offers, and the caller's access token does not cover."""
        return self.core.bound - self.bound

    async def server(self) -> ServerCapabilities | None:
        """Ask the person's Nextcloud what it has; None when it cannot be asked right now, or not any more.

        Raises:
            WrongAccount: It answered for another person.
        """
        try:
            opened = await self.open(frozenset())
        except ElicitationRequired:
            # The access ended since it was looked at.
            return None
        availability, person = self.state.availability, self.caller.principal
        account = opened.account
        try:
            found = await account.capabilities.get()
            known = availability.known(person)
            same = known if known.account == account.uid else NOTHING
            menu = await menu_of(account, same) if availability.in_menu else None
        except (CredentialRejected, WrongAccount) as error:
            await stop(self.core, self.caller, opened, error)
            if isinstance(error, WrongAccount):
                raise
            return None
        except NextcloudError:
            return None
        await availability.heard(person, Apps(Told(found.apps, found.etag), menu, account.uid))
        return replace(found, apps=found.apps | (availability.in_menu & menu.names)) if menu else found

    async def connection(self) -> Connection:
        """Tell where the caller stands."""
        return await self.core.accounts.connection(self.caller)

    async def disconnect(self) -> Disconnected:
        """End the connection."""
        return await self.core.accounts.disconnect(self.caller)

    async def open(self, scopes: frozenset[str]) -> Opened:
        """Open the account, or raise what asks for it."""
        return await self.core.accounts.open(self.caller, scopes)

    async def request(self, scopes: frozenset[str]) -> Opened:
        """Open the account; where the client can show a page during the call, ask and wait for it.

        Raises:
            ElicitationRequired: The client cannot show a page during a call, or its answer or the visit took
                longer than the wait; the boundary tells it in its own form, which has the link.
            ConsentDeclined: The person said no in the client.
        """
        try:
            return await self.open(scopes)
        except ElicitationRequired as need:
            if self.form is not wire.Form.URL_ERROR:
                raise
            until = anyio.current_time() + max(self.state.hold_seconds, _LEAST_SECONDS)
            if not await self._shown(need, until):
                raise
            seconds = min(until - anyio.current_time(), self.state.hold_seconds)
            await self.state.pending.wait(need.elicitation_id, seconds=seconds)
            return await self.open(scopes)

    async def _shown(self, need: ElicitationRequired, until: float) -> bool:
        """Have the client show the page; False where it cannot, or does not say in time that it did."""
        ctx, reply, reason = self.context.request_context, None, "no answer came in time"
        try:
            with anyio.CancelScope(deadline=until):
                reply = await ctx.session.elicit_url(
                    str(need), need.url, need.elicitation_id, related_request_id=ctx.request_id
                )
        except (NoBackChannelError, wire.MCPError, ValidationError) as error:
            # What it says may be anything, its name for the failure not.
            reason = type(error).__name__
        if reply is None:
            # "Could not be shown" is not "declined": the client's own form of the question follows.
            logger.warning(
                "a client did not show the consent page (%s), so the link is in the answer", reason
            )
            return False
        if reply.action != "accept":
            await self.core.accounts.decline(need.elicitation_id)
            raise ConsentDeclined("Not connected: you declined. Ask again if you change your mind.")
        # A client that shows "waiting for the browser" takes that down when the notice comes.
        self.state.notices.tell(ctx, need.elicitation_id, seconds=wire.TOLD_SECONDS)
        return True
