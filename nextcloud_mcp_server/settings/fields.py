"""The settings' fields, and what follows from them.

`environment` reads them from the environment, `checks` refuses unsafe values, and `names` derives every list of names
from the types and traits of the fields.
"""

from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_data_path
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from nextcloud_mcp_server.auth.scopes import TOOLSET_SCOPES, expand, offered
from nextcloud_mcp_server.auth.token_scopes import AskedWords
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName
from nextcloud_mcp_server.settings.multi_user import BuiltinFields, MultiUserFields, OidcFields
from nextcloud_mcp_server.settings.value_types import (
    Lower,
    Nextcloud,
    Port,
    Secrets,
    Trait,
    Typed,
    Variable,
    Words,
)

EVERY_TOOLSET = tuple(sorted(TOOLSET_SCOPES))
#: The path of this server's callbacks; each flow has its own path below it.
CALLBACK_PATH = "/oauth/callback"
_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+asyncpg",
    "postgres": "postgresql+asyncpg",
}


class GeneralFields(BaseModel, defer_build=True):
    """The fields that have an effect in every mode, or in single-user mode alone."""

    mode: Annotated[Literal["personal", "oidc", "builtin"], Lower, Trait.NOT_CARRIED] = Field(
        default="personal",
        description="Who may call: `personal` is one user on one computer; `oidc` is any number of users, "
        "who sign in at an identity provider (docs/quickstart-oidc.md); `builtin` is any number of users, who sign "
        "in with Nextcloud itself (docs/quickstart-builtin.md).",
    )
    nextcloud_host: Annotated[Typed | None, Trait.ADDRESS, Trait.NOT_CARRIED] = Field(
        default=None,
        description="Address of your Nextcloud, such as `https://cloud.example.org` or "
        "`https://example.org/nextcloud`.",
    )
    nextcloud_public_url: Annotated[str | None, Nextcloud, Trait.ADDRESS] = Field(
        default=None,
        description="Address under which browsers reach Nextcloud, when it differs from `NEXTCLOUD_HOST` "
        "(for example inside a container network).",
    )
    nextcloud_mcp_server_url: Annotated[str | None, Trait.ADDRESS] = Field(
        default=None,
        description="Address under which browsers and clients reach this server over HTTP; clients are given "
        "it with `/mcp` behind it. Default: where it listens. Required for many users.",
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
    database_url: Annotated[str | None, Trait.FROM_FILE] = Field(
        default=None,
        # The address of PostgreSQL contains a password.
        repr=False,
        description="Database address, such as `sqlite+aiosqlite:////var/lib/nextcloud-mcp-server/state.db` or "
        "`postgresql+asyncpg://name:password@host/database`. Default: `state.db` in `DATA_DIR`.",
    )
    token_encryption_keys: Secrets = Field(
        default=(),
        description="Keys that seal what is stored (make one with `nextcloud-mcp-server keys new`), by "
        "commas: the first one seals, all of them open. Default: a key file made in `DATA_DIR`. Required for "
        "many users.",
    )
    nextcloud_mcp_secret: Annotated[SecretStr | None, Trait.NOT_CARRIED] = Field(
        default=None,
        description="Bearer secret that clients must send over HTTP, at least 24 characters. Default: a "
        "secret file made in `DATA_DIR`; `nextcloud-mcp-server config … --http` prints it.",
    )
    elicitation_dialect: Annotated[Literal["auto", "draft", "2025-11-25", "text"], Lower] = Field(
        default="auto",
        description="How older clients are asked for consent; `auto` goes by what the client says it can do.",
    )
    elicitation_timeout_seconds: int = Field(
        default=300,
        ge=1,
        le=3600,
        description="How long `elicitation/track` waits for a consent at most. "
        "The link in the request works as long, and for ten minutes at least.",
    )
    hold_seconds: int = Field(
        default=25,
        ge=0,
        le=300,
        description="How long a repeated call is held while its consent is open. Less than the shortest "
        "time limit between the client and this server.",
    )
    shutdown_drain_seconds: int = Field(
        default=0,
        ge=0,
        le=300,
        description="How long a server over HTTP that was told to stop still serves, with 503 at `/readyz`, so that "
        "what asks there sends new requests elsewhere. For replicas: longer than the pause between two such checks. 0 "
        "closes the port at once.",
    )
    update_seconds: int = Field(
        default=60,
        ge=1,
        le=3600,
        description="How often Nextcloud is asked for changes, for each user of whom a client has subscribed to "
        "resources. Each time costs one small request for each app, and nothing while no client has subscribed.",
    )
    toolsets: Annotated[Words, Trait.NOT_CARRIED] = Field(
        default=("notes", "files"),
        description=f"Which groups of tools are on, by commas: {', '.join(EVERY_TOOLSET)}, or `all`. "
        "The connection tools are always on.",
    )
    exclude_tools: Annotated[Words, Trait.LIMIT] = Field(
        default=(),
        description="Names of single tools (docs/tools.md) to leave out, by commas. The same data as a resource "
        "stays readable; a toolset that is off has neither.",
    )
    old_tool_names: bool = Field(
        default=True,
        description="Whether tools also answer to the names that they or their predecessors had. `tools/list` never "
        "has those names.",
    )
    tasks: bool = Field(
        default=True,
        description="Whether a long call becomes a task where the client takes tasks (MCP 2025-11-25, and the "
        "extension `io.modelcontextprotocol/tasks`). Results are stored sealed for at most 24 hours.",
    )
    read_only: Annotated[bool, Trait.LIMIT] = Field(
        default=False, description="Leave out every tool that changes something."
    )
    local_folder: Path | None = Field(
        default=None,
        description="Folder of this computer that the toolset `upload` may read files from and save files in. "
        "Default: none. For one user over stdio alone.",
    )
    output_schemas: bool = Field(
        default=False,
        description="Add the schema of each tool's result to `tools/list`, which makes it almost three times as large.",
    )
    consent_page: Annotated[Literal["auto", "loopback", "nextcloud"], Lower] = Field(
        default="auto",
        description="Where users consent with a server over stdio: on a page of this computer (`loopback`), or "
        "straight at Nextcloud (`nextcloud`), which allows all that the toolsets need. `auto` is `nextcloud` "
        "where no browser reaches this computer: over SSH and in containers.",
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Lower] = Field(
        default="info",
        description="How much is logged to stderr: `debug`, `info` (a line for each request), `warning`, `error`.",
    )
    log_format: Annotated[Literal["auto", "json", "text"], Lower] = Field(
        default="auto",
        description="The form of a log line: `json`, `text`, or `auto` (text at a terminal, else JSON).",
    )
    metrics_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port on which a server over HTTP serves metrics for Prometheus, at `/metrics` "
        "(docs/operate/monitoring.md). "
        "Default: no metrics. Needs the extra `metrics`; the image has it.",
    )
    metrics_host: str = Field(
        default="127.0.0.1",
        description="Address at which the metrics are served. Every program that reaches it can read them.",
    )
    otel_exporter_otlp_endpoint: Annotated[str | None, Trait.ADDRESS] = Field(
        default=None,
        description="Address of an OpenTelemetry collector (OTLP over HTTP) that gets traces of a server over HTTP, "
        "such as `http://127.0.0.1:4318`. Default: no traces. Needs the extra `tracing`; the image has it.",
    )
    audit_retention_days: int = Field(
        default=0,
        ge=0,
        le=36_500,
        description="Audit entries are deleted after so many days; 0 keeps them all.",
    )
    transport: Annotated[Literal["stdio", "http"], Trait.OPTION] = Field(
        default="stdio",
        description="`stdio` for a client that starts the server itself, `http` for the others. A server "
        "for many users always uses `http`.",
    )
    # HOST and PORT belong to shells and hosters.
    host: Annotated[str, Variable("NEXTCLOUD_MCP_HOST"), Trait.NOT_CARRIED] = Field(
        default="127.0.0.1", description="Address to listen on over HTTP."
    )
    port: Annotated[Port, Variable("NEXTCLOUD_MCP_PORT"), Trait.NOT_CARRIED] = Field(
        default=8765, ge=0, le=65535, description="Port to listen on over HTTP; 0 takes a free one."
    )
    sandbox: Annotated[bool, Trait.OPTION] = Field(
        default=False,
        description="Use the built-in sandbox Nextcloud (users alice and bob) instead of a real one.",
    )
    sandbox_version: Annotated[ProfileName, Trait.OPTION] = Field(
        default=USUAL,
        description="The major version of Nextcloud that the sandbox answers like: 32, 33, 34 or 35.",
    )
    no_local_auth: Annotated[bool, Trait.OPTION] = Field(
        default=False,
        description="Let every program on this computer call over HTTP without the secret. Loopback only.",
    )


