"""The scopes of an access token: how issuers write them, how clients ask for them, and what they limit.

What a call may do is what its user allowed the client, within the scopes of its access token and
within the operator's settings. `effective`, `covers` and `require` are the only code that decides this.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from nextcloud_mcp_server.auth.scopes import BUNDLES, expand, shorten
from nextcloud_mcp_server.errors import TokenTooNarrow

#: What a client asks for where tokens need none of our scopes: every OpenID provider knows it.
NO_SCOPES = ("openid",)


def granted(claims: Mapping[str, Any], *, prefix: str = "") -> frozenset[str]:
    """List those of our scopes that a token allows; whatever cannot be read allows nothing.

    `scope` is a text with spaces (RFC 8693 §4.2) or, with some issuers, a list. With a prefix, a
    scope without it belongs to another user's API; Entra, though, cuts the prefix off itself, and
    what it allows stands in `scp`. There is no hierarchy: `notes:write` does not contain `notes:read`. A
    bundle is the scopes that it stands for.
    """
    ours = {word.removeprefix(prefix) for word in _words(claims.get("scope")) if word.startswith(prefix)}
    ours |= {word.removeprefix(prefix) for word in _words(claims.get("scp"))}
    return expand(ours)


def effective(
    permitted: frozenset[str], *, token: frozenset[str] | None, bound: frozenset[str]
) -> frozenset[str]:
    """List what a call may do: permitted by the user, covered by the token, within the operator's bound."""
    allowed = permitted & bound
    return allowed if token is None else allowed & token


def covers(token: frozenset[str] | None, needed: frozenset[str]) -> bool:
    """Tell whether a token allows what needs these scopes; None is a token that limits nothing."""
    return token is None or needed <= token


def require(needed: frozenset[str], *, token: frozenset[str] | None) -> None:
    """Refuse a call that its token does not cover.

    Raises:
        TokenTooNarrow: Another token is needed; no consent of the user changes that.
    """
    if token is None or needed <= token:
        return
    missing = ", ".join(sorted(needed - token))
    raise TokenTooNarrow(
        f"The sign-in of this app does not cover {missing}. Have the app sign in again and ask for the "
        f"scopes: {' '.join(shorten(token | needed))}. Repeating the call does not help."
    )


def asked(scopes: Iterable[str], *, prefix: str = "") -> tuple[str, ...]:
    """Write scopes as clients have to ask for them."""
    return tuple(sorted(f"{prefix}{scope}" for scope in scopes))


@dataclass(frozen=True, slots=True)
class AskedWords:
    """The words by which clients are to ask an issuer for scopes.

    `at_sign_in` are for the first time, before any call is made. `bound` is what the operator offers. Our own issuer
    (`ours`) knows every word; of another one only those words are known to be there, and the scopes themselves.
    """

    at_sign_in: tuple[str, ...]
    bound: frozenset[str]
    ours: bool = False
    prefix: str = ""

    @property
    def first(self) -> tuple[str, ...]:
        """The words of a first sign-in, as clients have to ask for them."""
        return asked(self.at_sign_in, prefix=self.prefix)

    @property
    def scopes_at_sign_in(self) -> frozenset[str]:
        """The scopes that a first sign-in asks for."""
        return expand(self.at_sign_in) & self.bound

    def for_call(self, needed: frozenset[str]) -> tuple[str, ...]:
        """Write what a call needs: as short as it gets for our issuer, in words that another one knows."""
        if self.ours:
            return shorten(needed, of=self.bound)
        return asked({self._known_word(scope) for scope in needed}, prefix=self.prefix)

    @property
    def every(self) -> tuple[str, ...]:
        """All words that clients may be told to ask for."""
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
