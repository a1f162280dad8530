"""The sign-in for our own pages: a visit that an assistant asked for, or the account page.

What Nextcloud gives for it says who somebody is. It becomes their connection when they allow the visit
that they signed in for, and need one; otherwise it is ended at once.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import AGAIN, Came, NextcloudSignIn
from nextcloud_mcp_server.auth.callback import Params
from nextcloud_mcp_server.auth.oauth_client import new_secret
from nextcloud_mcp_server.auth.redeeming import Noted
from nextcloud_mcp_server.auth.sign_in_leg import Person
from nextcloud_mcp_server.auth.visit import SignInStart
from nextcloud_mcp_server.errors import SignInRefused
from nextcloud_mcp_server.storage.oauth_records import Arrived
from nextcloud_mcp_server.storage.records import Elicitation, HeldGrant

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

_VISIT = "visit:"


@dataclass(frozen=True, slots=True)
class PageReturned:
    """A browser that came back from a sign-in for a page; `flow` is the value that only it has."""

    came: Came
    flow: str
    session: SecretStr

    @property
    def target(self) -> str:
        """What the sign-in was for."""
        return self.came.arrival.target


class PageSignIn:
    """A `SignInLeg` that stands on Nextcloud alone."""

    def __init__(self, database: "Database", sign_in: NextcloudSignIn) -> None:
        self._database = database
        self._sign_in = sign_in

    @property
    def mapping_claim(self) -> str | None:
        """Who signs in with Nextcloud has the account they signed in with."""
        return "user_id"

    @property
    def brings_access(self) -> bool:
        """What Nextcloud gives opens the account."""
        return True

    async def begin(self, target: str, *, another: bool = False) -> SignInStart:
        """Make the address at Nextcloud, which has no way to ask for another person (`another`)."""
        del another
        flow = new_secret()
        url = await self._sign_in.begin(target, browser=flow.get_secret_value())
        return SignInStart(url=url, flow=flow)

    async def returned(self, flow: str, params: Params) -> PageReturned:
        """Check how the browser came back; see `NextcloudSignIn.returned`."""
        came = await self._sign_in.returned(params, browser=flow, kind="page")
        return PageReturned(came, flow, new_secret())

    async def knows(self, state: str) -> bool:
        """Tell whether a `state` is one of ours, for a page or for a client: both are kept in one place."""
        return await self._database.arrivals.knows(state)

    async def redeem(self, returned: PageReturned) -> Person:
        """Find out who it is, and keep what Nextcloud gave only where it is needed."""
        session = returned.session.get_secret_value()

        async def keep(arrived: Arrived, given: Noted) -> Person:
            await self._keep(arrived, given, session)
            uid = arrived.principal.subject
            return Person(arrived.principal, arrived.display_name or uid, uid)

        return await self._sign_in.redeem(returned.came, browser=returned.flow, keep=keep)

    async def _keep(self, arrived: Arrived, given: Noted, session: str) -> None:
        elicitation = await self._needing(arrived)
        if elicitation is None:
            await self._sign_in.give_back(given)
            return
        held = HeldGrant(
            elicitation_id=elicitation.id,
            principal=arrived.principal,
            scopes=elicitation.scopes,
            provider=arrived.provider,
            tokens=given.tokens,
            uid=arrived.principal.subject,
            display_name=arrived.display_name,
            home_id=arrived.home_id,
            expires_at=elicitation.expires_at,
        )
        if not await self._database.held_grants.hold(held, sign_in=session, note=given.note):
            raise SignInRefused(AGAIN)

    async def _needing(self, arrived: Arrived) -> Elicitation | None:
        """Find the visit that needs what was given: this person's own, and they have nothing that works."""
        target = arrived.arrival.target
        if not target.startswith(_VISIT):
            return None
        elicitation = await self._database.elicitations.find(target.removeprefix(_VISIT))
        if elicitation is None or elicitation.principal != arrived.principal or elicitation.state.final:
            return None
        grant = await self._database.grants.find(arrived.principal, elicitation.client_id)
        works = grant is not None and not grant.credential.needs_reauth
        return None if works else elicitation
