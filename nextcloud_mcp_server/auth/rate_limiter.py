"""The one rate limiter: how often a key, such as an address, may do something in a fixed window.

Counts are kept in memory, per process, and never in the database: unauthenticated requests must not leave rows.
docs/decisions/0010-rate-limiters.md says what else limits requests, and why that is not done here.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from nextcloud_mcp_server.errors import TooManyRequests

_MAX_KEYS = 4_096
#: The holder of an IPv6 network can choose this many bits of its addresses.
_IPV6_HOST_BITS = 64
_REFUSAL = "This server takes no more of this for now; wait {seconds} seconds, then try again."


class RateLimiter:
    """Allows `limit` actions per window of `seconds` for each key; drops the oldest windows at `max_keys`.

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
        # Key → the end of its window, and its count.
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def check(self, key: str) -> None:
        """Refuse a key that has reached its limit; does not count.

        Raises:
            TooManyRequests: The limit is reached, and the window has not ended.
        """
        ends_at, count = self._window(key)
        if count >= self._limit:
            wait = max(1, math.ceil(ends_at - self._monotonic()))
            raise TooManyRequests(self._refusal.format(seconds=wait), retry_after_seconds=wait)

    def count(self, key: str) -> None:
        """Count one action of a key."""
        ends_at, count = self._window(key)
        self._windows[key] = (ends_at, count + 1)
        if len(self._windows) > self._max_keys:
            self._windows.popitem(last=False)

    def _window(self, key: str) -> tuple[float, int]:
        now = self._monotonic()
        # All windows have the same length, so the oldest one ends first.
        while self._windows and next(iter(self._windows.values()))[0] <= now:
            self._windows.popitem(last=False)
        return self._windows.get(key, (now + self._seconds, 0))


def network_of(address: str) -> str:
    """Return the key of an address for limits: its network for IPv6, else the address itself.

    One party may hold many IPv6 addresses.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(IPv6Address(int(parsed) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS))
    return address
