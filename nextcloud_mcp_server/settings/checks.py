"""Refuses settings that cannot work or are not safe; the message names the variable and the fix."""

from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_network
from urllib.parse import SplitResult, urlsplit

from nextcloud_mcp_server.auth.scopes import BUNDLES, WORDS
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.nextcloud.spelling import DEFAULT_PORTS
from nextcloud_mcp_server.settings import addresses, client_checks, local_folder_checks, required
from nextcloud_mcp_server.settings.faults import FaultCollection
from nextcloud_mcp_server.settings.fields import CALLBACK_PATH, EVERY_TOOLSET, Fields
from nextcloud_mcp_server.settings.names import (
    ADDRESSES,
    BUILTIN,
    MULTI_USER,
    OIDC,
    env_name,
    mutable_identity,
    similar,
)

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - nothing is bound here
SHORTEST_SECRET = 24
_DATABASES = frozenset({"sqlite", "sqlite+aiosqlite", "postgresql", "postgres", "postgresql+asyncpg"})


def refuse(settings: Fields) -> None:
    """Refuse settings that cannot work or are not safe.

    Raises:
        Faults: Names every such variable and the fix.
    """
    _refuse_together(settings, _checks(settings))


def refuse_draft(settings: Fields) -> None:
    """Refuse settings with which `setup nextcloud` would register an unsafe address.

    Raises:
        Faults: Names every such variable and the fix.
    """
    _refuse_together(
        settings,
        [
            *addresses.checks(settings),
            required.refuse_missing_addresses,
            _check_not_nextcloud,
            *_own(settings),
        ],
    )


def _refuse_together(settings: Fields, checks: Iterable[Callable[[Fields], None]]) -> None:
    found = FaultCollection()
    for check in checks:
        with found.gathering():
            check(settings)
    found.refuse()


def _checks(settings: Fields) -> Iterator[Callable[[Fields], None]]:
    yield from addresses.checks(settings)
    yield from (_check_credentials, _check_transport, _check_database, _check_toolsets)
    yield from (local_folder_checks.refuse, _check_proxies, _check_not_nextcloud)
    if settings.multi_user:
        yield from (_check_multi_user, required.refuse_missing, _check_sign_in_scopes)
        yield from _own(settings)
    if settings.mode == "oidc":
        yield from (_check_issuer, _check_sign_in, _check_grants)
    if settings.mode == "builtin":
        yield client_checks.refuse


def _own(settings: Fields) -> Iterator[Callable[[Fields], None]]:
    # What is missing, or no address, has a sentence of its own.
    if addresses.is_address(settings.nextcloud_mcp_server_url):
        yield _check_own_address
        if settings.mode == "builtin" and not settings.server_url.endswith(addresses.MCP):
            yield _check_own_root


#: What only a server over HTTP does.
_OF_HTTP = ("metrics_port", "otel_exporter_otlp_endpoint", "shutdown_drain_seconds")


def looks_wrong(settings: Fields) -> list[str]:
    """Return warnings about settings that work but are probably not intended."""
    found: list[str] = []
    # Those of multi-user modes are refused without TLS.
    for field in (name for name in ADDRESSES if name not in MULTI_USER):
        parts = urlsplit(getattr(settings, field) or "")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
            found.append(
                f"{env_name(field)} is not encrypted (http://): others on the network can read along; use https://."
            )
    if settings.sandbox and settings.nextcloud_host:
        found.append("NEXTCLOUD_HOST is not used with --sandbox.")
    if settings.multi_user:
        return found + _looks_wrong_for_multi_user(settings)
    if settings.transport == "stdio":
        given = [name for name in _OF_HTTP if getattr(settings, name)]
        found += [
            f"{env_name(name)} has no effect over stdio: set it for a server over HTTP." for name in given
        ]
    if settings.transport == "http" and settings.host not in LOOPBACK_HOSTS:
        found.append(
            f"The server listens on {settings.host}, not only on this computer, without encryption; with MODE=personal "
            "it answers no reverse proxy that could add it. In a container publish the port on 127.0.0.1 alone; to "
            "reach it from other computers use MODE=builtin."
        )
    return found + _without_effect(settings, MULTI_USER, "it is for many users (MODE=oidc or MODE=builtin)")


def _without_effect(settings: Fields, fields: Iterable[str], why: str) -> list[str]:
    given = [env_name(field) for field in fields if field in settings.model_fields_set]
    return [f"{name} has no effect with MODE={settings.mode}: {why}." for name in given]


def _looks_wrong_for_multi_user(settings: Fields) -> list[str]:
    oidc = settings.mode == "oidc"
    found = (
        _looks_wrong_with_issuer(settings) if oidc else _without_effect(settings, OIDC, "it is for MODE=oidc")
    )
    found += (
        _without_effect(settings, BUILTIN, "it is for MODE=builtin")
        if oidc
        else client_checks.looks_wrong(settings)
    )
    if not settings.trusted_proxies and settings.server_url.startswith("https://"):
        found.append(
            "TRUSTED_PROXIES is not set, so all users seem to come from the reverse proxy's address and share one "
            "rate limit: name the proxy's address."
        )
    return found


