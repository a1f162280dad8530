"""Checks the web addresses in the settings, and names the right form of those that are often mistaken."""

from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import SplitResult, urlsplit

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings.fields import Fields
from nextcloud_mcp_server.settings.names import ADDRESSES, env_name

#: What clients get behind the address of this server.
MCP = "/mcp"
_WELL_KNOWN = "/.well-known/"


def checks(settings: Fields) -> Iterator[Callable[[Fields], None]]:
    """Return a check for each address, and for the file of certificates."""
    for field in ADDRESSES:
        text: str | None = getattr(settings, field)
        if text is not None:
            yield partial(_check, field, text)
    yield _check_ca_bundle


def is_address(text: str | None) -> bool:
    """Tell whether a text is a web address without a query or a fragment."""
    parts = _parts(text or "")
    return parts is not None and not parts.query and not parts.fragment


def _parts(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if valid else None


def _check(field: str, text: str, _settings: Fields) -> None:
    name = env_name(field)
    if not text.strip():
        raise ConfigurationError(f"{name} is empty: write it like https://cloud.example.org.")
    if "://" not in text:
        raise ConfigurationError(f"{name} lacks its scheme: did you mean https://{text}?")
    parts = _parts(text)
    if parts is None or parts.query or parts.fragment:
        raise ConfigurationError(f"{name} is not a web address: write it like https://cloud.example.org.")
    if parts.username or parts.password:
        raise ConfigurationError(f"{name} must not hold a name or password: take the part before the @ out.")
    if "*" in text:
        raise ConfigurationError(f"{name} holds a wildcard: write the one address that is meant.")
    path = parts.path.rstrip("/")
    if field == "nextcloud_mcp_server_url" and path.endswith(MCP):
        raise ConfigurationError(
            f"{name} ends in {MCP}, which clients get behind it anyway: write {text.rstrip('/').removesuffix(MCP)}."
        )
    if field == "oidc_issuer" and _WELL_KNOWN in path:
        issuer = text.partition(_WELL_KNOWN)[0]
        raise ConfigurationError(
            f"{name} is the address of the identity provider's metadata: write {issuer}, exactly as the metadata has "
            "it in 'issuer'."
        )


def _check_ca_bundle(settings: Fields) -> None:
    if settings.nextcloud_ca_bundle is not None and not settings.nextcloud_ca_bundle.is_file():
        raise ConfigurationError("NEXTCLOUD_CA_BUNDLE names no file: give the path of a PEM file.")
