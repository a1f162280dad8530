"""How often clients may ask our authorization server in vain, by their address.

The users of a chat service in the cloud share its addresses. So what counts is what was refused, and
a client that was given tokens there has a count of its own: others' failures do not turn it away.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from nextcloud_mcp_server.auth.rate_limiter import network_of
from nextcloud_mcp_server.errors import OAuthRefusal, TooManyRequests
from nextcloud_mcp_server.web.limits import Kind, Limits

_MOST_KNOWN = 8_192


class ClientLimits:
    """Counts in memory, per process; of the clients that were given tokens, the last `most` are known."""

    def __init__(self, limits: Limits, *, most: int = _MOST_KNOWN) -> None:
        self._limits = limits
        self._most = most
        self._known: OrderedDict[str, None] = OrderedDict()

    @asynccontextmanager
    async def attempt(
        self, address: str, client_id: str | None = None, *, always_counts: bool = False
    ) -> AsyncGenerator[None]:
        """Go around what a client asks for: a refusal counts, and what ends well makes it known here.

        With `always_counts` the good end proves nothing, and counts too.

        Raises:
            TooManyRequests: Too much was refused in this minute.
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
        # The one that goes too far has its answer; the next one is not looked at.
        with suppress(TooManyRequests):
            await self._limits.count(Kind.CLIENT, who)

    def _learn(self, own: str) -> None:
        self._known[own] = None
        self._known.move_to_end(own)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
