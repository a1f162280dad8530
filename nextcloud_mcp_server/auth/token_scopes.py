"""The scopes of an access token: as issuers write them in tokens, and as clients have to ask for them."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from nextcloud_mcp_server.auth.scopes import SCOPES

#: What a client asks for where tokens need none of our scopes: every OpenID provider knows it.
NO_SCOPES = ("openid",)


def granted(claims: Mapping[str, Any], *, prefix: str = "") -> frozenset[str]:
    """List those of our scopes that a token allows; whatever cannot be read allows nothing.

    `scope` is a text with spaces (RFC 8693 §4.2) or, with some issuers, a list. With a prefix, a
    scope without it belongs to somebody else's API; Entra, though, cuts the prefix off itself, and
    what it allows stands in `scp`. There is no hierarchy: `notes:write` does not contain `notes:read`.
    """
    ours = {word.removeprefix(prefix) for word in _words(claims.get("scope")) if word.startswith(prefix)}
    ours |= {word.removeprefix(prefix) for word in _words(claims.get("scp"))}
    return frozenset(ours & set(SCOPES))


def asked(scopes: Iterable[str], *, prefix: str = "") -> tuple[str, ...]:
    """Write scopes as clients have to ask for them."""
    return tuple(sorted(f"{prefix}{scope}" for scope in scopes))


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split(" ")
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]
