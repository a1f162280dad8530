"""The scopes of access tokens: how issuers write them, clients request them, and what they limit.

A call may use the scopes that the user allowed the client, within those of its access token and within the
operator's settings. `effective`, `covers` and `require` are the only code that decides this.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from nextcloud_mcp_server.auth.scopes import BUNDLES, expand, shorten
from nextcloud_mcp_server.errors import TokenTooNarrow

#: What a client requests if tokens need none of this server's scopes; every OpenID provider knows it.
NO_SCOPES = ("openid",)


def granted(claims: Mapping[str, Any], *, prefix: str = "") -> frozenset[str]:
    """Return those of this server's scopes that a token carries; an unreadable claim grants none.

    `scope` is a text with spaces (RFC 8693 §4.2) or, with some issuers, a list. With a prefix, a scope without
    it belongs to another API; Entra, though, removes the prefix itself, and writes the scopes to `scp`. There
    is no hierarchy: `notes:write` does not contain `notes:read`. A bundle is expanded to its scopes.
    """
    ours = {word.removeprefix(prefix) for word in _words(claims.get("scope")) if word.startswith(prefix)}
    ours |= {word.removeprefix(prefix) for word in _words(claims.get("scp"))}
    return expand(ours)


def effective(
    permitted: frozenset[str], *, token: frozenset[str] | None, bound: frozenset[str]
) -> frozenset[str]:
    """Return the scopes of a call: permitted by the user, covered by the token, within `bound`."""
    allowed = permitted & bound
    return allowed if token is None else allowed & token


def covers(token: frozenset[str] | None, needed: frozenset[str]) -> bool:
    """Tell whether a token covers the needed scopes; None is a token that limits nothing."""
    return token is None or needed <= token


def require(needed: frozenset[str], *, token: frozenset[str] | None) -> None:
    """Refuse a call that its token does not cover.

    Raises:
        TokenTooNarrow: The client needs another token; the user's consent cannot change that.
    """
    if token is None or needed <= token:
        return
    missing = ", ".join(sorted(needed - token))
    raise TokenTooNarrow(
        f"The sign-in of this app does not cover {missing}. Have the app sign in again and ask for the "
        f"scopes: {' '.join(shorten(token | needed))}. Repeating the call does not help."
    )


def asked(scopes: Iterable[str], *, prefix: str = "") -> tuple[str, ...]:
    """Write scopes as clients must request them."""
    return tuple(sorted(f"{prefix}{scope}" for scope in scopes))


@dataclass(frozen=True, slots=True)
class AskedWords:
    """The scope names that clients are to request from an issuer.

    `at_sign_in` are for the first sign-in, before any call is made. `bound` is what the operator offers. This
    server's own issuer (`ours`) knows every name; another issuer is only known to have those in the settings,
    and the single scopes.
    """

    at_sign_in: tuple[str, ...]
    bound: frozenset[str]
    ours: bool = False
    prefix: str = ""

    @property
    def first(self) -> tuple[str, ...]:
        """The scope names of a first sign-in, as clients must request them."""
        return asked(self.at_sign_in, prefix=self.prefix)

    @property
    def scopes_at_sign_in(self) -> frozenset[str]:
        """The scopes that a first sign-in requests."""
        return expand(self.at_sign_in) & self.bound

    def for_call(self, needed: frozenset[str]) -> tuple[str, ...]:
        """Write the scopes of a call as scope names.

        For this server's own issuer as few names as possible; for another one only names that it is known to
        have.
        """
        if self.ours:
            return shorten(needed, of=self.bound)
        return asked({self._known_word(scope) for scope in needed}, prefix=self.prefix)

    @property
    def every(self) -> tuple[str, ...]:
        """All scope names that clients may be asked to request."""
        return tuple(sorted({*self.first, *self.for_call(self.bound)}))

    def _known_word(self, scope: str) -> str:
        if scope in self.at_sign_in:
            return scope
        return next((word for word in self.at_sign_in if scope in BUNDLES.get(word, ())), scope)


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split(" ")
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]
