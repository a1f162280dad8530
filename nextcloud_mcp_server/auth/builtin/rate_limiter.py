"""How much strangers may have us do in a time: counted in memory, per process."""

import math
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from nextcloud_mcp_server.errors import TooManyRequests

_MOST_KEYS = 4_096
#: Anyone who has an IPv6 address has this many bits of them to choose from.
_IPV6_HOST_BITS = 64


class RateLimiter:
    """So many in so many seconds for each key; never more keys than fit, the oldest go first."""

    def __init__(
        self, most: int, *, seconds: float, monotonic: Callable[[], float], most_keys: int = _MOST_KEYS
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._monotonic = monotonic
        self._most_keys = most_keys
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def check(self, key: str) -> None:
        """Refuse a key that has used up its time, without counting.

        Raises:
            TooManyRequests: It has.
        """
        ends_at, count = self._window(key)
        if count >= self._most:
            wait = max(1, math.ceil(ends_at - self._monotonic()))
            raise TooManyRequests(
                f"This server takes no more of this for now; wait {wait} seconds, then try again.",
                retry_after_seconds=wait,
            )

    def count(self, key: str) -> None:
        """Count one."""
        ends_at, count = self._window(key)
        self._windows[key] = (ends_at, count + 1)
        if len(self._windows) > self._most_keys:
            self._windows.popitem(last=False)

    def _window(self, key: str) -> tuple[float, int]:
        now = self._monotonic()
        # All windows are equally long, so the first one made ends first.
        while self._windows and next(iter(self._windows.values()))[0] <= now:
            self._windows.popitem(last=False)
        return self._windows.get(key, (now + self._seconds, 0))


def network(address: str) -> str:
    """Name whom an address belongs to: itself, or with IPv6 the network a household gets."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(IPv6Address(int(parsed) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS))
    return address
