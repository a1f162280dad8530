"""Where a user's Nextcloud credential comes from, as one interface."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from pydantic import SecretStr

from nextcloud_mcp_server.errors import NextcloudError
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.records import Elicitation, LoginFlow, LoginResult, Principal, Tokens


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose account a credential opens. `storage_id` tells a re-created user from the first one."""

    uid: str
    display_name: str
    storage_id: str | None
    groups: frozenset[str] = frozenset()


class GrantProvider(Protocol):
    """One way to be given access. Login Flow v2 is one; OAuth providers are others."""

    @property
    def name(self) -> str:
        """What the credential's row says about where it came from."""
        ...

    async def authorize_url(
        self, elicitation: Elicitation, scopes: frozenset[str], *, uid: str | None = None
    ) -> SecretStr:
        """Start the consent request, or find the one that was started, and tell where the user must go.

        `uid` is the account that must come of it; None on one user's server.

        Raises:
            WrongAccount: It was started for another account.
            NextcloudError: Nextcloud could not be asked.
        """
        ...

    async def exchange_code(self, flow: LoginFlow) -> LoginResult | None:
        """Ask whether the user has confirmed; None while not.

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


@dataclass(frozen=True, slots=True)
class ExchangeResult:
    """What a code was exchanged for, and whose account it opens.

    `subject` is who confirmed, where the provider says so in an ID token; None where it cannot.
    """

    tokens: Tokens
    identity: Identity
    subject: Principal | None = None


#: Hears of tokens as soon as there are some.
Note = Callable[[Tokens], Awaitable[object]]


class OrphanedTokens(Exception):
    """Tokens were given, cannot be used (`reason`), and could not be ended at once: that is left to the caller."""

    def __init__(self, tokens: Tokens, reason: NextcloudError) -> None:
        super().__init__(str(reason))
        self.tokens = tokens
        self.reason = reason


async def end_unused(provider: "RedirectProvider", tokens: Tokens, reason: NextcloudError) -> None:
    """End tokens that no one else knows; left alone they would work for ever.

    Raises:
        LeftBehind: It cannot be done now.
    """
    try:
        ended = await provider.revoke(tokens)
    except NextcloudError:
        ended = False
    if not ended:
        raise OrphanedTokens(tokens, reason) from reason


class RedirectProvider(Protocol):
    """A way to be given access that sends the browser there and back, as OAuth does."""

    @property
    def name(self) -> str:
        """What the credential's row says about where it came from."""
        ...

    @property
    def redirect_uri(self) -> str:
        """Where the browser comes back to: a path of its own for this flow."""
        ...

    @property
    def uses_pkce(self) -> bool:
        """Whether a code verifier goes along (RFC 7636); Nextcloud's own app ignores it."""
        ...

    @property
    def uses_nonce(self) -> bool:
        """Whether an ID token comes back that must carry our nonce."""
        ...

    async def callback_issuer(self) -> str | None:
        """Name the `iss` that the callback must carry (RFC 9207); None where the provider sends none."""
        ...

    async def authorize_url(self, *, state: str, verifier: SecretStr | None, nonce: SecretStr | None) -> str:
        """Make the address at which the user confirms.

        Raises:
            IssuerUnavailable: The provider's addresses could not be found out.
        """
        ...

    async def exchange_code(
        self,
        *,
        code: SecretStr,
        verifier: SecretStr | None,
        nonce: SecretStr | None,
        note: Note | None = None,
    ) -> ExchangeResult:
        """Exchange the code, and ask whose account was given.

        `note` is told of the tokens before anything else is asked; what it raises ends this.

        Raises:
            GrantRefused: The code is not accepted; it counts against the budget of failures.
            Throttled: Too many failures from our address.
            NextcloudError: The provider or Nextcloud could not be asked.
            LeftBehind: The same after the exchange, and the caller has to see to the end of the tokens.
        """
        ...

    async def picture(self, tokens: Tokens, *, uid: str) -> Picture | None:
        """Fetch the picture of the account that these tokens open; None where there is none."""
        ...

    async def refresh(self, refresh_token: SecretStr) -> Tokens:
        """Fetch the next access token. An answer without a refresh token keeps the old one.

        Raises:
            GrantDead: It no longer works, for good.
            NextcloudError: Not now; everything stays as it is.
        """
        ...

    async def revoke(self, tokens: Tokens) -> bool:
        """End what these tokens belong to; False when a refresh has to give a living access token first.

        Raises:
            NextcloudError: Not now; try again later.
        """
        ...