def _looks_wrong_with_issuer(settings: Fields) -> list[str]:
    found = mutable_identity(settings.oidc_identity_claim)
    if settings.grant_provider != "nextcloud_oauth2" and settings.nextcloud_oauth_client_id:
        found.append(
            f"NEXTCLOUD_OAUTH_CLIENT_ID has no effect with GRANT_PROVIDER={settings.grant_provider}: leave it out."
        )
    if settings.grant_provider != "oidc_refresh" and settings.nextcloud_resource:
        found.append(
            f"NEXTCLOUD_RESOURCE has no effect with GRANT_PROVIDER={settings.grant_provider}: leave it out."
        )
    if "jwt" in {kind.lower() for kind in settings.oidc_token_types}:
        found.append(
            "OIDC_TOKEN_TYPES takes plain JWT too, which is what ID tokens are: keep OIDC_AUDIENCE apart from every "
            "client id at the identity provider."
        )
    return found


def _check_credentials(settings: Fields) -> None:
    if settings.nextcloud_username and not settings.nextcloud_app_password:
        raise ConfigurationError(
            "NEXTCLOUD_USERNAME needs NEXTCLOUD_APP_PASSWORD (or NEXTCLOUD_APP_PASSWORD_FILE): set both, "
            "or neither to give consent in the browser."
        )
    if settings.nextcloud_app_password and not settings.nextcloud_username:
        raise ConfigurationError(
            "NEXTCLOUD_APP_PASSWORD needs NEXTCLOUD_USERNAME: set both, or neither to consent in the browser."
        )


def _check_transport(settings: Fields) -> None:
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


def _check_database(settings: Fields) -> None:
    if settings.database_url is None:
        return
    if settings.database_url.partition("://")[0] not in _DATABASES:
        raise ConfigurationError(
            "DATABASE_URL names another database than SQLite or PostgreSQL: write "
            "sqlite+aiosqlite:////path/to/state.db or postgresql+asyncpg://name:password@host/database."
        )


def _check_toolsets(settings: Fields) -> None:
    unknown = [name for name in settings.toolsets if name not in (*EVERY_TOOLSET, "all")]
    if unknown:
        named = " ".join(
            f"Unknown toolset {name!r} in TOOLSETS{similar(name, EVERY_TOOLSET)}" for name in unknown
        )
        raise ConfigurationError(f"{named} Use {', '.join(EVERY_TOOLSET)} or all.")


def _check_proxies(settings: Fields) -> None:
    for text in settings.trusted_proxies:
        try:
            network = ip_network(text)
        except ValueError:
            raise ConfigurationError(
                f"TRUSTED_PROXIES holds {text!r}, which is no address or network: write it like 10.0.0.7 or "
                "10.0.0.0/24 (the bits behind the slash's number must be zero)."
            ) from None
        if network.prefixlen == 0:
            raise ConfigurationError(
                f"TRUSTED_PROXIES trusts every address with {text}: name the addresses of your reverse proxies alone."
            )


def _check_multi_user(settings: Fields) -> None:
    """Refuse a shared credential, and access without a token: all users would be one."""
    mode = settings.mode
    if settings.nextcloud_username or settings.nextcloud_app_password:
        raise ConfigurationError(
            "NEXTCLOUD_USERNAME and NEXTCLOUD_APP_PASSWORD would make all users one Nextcloud user: take them out, or "
            "use MODE=personal."
        )
    if settings.nextcloud_mcp_secret is not None:
        raise ConfigurationError(
            f"NEXTCLOUD_MCP_SECRET does not say who calls: take it out; with MODE={mode} clients send a token of the "
            f"{'identity provider' if mode == 'oidc' else 'user who uses them'}."
        )
    if settings.no_local_auth:
        raise ConfigurationError(
            f"--no-local-auth does not say who calls: take it out; with MODE={mode} every call needs a token."
        )
    if settings.sandbox and not (mode == "oidc" and settings.grant_provider == "login_flow"):
        # It is created at each start, so it has no OAuth client and no user could consent.
        raise ConfigurationError(
            f"--sandbox knows no OAuth client of this server: leave it out with MODE={mode}. See two users play with "
            f"'nextcloud-mcp-server demo --mode {mode}', or rehearse with 'nextcloud-mcp-server sandbox' "
            "(docs/operate/rehearsal.md)."
        )
    if settings.transport == "stdio":
        raise ConfigurationError(
            f"--transport stdio is for one user: leave it out with MODE={mode}, which serves over HTTP."
        )


def _check_sign_in_scopes(settings: Fields) -> None:
    for word in settings.sign_in_scopes:
        if word not in WORDS:
            raise ConfigurationError(
                f"Unknown scope {word!r} in SIGN_IN_SCOPES{similar(word, sorted(WORDS))} Use {', '.join(BUNDLES)}, or "
                "scopes such as notes:read."
            )
    if settings.sign_in_scopes and not settings.asked_words.at_sign_in:
        raise ConfigurationError(
            "SIGN_IN_SCOPES names nothing that this server offers: see TOOLSETS and READ_ONLY, or leave it out."
        )


