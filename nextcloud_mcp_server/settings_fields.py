"""What an operator can decide: the settings' fields, and what follows from them.

`settings` reads them from the environment, and `settings_checks` refuses what cannot be safe.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_data_path
from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.errors import ConfigurationError

EVERY_TOOLSET = tuple(sorted(set(SCOPES.values())))
#: Where this server's callbacks are; each leg has its own path below it.
CALLBACK_PATH = "/oauth/callback"
_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+asyncpg",
    "postgres": "postgresql+asyncpg",
}


def _words(value: object) -> object:
    """Split a comma-separated text; anything else passes."""
    if isinstance(value, str):
        return tuple(word for word in value.replace(",", " ").split() if word)
    return value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Secrets = Annotated[tuple[SecretStr, ...], BeforeValidator(_words)]


class Fields(BaseSettings):
    """Everything an operator can decide, refused nowhere: build `Settings` with `load` instead."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        # Without it a too-short key would be printed in full at start-up.
        hide_input_in_errors=True,
        env_file=None,
    )

    mode: Annotated[Literal["personal", "oidc", "builtin"], BeforeValidator(_lower)] = Field(
        default="personal",
        description="Who may call: `personal` is one person on one computer; `oidc` is any number of people, "
        "who sign in at an identity provider (docs/quickstart-oidc.md). `builtin` comes with a later version.",
    )
    nextcloud_host: str | None = Field(
        default=None,
        description="Address of your Nextcloud, such as `https://cloud.example.org` or "
        "`https://example.org/nextcloud`.",
    )
    nextcloud_public_url: str | None = Field(
        default=None,
        description="Address under which browsers reach Nextcloud, when it differs from `NEXTCLOUD_HOST` "
        "(for example inside a container network).",
    )
    nextcloud_mcp_server_url: str | None = Field(
        default=None,
        description="Address under which browsers and clients reach this server over HTTP; clients are given "
        "it with `/mcp` behind it. Default: where it listens. Required with `MODE=oidc`.",
    )
    nextcloud_username: str | None = Field(
        default=None,
        description="Login name for machines without a browser; needs `NEXTCLOUD_APP_PASSWORD` too. "
        "Without both, consent happens in the browser.",
    )
    nextcloud_app_password: SecretStr | None = Field(
        default=None,
        description="App password for machines without a browser (Nextcloud: Settings → Security). "
        "Never your real password.",
    )
    nextcloud_ca_bundle: Path | None = Field(
        default=None,
        description="File with the certificates (PEM) of a private certificate authority; the system's own "
        "are trusted in any case.",
    )
    data_dir: Path | None = Field(
        default=None,
        description="Folder for the database and the key files. Default: the platform's data folder for "
        "`nextcloud-mcp-server`; made with mode 0700 when first needed.",
    )
    database_url: str | None = Field(
        default=None,
        # PostgreSQL's holds a password.
        repr=False,
        description="Database address, such as `sqlite+aiosqlite:////var/lib/nextcloud-mcp-server/state.db` or "
        "`postgresql+asyncpg://name:password@host/database`. Default: `state.db` in `DATA_DIR`.",
    )
    token_encryption_keys: Secrets = Field(
        default=(),
        description="Keys that seal what is stored (make one with `nextcloud-mcp-server keys new`), by "
        "commas: the first one seals, all of them open. Default: a key file made in `DATA_DIR`. Required with "
        "`MODE=oidc`.",
    )
    nextcloud_mcp_secret: SecretStr | None = Field(
        default=None,
        description="Bearer secret that clients must send over HTTP, at least 24 characters. Default: a "
        "secret file made in `DATA_DIR`; `nextcloud-mcp-server config … --http` prints it.",
    )
    elicitation_dialect: Annotated[
        Literal["auto", "draft", "2025-11-25", "text"], BeforeValidator(_lower)
    ] = Field(
        default="auto",
        description="How older clients are asked for consent; `auto` goes by what the client says it can do.",
    )
    elicitation_timeout_seconds: int = Field(
        default=300, ge=1, le=3600, description="How long `elicitation/track` waits for a consent at most."
    )
    hold_seconds: int = Field(
        default=25,
        ge=0,
        le=300,
        description="How long a repeated call is held while its consent is open. Less than the shortest "
        "time limit between the client and this server.",
    )
    toolsets: Words = Field(
        default=("notes", "files"),
        description=f"Which groups of tools are on, by commas: {', '.join(EVERY_TOOLSET)}, or `all`. "
        "The connection tools are always on.",
    )
    exclude_tools: Words = Field(
        default=(), description="Names of single tools (docs/tools.md) to leave out, by commas."
    )
    read_only: bool = Field(default=False, description="Leave out every tool that changes something.")
    output_schemas: bool = Field(
        default=False, description="Add the schema of each tool's result to `tools/list`; doubles its size."
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        default="info", description="How much is logged to stderr: `debug`, `info`, `warning` or `error`."
    )
    oidc_issuer: str | None = Field(
        default=None,
        description="Address of the identity provider, exactly as it writes it in `issuer` of its "
        "`/.well-known/openid-configuration`. Required.",
    )
    oidc_client_id: str | None = Field(
        default=None,
        description="Id of this server's own client at the identity provider, with which people sign in on "
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
        description="Claim that names a person for good, in access tokens and ID tokens alike. Changing it "
        "makes everybody somebody else. `email` counts only with `email_verified` beside it.",
    )
    oidc_token_types: Words = Field(
        default=("at+jwt",),
        description="Which `typ` an access token may carry, by commas. Add `JWT` only for a provider that "
        "writes no other: ID tokens carry it too.",
    )
    token_scopes: Annotated[Literal["required", "ignore"], BeforeValidator(_lower)] = Field(
        default="required",
        description="`required`: a client may do what its token's scopes say, within what the person allows. "
        "`ignore`: what the person allows alone decides, for a provider that cannot issue our scopes.",
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
        description="Which Nextcloud account belongs to a person: `confirm` has them confirm the one they "
        "signed in to; the name of a claim (such as `preferred_username`) takes its value as the account's "
        "id and refuses any other.",
    )
    grant_provider: Annotated[
        Literal["nextcloud_oauth2", "oidc_refresh", "login_flow"], BeforeValidator(_lower)
    ] = Field(
        default="nextcloud_oauth2",
        description="How access to a person's Nextcloud is obtained and kept: `nextcloud_oauth2` by Nextcloud's "
        "own OAuth2 (any Nextcloud); `oidc_refresh` by the identity provider's tokens (needs the app "
        "`user_oidc`); `login_flow` by an app password (needs a claim in `ACCOUNT_MAPPING`).",
    )
    nextcloud_oauth_client_id: str | None = Field(
        default=None,
        description="Id of the OAuth2 client at Nextcloud; `nextcloud-mcp-server setup nextcloud` makes one. "
        "Required with `nextcloud_oauth2`.",
    )
    nextcloud_oauth_client_secret: SecretStr | None = Field(
        default=None, description="Secret of that client. Required with `nextcloud_oauth2`."
    )
    nextcloud_resource: str | None = Field(
        default=None,
        description="With `oidc_refresh`: the resource or audience to ask the identity provider for, so that "
        "Nextcloud takes the token.",
    )
    elicitation_callback_url: str | None = Field(
        default=None,
        description="Address that sign-ins and consents come back to, `/sign-in` and `/nextcloud` below it; "
        "register both. Default: this server's address with `/oauth/callback` behind it.",
    )
    trusted_proxies: Words = Field(
        default=(),
        description="Addresses or networks of the reverse proxies in front of this server, by commas; only "
        "their `X-Forwarded-*` headers are believed.",
    )
    transport: Literal["stdio", "http"] = Field(
        default="stdio",
        description="`stdio` for a client that starts the server itself, `http` for the others. `MODE=oidc` is "
        "always `http`.",
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on over HTTP.")
    port: int = Field(
        default=8765, ge=0, le=65535, description="Port to listen on over HTTP; 0 takes a free one."
    )
    sandbox: bool = Field(
        default=False,
        description="Use the built-in sandbox Nextcloud (users alice and bob) instead of a real one.",
    )
    no_local_auth: bool = Field(
        default=False,
        description="Let everybody on this computer call over HTTP without the secret. Loopback only.",
    )

    @property
    def data_path(self) -> Path:
        """Where our files live. Nothing is made here; `open_data_dir` does that.

        The sandbox has a folder of its own, so that trying it never touches real connections.
        """
        base = self.data_dir or user_data_path("nextcloud-mcp-server", appauthor=False)
        return base / "sandbox" if self.sandbox else base

    @property
    def database_address(self) -> str:
        """The SQLAlchemy URL, with the asynchronous driver filled in."""
        if self.database_url is None:
            return f"sqlite+aiosqlite:///{(self.data_path / 'state.db').as_posix()}"
        scheme, _, rest = self.database_url.partition("://")
        return f"{_DRIVERS.get(scheme, scheme)}://{rest}"

    @property
    def key_file(self) -> Path:
        """Where personal mode keeps its sealing key, when none is given."""
        return self.data_path / "encryption.key"

    @property
    def secret_file(self) -> Path:
        """Where the bearer secret for HTTP is kept, when none is given."""
        return self.data_path / "http.secret"

    @property
    def enabled_toolsets(self) -> tuple[str, ...]:
        """The toolsets by name, with `all` spelled out."""
        return EVERY_TOOLSET if "all" in self.toolsets else self.toolsets

    @property
    def operator_credential(self) -> tuple[str, SecretStr] | None:
        """Login name and app password given by the operator, if they were."""
        if self.nextcloud_username is None or self.nextcloud_app_password is None:
            return None
        return self.nextcloud_username, self.nextcloud_app_password

    @property
    def server_url(self) -> str:
        """This server's public address, with nothing behind it; empty where none is set."""
        return (self.nextcloud_mcp_server_url or "").rstrip("/")

    @property
    def resource_url(self) -> str:
        """What clients connect to, and the `resource` of the metadata (RFC 9728)."""
        return f"{self.server_url}/mcp"

    @property
    def audience(self) -> str:
        """What an access token's `aud` must contain."""
        return self.oidc_audience or self.resource_url

    @property
    def callback_url(self) -> str:
        """What the callbacks of both legs lie below."""
        return (self.elicitation_callback_url or f"{self.server_url}{CALLBACK_PATH}").rstrip("/")

    @property
    def sign_in_callback_url(self) -> str:
        """Redirect URI to register at the identity provider."""
        return f"{self.callback_url}/sign-in"

    @property
    def grant_callback_url(self) -> str:
        """Redirect URI to register at whoever grants access to Nextcloud."""
        return f"{self.callback_url}/nextcloud"

    @property
    def mapping_claim(self) -> str | None:
        """The claim that holds the Nextcloud account's id; None where people confirm it."""
        return None if self.account_mapping == "confirm" else self.account_mapping

    @property
    def introspection_client(self) -> tuple[str, SecretStr] | None:
        """Who asks about opaque tokens; None where nobody can."""
        secret = self.introspection_client_secret or self.oidc_client_secret
        name = self.introspection_client_id or self.oidc_client_id
        return None if name is None or secret is None else (name, secret)

    @property
    def proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The trusted proxies as networks; `settings_checks` has refused what is none."""
        return tuple(ip_network(text) for text in self.trusted_proxies)

    def require_nextcloud(self) -> str:
        """Return the address of the Nextcloud.

        Raises:
            ConfigurationError: None is set.
        """
        if self.nextcloud_host is None:
            raise ConfigurationError(
                "No Nextcloud is set: start with --nextcloud https://cloud.example.org (or NEXTCLOUD_HOST), "
                "or try the built-in one with serve --sandbox."
            )
        return self.nextcloud_host
