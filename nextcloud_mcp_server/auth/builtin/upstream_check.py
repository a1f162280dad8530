"""Asks Nextcloud, when a client refreshes its tokens, whether the user may still use this server.

A client has tokens for as long as a sign-in lasts. Meanwhile the user's Nextcloud account may be disabled, or
the user may leave the groups that the operator allows. So Nextcloud is asked with the user's own grant. Only a
clear refusal ends the refresh; a Nextcloud that cannot answer does not, since every user would be signed out
whenever it is updated.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

import anyio

from nextcloud_mcp_server.auth.accounts import opening
from nextcloud_mcp_server.auth.broker import Broker
from nextcloud_mcp_server.errors import (
    AccountDisabled,
    CredentialRejected,
    Forbidden,
    GrantDead,
    NextcloudError,
    NotFound,
    RouteRefused,
    Unavailable,
    Unsealable,
    WrongAccount,
)
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.user import User
from nextcloud_mcp_server.storage.records import Credential, Principal

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: How long a positive answer holds for all clients of a user.
KEEP_SECONDS = 300.0

#: How long Nextcloud is not asked again about a user after it did not answer.
PAUSE_SECONDS = 30.0

#: The time limit for Nextcloud's answer: a client waits for its tokens meanwhile.
ASK_SECONDS = 10.0

_MOST_KEPT = 10_000

_DISABLED = "the Nextcloud account is disabled"
_NO_ACCESS = "Nextcloud no longer accepts the access given earlier"
_OTHER = "Nextcloud answered for another account"
_NOT_A_MEMBER = "not in a group that may use this server"


class UpstreamCheck:
    """Asks Nextcloud about users. With `groups` only their members may use this server."""

    def __init__(
        self,
        database: "Database",
        nextcloud: Nextcloud,
        broker: Broker,
        *,
        groups: frozenset[str],
        monotonic: Callable[[], float] = anyio.current_time,
        ask_seconds: float = ASK_SECONDS,
    ) -> None:
        self._database = database
        self._nextcloud = nextcloud
        self._broker = broker
        self._groups = groups
        self._monotonic = monotonic
        self._ask_seconds = ask_seconds
        self._allowed_until: OrderedDict[Principal, float] = OrderedDict()

    async def still_allowed(self, principal: Principal) -> str | None:
        """Return why a user may not use this server any more; None if they may, or if it is not known."""
        if self._monotonic() < self._allowed_until.get(principal, 0.0):
            return None
        why, seconds = None, PAUSE_SECONDS
        try:
            with anyio.fail_after(self._ask_seconds):
                why = await self._refusal(principal)
            seconds = KEEP_SECONDS
        except (TimeoutError, NextcloudError) as error:
            logger.warning(
                "Nextcloud could not be asked about a user, who stays signed in: %r",
                str(error),
            )
        self._keep(principal, seconds if why is None else 0.0)
        return why

    async def _refusal(self, principal: Principal) -> str | None:
        try:
            user = await self._user(principal)
        except AccountDisabled:
            return _DISABLED
        except RouteRefused:
            # A proxy or one route refuses, while the credential is taken elsewhere: that is no word about the user.
            raise
        except (CredentialRejected, GrantDead, Forbidden, NotFound, Unsealable):
            return _NO_ACCESS
        except WrongAccount:
            return _OTHER
        if user.uid != principal.subject:
            return _OTHER
        if self._groups and self._groups.isdisjoint(user.groups):
            return _NOT_A_MEMBER
        return None

    async def _user(self, principal: Principal) -> User:
        grant = await self._database.grants.find(principal, "")
        credential = None if grant is None else await self._broker.fresh(grant)
        if grant is None or not _usable(credential):
            raise CredentialRejected("There is no access to ask with.")
        try:
            return await self._whoami(credential, principal)
        except CredentialRejected:
            # The access token may have expired earlier than announced.
            renewed = await self._broker.renew(replace(grant, credential=credential))
            if not _usable(renewed) or renewed.version == credential.version:
                raise
        try:
            return await self._whoami(renewed, principal)
        except CredentialRejected:
            # Nextcloud counts each refusal against this server's address, and so against all its users.
            await self._database.grants.mark_needs_reauth(renewed.id, version=renewed.version)
            raise

    async def _whoami(self, credential: Credential, principal: Principal) -> User:
        """Ask which user a credential belongs to. Only WebDAV reports that an account is disabled."""
        try:
            return await self._nextcloud.whoami(opening(credential))
        except AccountDisabled:
            raise
        except Unavailable:
            await self._nextcloud.storage_id(opening(credential), uid=principal.subject)
            raise

    def _keep(self, principal: Principal, seconds: float) -> None:
        self._allowed_until.pop(principal, None)
        if seconds:
            self._allowed_until[principal] = self._monotonic() + seconds
        while len(self._allowed_until) > _MOST_KEPT:
            self._allowed_until.popitem(last=False)


def _usable(credential: Credential | None) -> TypeGuard[Credential]:
    return credential is not None and not credential.needs_reauth
