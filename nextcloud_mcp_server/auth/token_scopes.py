"""The scopes of an access token: how issuers write them, how clients ask for them, and what they limit.

What a call may do is what its person allowed the client, within the scopes of its access token and
within the operator's settings. `effective`, `covers` and `require` are the only code that decides this.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.errors import TokenTooNarrow

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


def effective(
    permitted: frozenset[str], *, token: frozenset[str] | None, bound: frozenset[str]
) -> frozenset[str]:
    """List what a call may do: permitted by the person, covered by the token, within the operator's bound."""
    allowed = permitted & bound
    return allowed if token is None else allowed & token


def covers(token: frozenset[str] | None, needed: frozenset[str]) -> bool:
    """Tell whether a token allows what needs these scopes; None is a token that limits nothing."""
    return token is None or needed <= token


def require(needed: frozenset[str], *, token: frozenset[str] | None) -> None:
    """Refuse a call that its token does not cover.

    Raises:
        TokenTooNarrow: Another token is needed; no consent of the person changes that.
    """
    if token is None or needed <= token:
        return
    missing = ", ".join(sorted(needed - token))
    raise TokenTooNarrow(
        f"The sign-in of this app does not cover {missing}. Have the app sign in again and ask for the "
        f"scopes: {' '.join(sorted(token | needed))}. Repeating the call does not help."
    )


def asked(scopes: Iterable[str], *, prefix: str = "") -> tuple[str, ...]:
    """Write scopes as clients have to ask for them."""
    return tuple(sorted(f"{prefix}{scope}" for scope in scopes))


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split(" ")
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]
