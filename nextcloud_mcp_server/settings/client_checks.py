"""Checks the settings about the clients of `MODE=builtin`."""

import re
from urllib.parse import urlsplit

from nextcloud_mcp_server.auth.builtin.redirects import acceptable
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings.fields import Fields

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_CLIENT = re.compile(rf"(\*\.)?{_HOST.pattern}|[a-z][a-z0-9+.-]*:")


def refuse(settings: Fields) -> None:
    """Refuse settings that cannot work or are not safe.

    Raises:
        ConfigurationError: For the first such setting; names the variable and the fix.
    """
    _check_proxy(settings)
    for scheme in settings.private_schemes:
        if not acceptable(f"{scheme}:/callback", private_schemes=settings.private_schemes):
            raise ConfigurationError(
                f"PRIVATE_SCHEMES names {scheme!r}, to which no browser can be sent back safely: name schemes of "
                "programs alone, such as cursor."
            )
    for name, words in (
        ("ALLOWED_CLIENTS", settings.allowed_clients),
        ("DENIED_CLIENTS", settings.denied_clients),
        ("PLAIN_HOSTS", settings.plain_hosts),
    ):
        for word in words:
            if not (_HOST if name == "PLAIN_HOSTS" else _CLIENT).fullmatch(word):
                meant = (
                    "chat.example.org"
                    if name == "PLAIN_HOSTS"
                    else "claude.ai, *.example.org, or a scheme such as cursor:"
                )
                raise ConfigurationError(
                    f"{name} holds {word!r}: write a host without its scheme, such as {meant}."
                )


def _check_proxy(settings: Fields) -> None:
    if settings.client_metadata_proxy is None:
        return
    try:
        parts = urlsplit(settings.client_metadata_proxy.get_secret_value())
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid, parts = False, urlsplit("")
    if not valid or parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ConfigurationError(
            "CLIENT_METADATA_PROXY is not the address of an HTTP proxy: write it like http://proxy.example.org:3128."
        )


def looks_wrong(settings: Fields) -> list[str]:
    """Return warnings about settings that work but are probably not intended."""
    found = _no_whole_names(settings)
    if not settings.client_metadata_documents:
        if not settings.client_registration:
            found.append(
                "CLIENT_METADATA_DOCUMENTS=false and CLIENT_REGISTRATION=false leave no way to add a client: set one "
                "of them to true, unless all clients are there already."
            )
        if settings.client_metadata_proxy is not None:
            found.append(
                "CLIENT_METADATA_PROXY has no effect with CLIENT_METADATA_DOCUMENTS=false: leave it out."
            )
    return found


def _no_whole_names(settings: Fields) -> list[str]:
    """Return warnings about client names in the place of hosts: a denied client would still be let in."""
    return [
        f"{name} holds {word!r}, which is taken for a host: write its whole name ({word}.ai, say), or {word}: for a "
        "scheme."
        for name, words in (
            ("ALLOWED_CLIENTS", settings.allowed_clients),
            ("DENIED_CLIENTS", settings.denied_clients),
        )
        for word in words
        if not re.search(r"[.:]", word) and word != "localhost"
    ]
