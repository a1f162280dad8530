"""The operator's settings: one frozen object, read once, refused when it cannot be safe.

Imported by `cli` and `app` alone; no other module reads the environment. No `.env` is read from the
working directory, because whoever can write there could then move a person's data elsewhere.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings_names import (
    env_name,
    explain,
    known_variables,
    read_text,
    unknown_variables,
)

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
SHORTEST_SECRET = 24
_EVERY_TOOLSET = tuple(sorted(set(SCOPES.values())))


def _words(value: object) -> object:
    """Split a comma-separated text; anything else passes."""
    if isinstance(value, str):
        return tuple(word for word in value.replace(",", " ").split() if word)
    return value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Secrets = Annotated[tuple[SecretStr, ...], BeforeValidator(_words)]


class _Environment(PydanticBaseSettingsSource):
    """Read each field from its variable, or a secret from the file that `…_FILE` names."""

    def get_field_value(
        self,
        field: FieldInfo,  # noqa: ARG002  # the base class asks for it
        field_name: str,
    ) -> tuple[Any, str, bool]:
        """Answer the base class in its own form."""
        return read_text(os.environ, field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        values = {name: read_text(os.environ, name) for name in self.settings_cls.model_fields}
        return {name: value for name, value in values.items() if value is not None}


class Settings(BaseSettings):
    """Everything an operator can decide. Build it with `load`."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        # Without it a too-short key would be printed in full at start-up.
        hide_input_in_errors=True,
        env_file=None,
    )

    mode: Annotated[Literal["personal", "oidc", "builtin"], BeforeValidator(_lower)] = Field(
        default="personal",
        description="Who may call: `personal` is one person on one computer. `oidc` and `builtin`, for many "
        "people, come with a later version.",
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
        description="Address under which browsers reach this server over HTTP. Default: where it listens.",
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
        description="Database address, such as `sqlite+aiosqlite:////var/lib/nextcloud-mcp-server/state.db`. "
        "Default: `state.db` in `DATA_DIR`. Only SQLite for now.",
    )
    token_encryption_keys: Secrets = Field(
        default=(),
        description="Keys that seal what is stored (make one with `nextcloud-mcp-server keys new`), by "
        "commas: the first one seals, all of them open. Default: a key file made in `DATA_DIR`.",
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
        description=f"Which groups of tools are on, by commas: {', '.join(_EVERY_TOOLSET)}, or `all`. "
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
    transport: Literal["stdio", "http"] = Field(
        default="stdio",
        description="`stdio` for a client that starts the server itself, `http` for the others.",
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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # left out on purpose
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # left out on purpose
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # left out on purpose
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what was given, then the environment; never a file from the working directory."""
        return init_settings, _Environment(settings_cls)

    @model_validator(mode="after")
    def _refuse_what_cannot_be_safe(self) -> Self:
        _check_mode(self)
        _check_addresses(self)
        _check_credentials(self)
        _check_transport(self)
        _check_database(self)
        _check_toolsets(self)
        return self

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the operator about what works but looks wrong."""
        return (*_looks_wrong(self), *unknown_variables(os.environ))

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
        return f"sqlite+aiosqlite://{rest}" if scheme == "sqlite" else self.database_url

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
        return _EVERY_TOOLSET if "all" in self.toolsets else self.toolsets

    @property
    def operator_credential(self) -> tuple[str, SecretStr] | None:
        """Login name and app password given by the operator, if they were."""
        if self.nextcloud_username is None or self.nextcloud_app_password is None:
            return None
        return self.nextcloud_username, self.nextcloud_app_password

    def open_data_dir(self) -> Path:
        """Make the data folder, for this person alone, and return it.

        Raises:
            ConfigurationError: It cannot be made.
        """
        path = self.data_path
        try:
            # The mode is for the last folder alone, and the sandbox's lies in the one for real connections.
            for folder in (path.parent, path) if self.sandbox else (path,):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"The data folder {path} cannot be made ({error.strerror}): set DATA_DIR to another folder."
            ) from error
        return path

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


def load(**overrides: object) -> Settings:
    """Read the settings; arguments that are not None win over the environment.

    Raises:
        ConfigurationError: Something is wrong or unsafe; names the variable and the fix, never a value
            that is secret.
    """
    given: dict[str, Any] = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        raise ConfigurationError(explain(error)) from None


def child_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Make the environment of a server that is started with these variables, and no settings but them."""
    return {name: text for name, text in os.environ.items() if name not in known_variables()} | {**variables}


def _check_mode(settings: Settings) -> None:
    if settings.mode != "personal":
        raise ConfigurationError(f"MODE={settings.mode} comes with a later version; use MODE=personal.")


def _check_addresses(settings: Settings) -> None:
    for field in ("nextcloud_host", "nextcloud_public_url", "nextcloud_mcp_server_url"):
        text: str | None = getattr(settings, field)
        if text is None:
            continue
        if "://" not in text:
            raise ConfigurationError(f"{env_name(field)} lacks its scheme: did you mean https://{text}?")
        try:
            parts = urlsplit(text)
            valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
            parts = urlsplit("")
        if not valid or parts.query or parts.fragment:
            raise ConfigurationError(
                f"{env_name(field)} is not a web address: write it like https://cloud.example.org."
            )
        if parts.username or parts.password:
            raise ConfigurationError(
                f"{env_name(field)} must not hold a name or password: take the part before the @ out."
            )
    if settings.nextcloud_ca_bundle is not None and not settings.nextcloud_ca_bundle.is_file():
        raise ConfigurationError("NEXTCLOUD_CA_BUNDLE names no file: give the path of a PEM file.")


def _check_credentials(settings: Settings) -> None:
    if settings.nextcloud_username and not settings.nextcloud_app_password:
        raise ConfigurationError(
            "NEXTCLOUD_USERNAME needs NEXTCLOUD_APP_PASSWORD (or NEXTCLOUD_APP_PASSWORD_FILE): set both, "
            "or neither to give consent in the browser."
        )
    if settings.nextcloud_app_password and not settings.nextcloud_username:
        raise ConfigurationError(
            "NEXTCLOUD_APP_PASSWORD needs NEXTCLOUD_USERNAME: set both, or neither to consent in the browser."
        )


def _check_transport(settings: Settings) -> None:
    secret = settings.nextcloud_mcp_secret
    if secret is not None and len(secret.get_secret_value()) < SHORTEST_SECRET:
        raise ConfigurationError(
            f"NEXTCLOUD_MCP_SECRET is too short to be safe: use at least {SHORTEST_SECRET} characters, "
            "or leave it out and have one made."
        )
    if not settings.no_local_auth:
        return
    if settings.host not in LOOPBACK_HOSTS:
        raise ConfigurationError(
            f"--no-local-auth works on loopback only, not on {settings.host}: "
            "leave it out, or use --host 127.0.0.1."
        )
    if secret is not None:
        raise ConfigurationError("NEXTCLOUD_MCP_SECRET has no use with --no-local-auth: keep one of them.")


def _check_database(settings: Settings) -> None:
    if settings.database_url is None:
        return
    scheme = settings.database_url.partition("://")[0]
    if scheme not in {"sqlite", "sqlite+aiosqlite"}:
        raise ConfigurationError(
            "DATABASE_URL names another database than SQLite, which comes with a later version: "
            "write sqlite+aiosqlite:////path/to/state.db, or leave it out."
        )


def _check_toolsets(settings: Settings) -> None:
    for name in settings.toolsets:
        if name not in (*_EVERY_TOOLSET, "all"):
            raise ConfigurationError(
                f"TOOLSETS names {name!r}, which there is not: use {', '.join(_EVERY_TOOLSET)} or all."
            )


def _looks_wrong(settings: Settings) -> list[str]:
    """List what works and is probably not meant."""
    found: list[str] = []
    for field in ("nextcloud_host", "nextcloud_public_url", "nextcloud_mcp_server_url"):
        parts = urlsplit(getattr(settings, field) or "")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
            found.append(
                f"{env_name(field)} is not encrypted (http://): whoever is on the network can read along; use https://."
            )
    if settings.transport == "http" and settings.host not in LOOPBACK_HOSTS:
        found.append(
            f"The server listens on {settings.host}, not only on this computer: put TLS in front of it, "
            "and keep the bearer secret to yourself."
        )
    if settings.sandbox and settings.nextcloud_host:
        found.append("NEXTCLOUD_HOST is not used with --sandbox.")
    return found
