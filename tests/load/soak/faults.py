"""The faults of a soak, one after the other: of Nextcloud, of connections to it, of tokens, and ends of access."""

from collections.abc import Awaitable, Callable, Sequence
from random import Random

import anyio

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.faults import FaultArea
from tests.load.soak.ledger import Ledger
from tests.load.soak.user import User, disconnect


class Faults:
    """Injects one fault after the other into the sandbox and the users' access."""

    def __init__(self, sandbox: Sandbox, users: Sequence[User], ledger: Ledger, random: Random) -> None:
        self._sandbox = sandbox
        self._users = users
        self._ledger = ledger
        self._random = random
        # A token that Nextcloud refuses soon after its refresh ends the access, as it should.
        self._expired: dict[str, float] = {}

    async def run(self, *, every_seconds: float) -> None:
        """Inject a fault now and then, each kind in turn, until cancelled."""
        kinds: list[Callable[[], Awaitable[None]]] = [
            self._unavailable,
            self._token_refused,
            self._slow,
            self._at_nextcloud,
            self._dropped,
            self._token_refused,
            self._no_refresh,
            self._disconnected,
            self._slow_refresh,
            self._token_refused,
        ]
        while True:
            for inject in kinds:
                await anyio.sleep(self._random.expovariate(1 / every_seconds))
                await inject()

    async def _unavailable(self) -> None:
        """Nextcloud is in maintenance: 503."""
        await self._for(3.0, "503", consequences=2.0, area="all")

    async def _no_refresh(self) -> None:
        """Only tokens cannot be refreshed: 503."""
        await self._for(3.0, "503 of the token endpoint", consequences=2.0, area="oauth2")

    async def _for(self, seconds: float, kind: str, *, consequences: float, area: FaultArea) -> None:
        self._ledger.fault(kind, seconds, consequences=consequences)
        self._sandbox.faults.status(503, area=area)
        await anyio.sleep(seconds)
        self._sandbox.faults.clear()

    async def _slow(self) -> None:
        """Every request to Nextcloud takes two seconds more."""
        await self._slowly("slow", 2.0, seconds=5.0, area="all")

    async def _slow_refresh(self) -> None:
        """A token refresh takes longer than the calls that wait for it may like."""
        await self._slowly("slow token endpoint", 8.0, seconds=5.0, area="oauth2")

    async def _slowly(self, kind: str, delay: float, *, seconds: float, area: FaultArea) -> None:
        # Nothing may fail because of it: no window of the ledger.
        self._ledger.faults[kind] += 1
        self._sandbox.faults.slow(delay, area=area)
        await anyio.sleep(seconds)
        self._sandbox.faults.clear()

    async def _dropped(self) -> None:
        """Some connections break after the request was carried out."""
        self._ledger.fault("dropped connection", 3.0, consequences=2.0)
        for area in ("notes", "dav", "ocs"):
            self._sandbox.faults.lost_body(area=area, times=4)
        await anyio.sleep(3.0)
        self._sandbox.faults.clear()

    async def _token_refused(self) -> None:
        """Nextcloud refuses a user's access token once; a refresh brings the next one, and nobody is asked."""
        now = self._ledger.clock()
        user = self._random.choice(self._users)
        if user.stands and now - self._expired.get(user.name, float("-inf")) > 120:
            self._ledger.faults["access token refused"] += 1
            self._expired[user.name] = now
            user.let_token_expire()

    async def _at_nextcloud(self) -> None:
        """A user ends the access in Nextcloud."""
        self._ledger.faults["revoked at Nextcloud"] += 1
        self._random.choice(self._users).revoke_at_nextcloud()

    async def _disconnected(self) -> None:
        """A user's client ends its access."""
        self._ledger.faults["disconnected"] += 1
        await disconnect(self._random.choice(self._users))