def _check_not_nextcloud(settings: Fields) -> None:
    """Refuse an address of this server that is Nextcloud's, in every mode."""
    own = settings.server_url if addresses.is_address(settings.nextcloud_mcp_server_url) else ""
    for field in ("nextcloud_host", "nextcloud_public_url"):
        text: str | None = getattr(settings, field)
        if not text or not addresses.is_address(text):
            continue
        theirs = urlsplit(text)
        if own and _origin(theirs) == _origin(urlsplit(own)):
            # On one origin a script of either server could use the user's cookies of the other.
            raise ConfigurationError(
                f"NEXTCLOUD_MCP_SERVER_URL has the origin of {env_name(field)}: give this server a host name of "
                "its own, such as https://mcp.example.org."
            )
        if not settings.multi_user and not settings.sandbox and _listens_at(settings, theirs):
            raise ConfigurationError(
                f"{env_name(field)} is where this server itself listens ({theirs.netloc}): name Nextcloud's address "
                "there, or choose another --port for this server."
            )


def _listens_at(settings: Fields, parts: SplitResult) -> bool:
    """Tell whether a single-user server over HTTP would answer at an address itself."""
    _, host, port = _origin(parts)
    here = {settings.host} if settings.host not in {*LOOPBACK_HOSTS, *_EVERYWHERE} else LOOPBACK_HOSTS
    return settings.transport == "http" and port == settings.port and host in here


def _check_own_address(settings: Fields) -> None:
    own = urlsplit(settings.server_url)
    _need_https("NEXTCLOUD_MCP_SERVER_URL", own)
    if settings.elicitation_callback_url is None:
        return
    callback = urlsplit(settings.elicitation_callback_url)
    if _origin(callback) != _origin(own):
        raise ConfigurationError(
            "ELICITATION_CALLBACK_URL has another origin than NEXTCLOUD_MCP_SERVER_URL, where the browser's session "
            "would be missing: leave it out, or use the same host."
        )
    if not settings.callback_url.endswith(CALLBACK_PATH):
        raise ConfigurationError(
            f"ELICITATION_CALLBACK_URL does not end in {CALLBACK_PATH}, where this server answers: leave it out, or "
            "write it so."
        )


def _check_issuer(settings: Fields) -> None:
    if addresses.is_address(settings.oidc_issuer):
        _need_https("OIDC_ISSUER", urlsplit(settings.oidc_issuer or ""))


def _check_sign_in(settings: Fields) -> None:
    if settings.oidc_client_id and settings.audience == settings.oidc_client_id:
        # The audience of an ID token is the client, so it would be accepted as an access token.
        raise ConfigurationError(
            "OIDC_AUDIENCE is the same as OIDC_CLIENT_ID, so that ID tokens would be for this server too: leave it "
            "out, or choose another audience at the identity provider."
        )
    for name, words in (
        ("OIDC_AUDIENCE", (settings.audience,)),
        ("OIDC_TOKEN_TYPES", settings.oidc_token_types),
    ):
        if not words or any("*" in word for word in words):
            raise ConfigurationError(f"{name} must name exact values: it is empty or holds a wildcard.")
    if settings.introspection_client_id and not settings.introspection_client_secret:
        raise ConfigurationError(
            "INTROSPECTION_CLIENT_ID needs INTROSPECTION_CLIENT_SECRET: set both, or neither to use OIDC_CLIENT_ID."
        )
    if settings.introspection_client_secret and not settings.introspection_client_id:
        raise ConfigurationError(
            "INTROSPECTION_CLIENT_SECRET needs INTROSPECTION_CLIENT_ID: set both, or neither to use OIDC_CLIENT_ID."
        )


def _check_grants(settings: Fields) -> None:
    if settings.grant_provider == "login_flow" and settings.mapping_claim is None:
        # The browser that finishes a login flow decides which account it opens, so the account must be known before.
        raise ConfigurationError(
            "GRANT_PROVIDER=login_flow needs to know each user's Nextcloud account beforehand: name the claim that "
            "holds it in ACCOUNT_MAPPING, or use GRANT_PROVIDER=nextcloud_oauth2."
        )


def _check_own_root(settings: Fields) -> None:
    own = urlsplit(settings.server_url)
    if own.path:
        # Clients read the metadata at the host's root (RFC 8414), and many assume /authorize and /token there.
        raise ConfigurationError(
            f"NEXTCLOUD_MCP_SERVER_URL holds the path {own.path}: with MODE=builtin this server needs a host name "
            "of its own, such as https://mcp.example.org."
        )


def _need_https(name: str, parts: SplitResult) -> None:
    if parts.scheme != "https" and parts.hostname not in LOOPBACK_HOSTS:
        raise ConfigurationError(
            f"{name} is not encrypted (http://), so tokens could be read on the way: use https://."
        )


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)
