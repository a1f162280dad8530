"""Rate limits for refused requests of clients to the authorization server, by address.

The users of a hosted chat service share its addresses. So only refused requests count, and a client that was
given tokens there has a count of its own: failures of other clients do not block it.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from nextcloud_mcp_server.auth.rate_limiter import network_of
from nextcloud_mcp_server.errors import OAuthRefusal, TooManyRequests
from nextcloud_mcp_server.web.limits import Kind, Limits

_MOST_KNOWN = 8_192


class ClientLimits:
    """Counts in memory, per process; remembers the last `most` clients that were given tokens."""

    def __init__(self, limits: Limits, *, most: int = _MOST_KNOWN) -> None:
        self._limits = limits
        self._most = most
        self._known: OrderedDict[str, None] = OrderedDict()

    @asynccontextmanager
    async def attempt(
        self, address: str, client_id: str | None = None, *, always_counts: bool = False
    ) -> AsyncGenerator[None]:
        """Wrap a client's request: count a refusal; remember the client after a success.

        With `always_counts` a success proves nothing about the client, and is counted too.

        Raises:
            TooManyRequests: Too many requests were refused in this minute.
        """
        network = network_of(address)
        own = f"{network}\n{client_id}"
        who = own if own in self._known else network
        await self._limits.check(Kind.CLIENT, who)
        try:
            yield
        except OAuthRefusal:
            await self._count(who)
            raise
        if always_counts:
            await self._count(who)
        elif client_id is not None:
            self._learn(own)

    async def _count(self, who: str) -> None:
        # The request that exceeds the limit has its answer already; the next one is refused unread.
        with suppress(TooManyRequests):
            await self._limits.count(Kind.CLIENT, who)

    def _learn(self, own: str) -> None:
        self._known[own] = None
        self._known.move_to_end(own)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
