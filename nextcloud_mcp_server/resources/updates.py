"""Handles subscriptions to resources.

These are `resources/subscribe` up to 2025-11-25, and streams since 2026-07-28.

Subscribing asks for no consent: a client reads a resource before it subscribes, and reading asks. It cannot subscribe
to a resource that it may not read.
"""

import logging
from collections.abc import Collection
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from nextcloud_mcp_server.auth.principal import Principal
from nextcloud_mcp_server.errors import NextcloudMcpError, NotFound
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.change_notifier import Session
from nextcloud_mcp_server.resources.catalogue import Catalogue, Ctx
from nextcloud_mcp_server.resources.interest import MAX_ADDRESSES, Interest, Target
from nextcloud_mcp_server.resources.poller import Poller
from nextcloud_mcp_server.tools.answer import refusal
from nextcloud_mcp_server.tools.state import State

logger = logging.getLogger(__name__)

#: The maximum number of open streams of one user's clients together.
MAX_STREAMS = 32

#: The key under which a connection stores the subscriptions of its session.
_KEY = "subscriptions"


class Updates:
    """Manages the subscriptions of clients, separately for each user."""

    def __init__(self, catalogue: Catalogue, state: State, poller: Poller) -> None:
        self._catalogue = catalogue
        self._state = state
        self._change_notifier = state.availability.change_notifier
        self._poller = poller
        self._streams: dict[Principal, int] = {}

    def install(self, server: Server[Any]) -> None:
        """Install the handlers for both protocols; the SDK keeps their methods apart."""
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, self.subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self.unsubscribe)
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self.listen)

    async def subscribe(self, ctx: Ctx, params: SubscribeRequestParams) -> EmptyResult:
        """Subscribe a session to one resource.

        Raises:
          MCPError: There is no such resource, the client has no access to it, or it is one too many.
        """
        uri = str(params.uri)
        try:
            target = self._catalogue.find(ctx, uri)
            allowed = await self._allowed(ctx, target)
        except NextcloudMcpError as error:
            code = INVALID_PARAMS if isinstance(error, NotFound) else INTERNAL_ERROR
            raise MCPError(code, refusal(str(error)), {"uri": uri}) from None
        if not allowed:
            raise MCPError(INVALID_PARAMS, _NO_ACCESS, {"uri": uri})
        session = self._change_notifier.join(ctx)
        if session is None:
            raise MCPError(INVALID_PARAMS, "Subscribing needs a session.", {"uri": uri})
        interest = self._interest(ctx, session)
        if uri not in interest.wants and not self._poller.takes(interest):
            raise MCPError(INTERNAL_ERROR, _TOO_MANY, {"uri": uri})
        interest.wants[uri] = target
        session.uris = interest.wants
        self._poller.add(interest)
        return EmptyResult()

    async def unsubscribe(self, ctx: Ctx, params: UnsubscribeRequestParams) -> EmptyResult:
        """End a subscription; one that does not exist is ignored."""
        interest: Interest | None = wire.connection(ctx).state.get(_KEY)
        if interest is not None:
            self._forget(interest, [str(params.uri)])
        return EmptyResult()

    async def listen(self, ctx: Ctx, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Send updates to a client on a stream, while the stream is open and the client has access.

        Raises:
          MCPError: The user has too many streams open.
        """
        caller, asked = self._state.caller(ctx), params.notifications
        person = caller.principal
        if self._streams.get(person, 0) >= MAX_STREAMS:
            raise MCPError(INTERNAL_ERROR, "Too many streams are open already; close one, then listen again.")
        # One handler per stream: closing it then ends this stream only.
        handler = ListenHandler(self._change_notifier.bus(person, caller))

        async def lose(_: Collection[str]) -> None:
            handler.close()

        interest = Interest(caller, "all" if asked.resources_list_changed else "none", lose)
        self._streams[person] = self._streams.get(person, 0) + 1
        try:
            await self._take(ctx, interest, asked.resource_subscriptions or [])
            honored = asked.model_copy(update={"resource_subscriptions": list(interest.wants) or None})
            return await handler(ctx, params.model_copy(update={"notifications": honored}))
        finally:
            self._poller.remove(interest)
            self._streams[person] -= 1
            if not self._streams[person]:
                del self._streams[person]

    async def _take(self, ctx: Ctx, interest: Interest, uris: Collection[str]) -> None:
        """Add a stream's subscriptions; refused ones are missing in the acknowledgement."""
        found: dict[str, Target] = {}
        for uri in list(uris)[:MAX_ADDRESSES]:
            try:
                target = self._catalogue.find(ctx, uri)
                if await self._allowed(ctx, target):
                    found[uri] = target
            except NextcloudMcpError as error:
                logger.info("a stream does not hear of one resource: %s", error)
        for uri, target in found.items():
            if self._poller.takes(interest):
                interest.wants[uri] = target
                self._poller.add(interest)
        if interest.lists == "all" and self._poller.takes(interest):
            self._poller.add(interest)

    async def _allowed(self, ctx: Ctx, target: Target) -> bool:
        services = await self._state.services()
        opened = await services.accounts.find(self._state.caller(ctx))
        return opened is not None and target[0].about.scopes <= opened.scopes

    def _interest(self, ctx: Ctx, session: Session) -> Interest:
        """Return the subscriptions of a session, which exist as long as its connection."""
        connection = wire.connection(ctx)
        known: Interest | None = connection.state.get(_KEY)
        if known is not None:
            # The session's newest token counts: it may cover less than the one before it.
            known.caller = self._state.caller(ctx)
            return known

        async def lose(uris: Collection[str]) -> None:
            # This protocol has no message for the end of a subscription; when read again, the resource asks for
            # access.
            await self._change_notifier.send(session, *map(ResourceUpdated, uris))
            self._forget(interest, uris)

        interest = connection.state[_KEY] = Interest(
            self._state.caller(ctx), "own", lose, attended=lambda: self._change_notifier.attends(session)
        )
        connection.exit_stack.callback(self._poller.remove, interest)
        return interest

    def _forget(self, interest: Interest, uris: Collection[str]) -> None:
        for uri in uris:
            interest.wants.pop(uri, None)
        if not interest.wants:
            self._poller.remove(interest)


_NO_ACCESS = "There is no access to this resource yet: read it, which asks for access, then subscribe again."
_TOO_MANY = (
    f"There are too many subscriptions already, at most {MAX_ADDRESSES} for one person; end some "
    "(resources/unsubscribe)."
)
