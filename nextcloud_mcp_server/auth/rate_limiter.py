"""The one rate limiter: how often a key, such as an address, may have something done in a fixed window.

Counted in memory, for each process by itself, and in no row of the database: requests of strangers must cost nothing
that stays. docs/decisions/0010-rate-limiters.md says what else limits requests, and why that is not done here.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from nextcloud_mcp_server.errors import TooManyRequests

_MAX_KEYS = 4_096
#: The holder of an IPv6 address has this many bits of it to choose from.
_IPV6_HOST_BITS = 64
_REFUSAL = "This server takes no more of this for now; wait {seconds} seconds, then try again."


class RateLimiter:
    """Allows `limit` in each window of `seconds` for each key; the oldest windows go when there are `max_keys`.

    `refusal` is the text of the error, with `{seconds}` in it.
    """

    def __init__(
        self,
        limit: int,
        *,
        seconds: float,
        monotonic: Callable[[], float],
        max_keys: int = _MAX_KEYS,
        refusal: str = _REFUSAL,
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._monotonic = monotonic
        self._max_keys = max_keys
        self._refusal = refusal
        # Key → when its window ends, and its count.
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def check(self, key: str) -> None:
        """Refuse a key that has reached its limit, without counting.

        Raises:
            TooManyRequests: It has, and its window has not ended.
        """
        ends_at, count = self._window(key)
        if count >= self._limit:
            wait = max(1, math.ceil(ends_at - self._monotonic()))
            raise TooManyRequests(self._refusal.format(seconds=wait), retry_after_seconds=wait)

    def count(self, key: str) -> None:
        """Count one."""
        ends_at, count = self._window(key)
        self._windows[key] = (ends_at, count + 1)
        if len(self._windows) > self._max_keys:
            self._windows.popitem(last=False)

    def _window(self, key: str) -> tuple[float, int]:
        now = self._monotonic()
        # All windows are equally long, so the first one made ends first.
        while self._windows and next(iter(self._windows.values()))[0] <= now:
            self._windows.popitem(last=False)
        return self._windows.get(key, (now + self._seconds, 0))


def network_of(address: str) -> str:
    """Name what one party may have many addresses of: an IPv6 network, or else the address itself."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(IPv6Address(int(parsed) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS))
    return address
