"""The interface of sign-in flows, as the pages use it: an identity provider, or Nextcloud itself."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.consent.views import SignInStart
from nextcloud_mcp_server.storage.records import Principal


@dataclass(frozen=True, slots=True)
class Person:
    """A user who signed in. `uid` is the Nextcloud account that the operator's mapping gives them.

    `sub` and `sid` are the issuer's ids of the user and of their session there, if it names them.
    """

    principal: Principal
    display_name: str
    uid: str | None
    sub: str | None = None
    sid: str | None = None


class Back(Protocol):
    """A checked callback of a sign-in: the browser session that begins with it, and its target."""

    @property
    def session(self) -> SecretStr:
        """The value of the session cookie, which was chosen before the browser was redirected."""
        ...

    @property
    def target(self) -> str:
        """`account`, or `consent:` and the id of an elicitation."""
        ...


BackT = TypeVar("BackT", bound=Back)


class SignInFlow(Protocol[BackT]):
    """One way to identify the user of a browser."""

    @property
    def mapping_claim(self) -> str | None:
        """The claim that names each user's Nextcloud account; None if each user confirms their account."""
        ...

    @property
    def brings_access(self) -> bool:
        """Whether a sign-in also brings the tokens that a consent request needs.

        No second authorization request is needed then.
        """
        ...

    async def begin(self, target: str, *, another: bool = False) -> SignInStart:
        """Build the URL of the sign-in."""
        ...

    async def returned(self, flow: str, params: Params) -> BackT:
        """Check the parameters of a callback, before anything is sent."""
        ...

    async def knows(self, state: str) -> bool:
        """Tell whether a `state` was made here; nothing is sent, and nothing is written."""
        ...

    async def exchange_code(self, returned: BackT) -> Person:
        """Exchange the code, and return the signed-in user."""
        ...
