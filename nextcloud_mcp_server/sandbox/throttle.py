"""The brute-force protection: failed logins are counted per address, and block it."""

from collections.abc import Collection
from datetime import datetime, timedelta

from nextcloud_mcp_server.sandbox.state import Clock

_ATTEMPTS_ALLOWED = 10
_WINDOW = timedelta(minutes=30)
_LONGEST_DELAY_MS = 25_000


class Throttle:
    """Counts failed logins. An address with eleven in half an hour gets 429, even with a valid password."""

    def __init__(
        self, clock: Clock, *, allowed: int = _ATTEMPTS_ALLOWED, exempt: Collection[str] = ()
    ) -> None:
        self._clock = clock
        self._exempt = exempt
        self._allowed = allowed
        self._bad: dict[str, list[datetime]] = {}

    def count(self, address: str) -> None:
        """Count a failed login, unless the address is on the allow list."""
        if address not in self._exempt:
            self._bad[address] = [*self._recent(address), self._clock()]

    def reset(self, address: str) -> None:
        """Reset the count after a successful login."""
        self._bad.pop(address, None)

    def blocks(self, address: str) -> bool:
        """Return whether logins from the address are refused."""
        return len(self._recent(address)) > self._allowed

    def delay_ms(self, address: str) -> int:
        """Return the delay in the capabilities: it doubles with each failed login."""
        count = len(self._recent(address))
        return min(100 * 2**count, _LONGEST_DELAY_MS) if count else 0

    def _recent(self, address: str) -> list[datetime]:
        if address in self._exempt:
            return []
        since = self._clock() - _WINDOW
        return [at for at in self._bad.get(address, []) if at > since]
