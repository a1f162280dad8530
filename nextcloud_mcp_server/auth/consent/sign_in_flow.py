"""What the pages need of a way to sign in: an identity provider, or Nextcloud itself."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.consent.views import SignInStart
from nextcloud_mcp_server.storage.records import Principal


@dataclass(frozen=True, slots=True)
class Person:
    """Who signed in. `uid` is the Nextcloud account that the operator's mapping gives them.

    `sub` and `sid` are what the issuer calls them and their session there, where it says so.
    """

    principal: Principal
    display_name: str
    uid: str | None
    sub: str | None = None
    sid: str | None = None


class Back(Protocol):
    """A browser that came back: the session that begins with it, and what the sign-in was for."""

    @property
    def session(self) -> SecretStr:
        """The value of the session's cookie, which was chosen before the browser left."""
        ...

    @property
    def target(self) -> str:
        """`account`, or `consent_request:` and an elicitation's id."""
        ...


BackT = TypeVar("BackT", bound=Back)


class SignInFlow(Protocol[BackT]):
    """One way to find out who sits at the browser."""

    @property
    def mapping_claim(self) -> str | None:
        """What names each user's Nextcloud account; None where every user confirms theirs."""
        ...

    @property
    def brings_access(self) -> bool:
        """Whether a sign-in also gives the access that a consent request needs, without a second authorization."""
        ...

    async def begin(self, target: str, *, another: bool = False) -> SignInStart:
        """Make the address to go to."""
        ...

    async def returned(self, flow: str, params: Params) -> BackT:
        """Check how the browser came back, before anything is asked of anyone."""
        ...

    async def knows(self, state: str) -> bool:
        """Tell whether a `state` is one of ours; nothing is asked of anyone, and nothing is written."""
        ...

    async def exchange_code(self, returned: BackT) -> Person:
        """Find out who it is."""
        ...