class Fields(BuiltinFields, OidcFields, MultiUserFields, GeneralFields):
    """All fields, in the order of the documentation, and what follows from them; `checks` refuses unsafe values.

    Create a `Settings` with `environment.load` instead.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        # Otherwise a key that is too short would be printed at the start.
        hide_input_in_errors=True,
    )

    @property
    def data_path(self) -> Path:
        """The data folder, which `open_data_dir` creates. The sandbox has its own, apart from real connections."""
        base = self.data_dir or user_data_path("nextcloud-mcp-server", appauthor=False)
        return base / "sandbox" if self.sandbox else base

    @property
    def database_address(self) -> str:
        """The SQLAlchemy URL with the asynchronous driver."""
        if self.database_url is None:
            return f"sqlite+aiosqlite:///{(self.data_path / 'state.db').as_posix()}"
        scheme, _, rest = self.database_url.partition("://")
        return f"{_DRIVERS.get(scheme, scheme)}://{rest}"

    @property
    def key_file(self) -> Path:
        """The file of the sealing key in single-user mode, if no key is configured."""
        return self.data_path / "encryption.key"

    @property
    def secret_file(self) -> Path:
        """The file of the bearer secret for HTTP, if none is configured."""
        return self.data_path / "http.secret"

    @property
    def enabled_toolsets(self) -> tuple[str, ...]:
        """The names of the enabled toolsets; `all` is expanded."""
        return EVERY_TOOLSET if "all" in self.toolsets else self.toolsets

    @property
    def offered_scopes(self) -> frozenset[str]:
        """The scopes that users can allow."""
        return offered(self.enabled_toolsets, read_only=self.read_only)

    @property
    def asked_words(self) -> AskedWords:
        """The scope names that clients are told to request."""
        ours, bound = self.mode == "builtin", self.offered_scopes
        words = self.sign_in_scopes or (("read",) if ours else tuple(sorted(bound)))
        known = tuple(word for word in words if expand([word]) & bound)
        return AskedWords(known, bound, ours=ours, prefix="" if ours else self.scope_prefix)

    @property
    def operator_credential(self) -> tuple[str, SecretStr] | None:
        """The login name and app password in the settings, if there are any."""
        if self.nextcloud_username is None or self.nextcloud_app_password is None:
            return None
        return self.nextcloud_username, self.nextcloud_app_password

    @property
    def server_url(self) -> str:
        """The public URL of this server without a slash at the end; empty if none is set."""
        return (self.nextcloud_mcp_server_url or "").rstrip("/")

    @property
    def resource_url(self) -> str:
        """The URL of the MCP endpoint, which is the `resource` of the metadata (RFC 9728)."""
        return f"{self.server_url}/mcp"

    @property
    def audience(self) -> str:
        """The audience that the `aud` of an access token must contain."""
        return self.oidc_audience or self.resource_url

    @property
    def callback_url(self) -> str:
        """The URL below which the callbacks of both flows are."""
        return (self.elicitation_callback_url or f"{self.server_url}{CALLBACK_PATH}").rstrip("/")

    @property
    def sign_in_callback_url(self) -> str:
        """The redirect URI to register at the identity provider."""
        return f"{self.callback_url}/sign-in"

    @property
    def grant_callback_url(self) -> str:
        """The redirect URI to register at the grant provider."""
        return f"{self.callback_url}/nextcloud"

    @property
    def mapping_claim(self) -> str | None:
        """The claim with the id of the Nextcloud account; None if users confirm their account."""
        return None if self.account_mapping == "confirm" else self.account_mapping

    @property
    def multi_user(self) -> bool:
        """Whether the server has several users, who sign in."""
        return self.mode != "personal"

    def require_nextcloud(self) -> str:
        """Return the URL of Nextcloud.

        Raises:
            ConfigurationError: None is set.
        """
        if self.nextcloud_host is None:
            built_in = "" if self.multi_user else ", or try the built-in one with serve --sandbox"
            raise ConfigurationError(
                "No Nextcloud is set: name yours with --nextcloud https://cloud.example.org (or NEXTCLOUD_HOST)"
                f"{built_in}."
            )
        return self.nextcloud_host
