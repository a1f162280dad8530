"""The interfaces of grant providers: the sources of a user's Nextcloud credential."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from pydantic import SecretStr

from nextcloud_mcp_server.errors import NextcloudError
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.records import Elicitation, LoginFlow, LoginResult, Principal, Tokens


@dataclass(frozen=True, slots=True)
class Identity:
    """The account that a credential opens. `storage_id` tells a re-created user from the first one."""

    uid: str
    display_name: str
    storage_id: str | None
    groups: frozenset[str] = frozenset()


class GrantProvider(Protocol):
    """A grant provider that is polled, as Login Flow v2; OAuth providers are `RedirectProvider`."""

    @property
    def name(self) -> str:
        """The provider's name in the credential's row."""
        ...

    @property
    def obstacle(self) -> str:
        """Why the last flow could not start, as a sentence for the user; "" if it could."""
        ...

    async def authorize_url(
        self, elicitation: Elicitation, scopes: frozenset[str], *, uid: str | None = None
    ) -> SecretStr:
        """Start the flow of a consent request, or find the one that was started; return the user's URL.

        `uid` is the account that the flow must open; None on a single-user server.

        Raises:
            WrongAccount: The flow was started for another account.
            NextcloudError: Nextcloud could not be asked.
        """
        ...

    async def exchange_code(self, flow: LoginFlow) -> LoginResult | None:
        """Ask whether the user has confirmed; None if not yet.

        Raises:
            NextcloudError: Nextcloud could not be asked; ask again later.
        """
        ...

    async def identify(self, result: LoginResult) -> Identity:
        """Ask which account a credential opens. The answer does not say who confirmed.

        Raises:
            CredentialRejected: The credential does not work.
            NextcloudError: Nextcloud could not be asked; ask again later.
        """
        ...

    async def revoke(self, *, login_name: str, secret: SecretStr) -> None:
        """Revoke a credential at Nextcloud; an invalid one counts as revoked.

        Raises:
            NextcloudError: Nextcloud could not be asked; try again later.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExchangeResult:
    """The tokens of a code exchange, and the account that they open.

    `subject` is the user who confirmed, if the provider names them in an ID token; else None.
    """

    tokens: Tokens
    identity: Identity
    subject: Principal | None = None


#: Called with the tokens as soon as they arrive.
Note = Callable[[Tokens], Awaitable[object]]


class OrphanedTokens(Exception):
    """Tokens that cannot be used (`reason`) and could not be revoked; the caller must revoke them."""

    def __init__(self, tokens: Tokens, reason: NextcloudError) -> None:
        super().__init__(str(reason))
        self.tokens = tokens
        self.reason = reason


async def end_unused(provider: "RedirectProvider", tokens: Tokens, reason: NextcloudError) -> None:
    """Revoke tokens that are not stored; unless revoked they would stay valid.

    Raises:
        OrphanedTokens: They cannot be revoked now.
    """
    try:
        ended = await provider.revoke(tokens)
    except NextcloudError:
        ended = False
    if not ended:
        raise OrphanedTokens(tokens, reason) from reason


class RedirectProvider(Protocol):
    """A grant provider that redirects the browser and gets a callback, as OAuth does."""

    @property
    def name(self) -> str:
        """The provider's name in the credential's row."""
        ...

    @property
    def redirect_uri(self) -> str:
        """The redirect URI of the callback: a path of its own for this flow."""
        ...

    @property
    def uses_pkce(self) -> bool:
        """Whether a code verifier is sent (RFC 7636); Nextcloud's own app ignores it."""
        ...

    @property
    def uses_nonce(self) -> bool:
        """Whether the tokens include an ID token, which must carry the nonce."""
        ...

    async def callback_issuer(self) -> str | None:
        """Return the `iss` that the callback must carry (RFC 9207); None if the provider sends none."""
        ...

    async def authorize_url(self, *, state: str, verifier: SecretStr | None, nonce: SecretStr | None) -> str:
        """Build the URL at which the user confirms.

        Raises:
            IssuerUnavailable: The provider's metadata could not be read.
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
        """Exchange the code, and ask which account the tokens open.

        `note` is called with the tokens before any other request; if it raises, the exchange ends.

        Raises:
            GrantRefused: The code is not accepted; it counts as a failed code exchange.
            Throttled: Too many failures from this server's address.
            NextcloudError: The provider or Nextcloud could not be asked.
            OrphanedTokens: The same after the exchange; the caller must revoke the tokens.
        """
        ...

    async def picture(self, tokens: Tokens, *, uid: str) -> Picture | None:
        """Fetch the picture of the account that these tokens open; None where there is none."""
        ...

    async def refresh(self, refresh_token: SecretStr) -> Tokens:
        """Fetch new tokens. An answer without a refresh token keeps the old one.

        Raises:
            GrantDead: The refresh token is permanently invalid.
            NextcloudError: The refresh failed for now; nothing has changed.
        """
        ...

    async def revoke(self, tokens: Tokens) -> bool:
        """Revoke these tokens and what belongs to them; False if the access token is not valid any more.

        A refresh must then give a valid one first.

        Raises:
            NextcloudError: The revocation failed for now; try again later.
        """
        ...
