"""Nextcloud's own app `oauth2` as a grant provider; no identity provider has to be set up.

It has no PKCE, no nonce and no `iss`, and exchanges a code for any holder of the client secret. So only
`state`, the browser's cookie and the secrecy of the code protect the callback.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.provider import ExchangeResult, Identity, Note, end_unused
from nextcloud_mcp_server.errors import GrantRefused, NextcloudError, WrongAccount
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BearerCredential
from nextcloud_mcp_server.nextcloud.oauth2 import TokenAnswer
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.records import Tokens


class NextcloudOAuth2:
    """Gets tokens from the app `oauth2`, as a client that an administrator has registered there."""

    name = "nextcloud_oauth2"
    uses_pkce = False
    uses_nonce = False

    def __init__(
        self,
        nextcloud: Nextcloud,
        *,
        client_id: str,
        client_secret: SecretStr,
        redirect_uri: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._nextcloud = nextcloud
        self._client_id = client_id
        self._client_secret = client_secret
        self._redirect_uri = redirect_uri
        self._clock = clock

    @property
    def redirect_uri(self) -> str:
        """The registered redirect URI of the client; Nextcloud accepts no other one."""
        return self._redirect_uri

    async def callback_issuer(self) -> str | None:
        """Return None: Nextcloud sends no `iss`."""
        return None

    async def authorize_url(
        self,
        *,
        state: str,
        verifier: SecretStr | None,  # noqa: ARG002 - see `uses_pkce`
        nonce: SecretStr | None,  # noqa: ARG002 - see `uses_nonce`
    ) -> str:
        """Build the URL of Nextcloud's authorization page."""
        return self._nextcloud.oauth2.authorize_url(client_id=self._client_id, state=state)

    async def exchange_code(
        self,
        *,
        code: SecretStr,
        verifier: SecretStr | None,  # noqa: ARG002 - see `uses_pkce`
        nonce: SecretStr | None,  # noqa: ARG002 - see `uses_nonce`
        note: Note | None = None,
    ) -> ExchangeResult:
        """Exchange the code, and ask Nextcloud which account its tokens open."""
        asked_at = self._clock()
        answer = await self._nextcloud.oauth2.exchange_code(
            client_id=self._client_id, client_secret=self._client_secret, code=code
        )
        tokens = _tokens(answer, asked_at)
        if note is not None:
            await note(tokens)
        try:
            if tokens.refresh_token is None:
                raise GrantRefused(
                    "Nextcloud gave access that ends within the hour and cannot be renewed; tell the operator."
                )
            return ExchangeResult(tokens, await self._identify(tokens, answer.user_id))
        except NextcloudError as error:
            await end_unused(self, tokens, error)
            raise

    async def _identify(self, tokens: Tokens, claimed: str | None) -> Identity:
        credential = BearerCredential(tokens.access_token)
        user = await self._nextcloud.whoami(credential)
        if claimed not in (None, user.uid):
            raise WrongAccount(
                "Nextcloud named two different accounts for one access token, so nothing was stored."
            )
        storage_id = await self._nextcloud.storage_id(credential, uid=user.uid)
        return Identity(user.uid, user.display_name, storage_id, frozenset(user.groups))

    async def picture(self, tokens: Tokens, *, uid: str) -> Picture | None:
        """See `RedirectProvider.picture`."""
        account = self._nextcloud.account(BearerCredential(tokens.access_token), uid=uid)
        return await account.user.picture()

    async def refresh(self, refresh_token: SecretStr) -> Tokens:
        """Fetch a new pair of tokens."""
        asked_at = self._clock()
        answer = await self._nextcloud.oauth2.refresh(
            client_id=self._client_id, client_secret=self._client_secret, refresh_token=refresh_token
        )
        return _tokens(answer, asked_at)

    async def revoke(self, tokens: Tokens) -> bool:
        """Revoke access and refresh token with the access token; False if that is not valid any more."""
        return await self._nextcloud.delete_app_password(BearerCredential(tokens.access_token))


def _tokens(answer: TokenAnswer, asked_at: datetime) -> Tokens:
    seconds = answer.expires_in
    return Tokens(
        access_token=answer.access_token,
        refresh_token=answer.refresh_token,
        expires_at=None if seconds is None else asked_at + timedelta(seconds=seconds),
    )
