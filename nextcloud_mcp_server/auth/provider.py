"""Where a person's Nextcloud credential comes from, as one interface."""

from dataclasses import dataclass
from typing import Protocol

from pydantic import SecretStr

from nextcloud_mcp_server.storage.records import Elicitation, LoginFlow, LoginResult


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose account a credential opens. `home_id` tells a re-created user from the first one."""

    uid: str
    display_name: str
    home_id: str | None


class GrantProvider(Protocol):
    """One way to be given access. Login Flow v2 is one; OAuth providers are others."""

    @property
    def name(self) -> str:
        """What the credential's row says about where it came from."""
        ...

    async def authorize_url(self, elicitation: Elicitation, scopes: frozenset[str]) -> SecretStr:
        """Start the visit, or find the one that was started, and tell where the person must go.

        Raises:
            NextcloudError: Nextcloud could not be asked.
        """
        ...

    async def redeem(self, flow: LoginFlow) -> LoginResult | None:
        """Ask whether the person has confirmed; None while not.

        Raises:
            NextcloudError: Nextcloud could not be asked; ask again later.
        """
        ...

    async def identify(self, result: LoginResult) -> Identity:
        """Ask whose account was given. Says nothing about who gave it.

        Raises:
            CredentialRejected: What was given does not work.
            NextcloudError: Nextcloud could not be asked; ask again later.
        """
        ...

    async def revoke(self, *, login_name: str, secret: SecretStr) -> None:
        """End a credential at Nextcloud; one that is dead already counts as ended.

        Raises:
            NextcloudError: Nextcloud could not be asked; try again later.
        """
        ...
