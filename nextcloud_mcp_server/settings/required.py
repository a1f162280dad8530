"""The settings that a multi-user mode requires; one error names all that are missing."""

from collections.abc import Iterator, Sequence

from nextcloud_mcp_server.settings.addresses import MCP
from nextcloud_mcp_server.settings.faults import Faults
from nextcloud_mcp_server.settings.fields import CALLBACK_PATH, Fields
from nextcloud_mcp_server.settings.names import env_name


def refuse_missing(settings: Fields) -> None:
    """Refuse settings of a multi-user mode that lack some.

    Raises:
        Faults: Names each missing variable and what to set it to.
    """
    missing = list(_of_every_mode(settings))
    if settings.mode == "oidc":
        missing += _of_identity_provider(settings)
    if settings.mode == "builtin" or settings.grant_provider == "nextcloud_oauth2":
        missing += _of_client_at_nextcloud(settings)
    # Commands that only read the database need no address of Nextcloud, so it alone is not missed here.
    if missing and settings.nextcloud_host is None and not settings.sandbox:
        missing.insert(0, ("nextcloud_host", "set the address of your Nextcloud."))
    _raise(missing, f" for MODE={settings.mode}")


def refuse_missing_addresses(settings: Fields) -> None:
    """Refuse settings without the addresses that `setup nextcloud` requires.

    Raises:
        Faults: Names each missing variable and what to set it to.
    """
    missing = list(_own_address(settings))
    if not missing:
        settings.require_nextcloud()
    elif settings.nextcloud_host is None:
        missing.insert(0, ("nextcloud_host", "set the address of your Nextcloud (or use --nextcloud)."))
    _raise(missing, "")


def _raise(missing: Sequence[tuple[str, str]], what_for: str) -> None:
    if not missing:
        return
    if len(missing) == 1:
        ((field, advice),) = missing
        raise Faults((), f"{env_name(field)} is missing: {advice}")
    lines = [f"  {env_name(field)}: {advice}" for field, advice in missing]
    raise Faults((), "\n".join([f"{len(missing)} settings are missing{what_for}:", *lines]))


def _own_address(settings: Fields) -> Iterator[tuple[str, str]]:
    if settings.nextcloud_mcp_server_url is None:
        yield (
            "nextcloud_mcp_server_url",
            "set the address under which browsers and clients reach this server, such as https://mcp.example.org.",
        )


def _of_every_mode(settings: Fields) -> Iterator[tuple[str, str]]:
    yield from _own_address(settings)
    if not settings.token_encryption_keys:
        advice = (
            "make a key with 'nextcloud-mcp-server keys new', keep it with your backups, and set it (or "
            "TOKEN_ENCRYPTION_KEYS_FILE)."
        )
        yield "token_encryption_keys", advice


def _of_identity_provider(settings: Fields) -> Iterator[tuple[str, str]]:
    if settings.oidc_issuer is None:
        advice = (
            "set the address of your identity provider, as it writes it in 'issuer' of its "
            "/.well-known/openid-configuration."
        )
        yield "oidc_issuer", advice
    if settings.oidc_client_id is None:
        own = "" if settings.server_url else "the address of this server and "
        # The same message corrects an address that ends in /mcp.
        callback = settings.sign_in_callback_url.replace(f"{MCP}{CALLBACK_PATH}/", f"{CALLBACK_PATH}/")
        redirect_uri = f"{own}{callback}"
        yield (
            "oidc_client_id",
            f"register a client at the identity provider with the redirect URI {redirect_uri}, and set its id.",
        )


def _of_client_at_nextcloud(settings: Fields) -> Iterator[tuple[str, str]]:
    if not settings.nextcloud_oauth_client_id:
        yield (
            "nextcloud_oauth_client_id",
            "'nextcloud-mcp-server setup nextcloud' makes the client at Nextcloud and prints it.",
        )
    if not settings.nextcloud_oauth_client_secret:
        advice = (
            "it was shown when the client was made; without it, delete the client and run "
            "'nextcloud-mcp-server setup nextcloud' again."
        )
        yield (
            "nextcloud_oauth_client_secret",
            advice if settings.nextcloud_oauth_client_id else "the same command prints it.",
        )
