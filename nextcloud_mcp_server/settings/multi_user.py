"""The settings that have no effect in single-user mode: of both multi-user modes, and of each one."""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr

from nextcloud_mcp_server.settings.value_types import Lower, Trait, Words


class MultiUserFields(BaseModel, defer_build=True):
    """The fields of both multi-user modes."""

    # No secret, but `setup nextcloud --into` writes it into a file beside the secret.
    nextcloud_oauth_client_id: Annotated[str | None, Trait.FROM_FILE] = Field(
        default=None,
        description="Id of the OAuth2 client at Nextcloud; `nextcloud-mcp-server setup nextcloud` makes one. "
        "Required with `MODE=builtin` and with `nextcloud_oauth2`.",
    )
    nextcloud_oauth_client_secret: SecretStr | None = Field(
        default=None, description="Secret of that client. Required where the client is."
    )
    elicitation_callback_url: Annotated[str | None, Trait.ADDRESS] = Field(
        default=None,
        description="Address that browsers come back to: `/nextcloud` below it is to be registered at Nextcloud, "
        "`/sign-in` at the identity provider. Default: this server's address with `/oauth/callback` behind it.",
    )
    trusted_proxies: Words = Field(
        default=(),
        description="Addresses or networks of the reverse proxies in front of this server, by commas; only "
        "their `X-Forwarded-*` headers are believed.",
    )
    sign_in_scopes: Words = Field(
        default=(),
        description="What clients are told to ask for when they sign in, by commas: scopes such as `notes:read`, or "
        "bundles of them: `read`, `write`, or an app's name such as `notes`. What a call needs beyond that is asked "
        "for then. Default: `read` with `MODE=builtin`, and each scope by itself with `MODE=oidc`, where the identity "
        "provider has to know the words.",
    )
    requests_per_minute: int = Field(
        default=1_200,
        ge=60,
        le=600_000,
        description="How many requests a minute one user's clients may make together, and one client alone half as "
        "many. What comes faster waits, and is refused when it would wait for longer than ten seconds.",
    )

    @property
    def proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The trusted proxies as networks; `checks` has refused every other text."""
        return tuple(ip_network(text) for text in self.trusted_proxies)


class OidcFields(BaseModel, defer_build=True):
    """The fields of `MODE=oidc`."""

    oidc_issuer: Annotated[str | None, Trait.ADDRESS] = Field(
        default=None,
        description="Address of the identity provider, exactly as it writes it in `issuer` of its "
        "`/.well-known/openid-configuration`. Required.",
    )
    oidc_client_id: str | None = Field(
        default=None,
        description="Id of this server's own client at the identity provider, with which users sign in on "
        "its pages. Required.",
    )
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Secret of that client. Left out for a public client."
    )
    oidc_audience: str | None = Field(
        default=None,
        description="What `aud` of an access token must contain to be for this server. Default: this server's "
        "address with `/mcp` behind it.",
    )
    oidc_identity_claim: str = Field(
        default="sub",
        min_length=1,
        description="Claim that names a user for good, in access tokens and ID tokens alike. After a "
        "change the server takes every user for a new one. `email` counts only with `email_verified` beside it.",
    )
    oidc_token_types: Words = Field(
        default=("at+jwt",),
        description="Which `typ` an access token may carry, by commas. Add `JWT` only for a provider that "
        "writes no other: ID tokens carry it too.",
    )
    token_scopes: Annotated[Literal["required", "ignore"], Lower] = Field(
        default="required",
        description="`required`: a client may do what its token's scopes say, within what the user allows. "
        "`ignore`: a token that names none of our scopes is not limited by them, for a provider that cannot issue "
        "them; one that names some is held to those. The bundles `read`, `write` and each app's name (`mail`, `files`) "
        "count as scopes of this server, also where the provider means another service: SCOPE_PREFIX tells them apart.",
    )
    scope_prefix: str = Field(
        default="",
        description="Text that the identity provider puts before our scopes, such as "
        "`api://nextcloud-mcp/`; cut off from tokens, added in challenges.",
    )
    introspection_client_id: str | None = Field(
        default=None,
        description="Client that asks the identity provider about opaque tokens. Default: `OIDC_CLIENT_ID`.",
    )
    introspection_client_secret: SecretStr | None = Field(
        default=None, description="Secret of that client. Default: `OIDC_CLIENT_SECRET`."
    )
    account_mapping: str = Field(
        default="confirm",
        min_length=1,
        description="Which Nextcloud account belongs to a user. Recommended: the name of a claim (such as "
        "`preferred_username`) whose value is the account's user id, and which users cannot change themselves; any "
        "other account is refused. `confirm` asks each user whether the account they signed in to is their own, for "
        "identity providers that cannot name it: the server takes their word for it.",
    )
    grant_provider: Annotated[Literal["nextcloud_oauth2", "oidc_refresh", "login_flow"], Lower] = Field(
        default="nextcloud_oauth2",
        description="How access to a user's Nextcloud is obtained and kept: `nextcloud_oauth2` by Nextcloud's "
        "own OAuth2 (any Nextcloud); `oidc_refresh` by the identity provider's tokens (needs the app "
        "`user_oidc`); `login_flow` by an app password (needs a claim in `ACCOUNT_MAPPING`).",
    )
    nextcloud_resource: str | None = Field(
        default=None,
        description="With `oidc_refresh`: the resource or audience to ask the identity provider for, so that "
        "Nextcloud takes the token.",
    )

    @property
    def introspection_client(self) -> tuple[str, SecretStr] | None:
        """The client that asks about opaque tokens; None if there is none with a secret."""
        secret = self.introspection_client_secret or self.oidc_client_secret
        name = self.introspection_client_id or self.oidc_client_id
        return None if name is None or secret is None else (name, secret)


class BuiltinFields(BaseModel, defer_build=True):
    """The fields of `MODE=builtin`."""

    allowed_clients: Annotated[Words, Trait.LIMIT] = Field(
        default=(),
        description="Which clients users may connect, by commas; none named allows all. A client counts by the host "
        "of the document that describes it, such as `claude.ai` or `*.example.org`; one that registers itself by "
        "every place it may send users back to: a host, `localhost` for a program on their computer, or a scheme "
        "such as `cursor:`.",
    )
    denied_clients: Annotated[Words, Trait.LIMIT] = Field(
        default=(),
        description="Which clients no user may connect, in the same words; wins over `ALLOWED_CLIENTS`.",
    )
    allowed_groups: Annotated[Words, Trait.LIMIT] = Field(
        default=(),
        description="Nextcloud groups whose members may sign in, by commas; none named lets every user in. Checked "
        "at each sign-in.",
    )
    client_registration: bool = Field(
        default=True,
        description="Let clients register themselves (RFC 7591). Without it only those that are described in a "
        "document can be added.",
    )
    client_metadata_documents: bool = Field(
        default=True,
        description="Take clients that are described in a document at the address that is their id, such as Claude "
        "and Codex: the server fetches it from the internet. `false` where it cannot: then it is not offered, and "
        "those clients register themselves instead.",
    )
    client_metadata_proxy: SecretStr | None = Field(
        default=None,
        description="HTTP proxy through which those documents are fetched, such as `http://proxy.example.org:3128`, "
        "and nothing else: not Nextcloud, not the identity provider. The proxy must refuse addresses of your own "
        "network; this server cannot check them behind it.",
    )
    private_schemes: Words = Field(
        default=("cursor",),
        description="Schemes of programs' own addresses, such as `cursor` for `cursor://…`, that users may be sent "
        "back to, by commas.",
    )
    plain_hosts: Words = Field(
        default=(),
        description="Hosts on your own network that users may be sent back to without encryption (`http://`), by "
        "commas.",
    )
    refresh_grace_seconds: int = Field(
        default=60,
        ge=0,
        le=60,
        description="How long a client that did not hear the answer may repeat the renewal of its access, unless the "
        "new access was used meanwhile.",
    )
    refresh_lifetime_days: int = Field(
        default=90,
        ge=1,
        le=365,
        description="How long a sign-in of a client lasts; then the user signs in again, however often the client "
        "was used.",
    )
