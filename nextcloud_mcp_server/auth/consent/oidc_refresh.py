"""The identity provider's refresh token as a grant: Nextcloud accepts its access tokens as bearers.

Nextcloud's app `user_oidc` verifies them (`oidc_provider_bearer_validation`, or a provider with "check
bearer"), and determines the account. The operator's settings name the audience that it requires.
"""

import contextlib
from collections.abc import Callable, Generator
from datetime import datetime

from pydantic import SecretStr

from nextcloud_mcp_server.auth import oauth_client
from nextcloud_mcp_server.auth.consent.provider import ExchangeResult, Identity, Note, end_unused
from nextcloud_mcp_server.auth.discovery import Discovery, IssuerMetadata
from nextcloud_mcp_server.auth.id_token import IdTokenCheck
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.oauth_client import OAuthClient, TokenAnswer
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.errors import (
    CredentialRejected,
    GrantRefused,
    IssuerUnavailable,
    NextcloudError,
    SignInRefused,
    Throttled,
    Unavailable,
)
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BearerCredential
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.records import Principal, Tokens

_OFFLINE = "offline_access"
_TOO_MANY_REQUESTS = 429

_NOT_LASTING = (
    "The identity provider gave access that cannot be renewed. The operator should allow refresh tokens "
    "(offline_access) to this server's client there."
)
_NOT_TAKEN = (
    "Nextcloud does not accept what the identity provider gave. The operator should check that Nextcloud's "
    "app user_oidc validates bearer tokens, and NEXTCLOUD_RESOURCE."
)


class OidcRefresh:
    """Gets tokens for Nextcloud from the operator's identity provider.

    `resource` is the audience that Nextcloud requires. It is sent as the parameter that the provider supports:
    `resource` (RFC 8707), elsewhere `audience`.
    """

    name = "oidc_refresh"
    uses_pkce = True
    uses_nonce = True

    def __init__(
        self,
        nextcloud: Nextcloud,
        *,
        discovery: Discovery,
        keyset: KeySet,
        outgoing: Outgoing,
        client: OAuthClient,
        redirect_uri: str,
        clock: Callable[[], datetime],
        resource: str | None = None,
        resource_parameter: str = "resource",
        identity_claim: str = "sub",
    ) -> None:
        self._nextcloud = nextcloud
        self._discovery = discovery
        self._outgoing = outgoing
        self._client = client
        self._redirect_uri = redirect_uri
        self._clock = clock
        self._resource = {} if resource is None else {resource_parameter: resource}
        self._identity_claim = identity_claim
        self._id_tokens = IdTokenCheck(keyset, client_id=client.client_id, clock=clock)

    @property
    def redirect_uri(self) -> str:
        """The redirect URI of the grant flow; another one than the sign-in's, so that callbacks do not mix."""
        return self._redirect_uri

    async def callback_issuer(self) -> str | None:
        """Return the issuer if its metadata says that it sends `iss`; else None."""
        metadata = await self._discovery.get()
        return metadata.issuer if metadata.iss_parameter else None

    async def authorize_url(self, *, state: str, verifier: SecretStr | None, nonce: SecretStr | None) -> str:
        """Build the URL of the identity provider's authorization page."""
        metadata = await self._discovery.get()
        scopes, extra = ["openid"], dict(self._resource)
        if _OFFLINE in metadata.scopes:
            # OpenID Connect Core §11: without `prompt=consent` the provider may ignore `offline_access`.
            scopes.append(_OFFLINE)
            extra["prompt"] = "consent"
        return oauth_client.authorize_url(
            metadata.authorization_endpoint,
            client_id=self._client.client_id,
            redirect_uri=self._redirect_uri,
            scope=" ".join(scopes),
            state=state,
            verifier=verifier,
            nonce=nonce,
            extra=extra,
        )

    async def exchange_code(
        self,
        *,
        code: SecretStr,
        verifier: SecretStr | None,
        nonce: SecretStr | None,
        note: Note | None = None,
    ) -> ExchangeResult:
        """Exchange the code, check which user confirmed, and ask Nextcloud which account the tokens open."""
        with _translated():
            metadata = await self._discovery.get()
            answer = await oauth_client.exchange_code(
                self._outgoing,
                metadata.token_endpoint,
                self._client,
                code=code,
                redirect_uri=self._redirect_uri,
                verifier=verifier,
                now=self._clock,
                extra=self._resource,
            )
        if note is not None:
            await note(answer.tokens)
        try:
            if answer.tokens.refresh_token is None:
                raise GrantRefused(_NOT_LASTING)
            subject = await self._subject(metadata, answer, nonce)
            return ExchangeResult(answer.tokens, await self._identify(answer.tokens), subject)
        except NextcloudError as error:
            await end_unused(self, answer.tokens, error)
            raise

    async def _subject(
        self, metadata: IssuerMetadata, answer: TokenAnswer, nonce: SecretStr | None
    ) -> Principal:
        if answer.id_token is None or nonce is None:
            raise GrantRefused("The identity provider did not say who confirmed; tell the operator.")
        with _translated():
            claims = await self._id_tokens.check(
                answer.id_token,
                issuer=metadata.issuer,
                nonce=nonce,
                access_token=answer.tokens.access_token,
            )
        subject = claims.get(self._identity_claim)
        if not isinstance(subject, str):
            raise GrantRefused(
                f"The identity provider's ID token has no {self._identity_claim}; tell the operator."
            )
        return Principal(metadata.issuer, subject)

    async def _identify(self, tokens: Tokens) -> Identity:
        credential = BearerCredential(tokens.access_token)
        try:
            user = await self._nextcloud.whoami(credential)
        except CredentialRejected as error:
            raise CredentialRejected(_NOT_TAKEN) from error
        storage_id = await self._nextcloud.storage_id(credential, uid=user.uid)
        return Identity(uid=user.uid, display_name=user.display_name, storage_id=storage_id)

    async def picture(self, tokens: Tokens, *, uid: str) -> Picture | None:
        """See `RedirectProvider.picture`."""
        account = self._nextcloud.account(BearerCredential(tokens.access_token), uid=uid)
        return await account.user.picture()

    async def refresh(self, refresh_token: SecretStr) -> Tokens:
        """Fetch new tokens, for the same audience."""
        with _translated():
            metadata = await self._discovery.get()
            return await oauth_client.refresh(
                self._outgoing,
                metadata.token_endpoint,
                self._client,
                refresh_token=refresh_token,
                now=self._clock,
                extra=self._resource,
            )

    async def revoke(self, tokens: Tokens) -> bool:
        """Revoke the refresh token at the identity provider, if it supports that (RFC 7009).

        Without such an endpoint the token ends when it is not used for long enough, or when the user ends it
        there.
        """
        if tokens.refresh_token is not None:
            with _translated():
                metadata = await self._discovery.get()
                if metadata.revocation_endpoint is not None:
                    await oauth_client.revoke(
                        self._outgoing,
                        metadata.revocation_endpoint,
                        self._client,
                        refresh_token=tokens.refresh_token,
                    )
        return True


@contextlib.contextmanager
def _translated() -> Generator[None]:
    """Convert the identity provider's errors to the errors of a grant."""
    try:
        yield
    except IssuerUnavailable as error:
        if error.status == _TOO_MANY_REQUESTS:
            raise Throttled(str(error)) from error
        raise Unavailable(str(error)) from error
    except SignInRefused as error:
        raise GrantRefused(str(error)) from error
