"""The scopes that the apps declare, and the functions that combine them."""

from collections.abc import Iterable

from nextcloud_mcp_server.declarations.apps import APPS

#: Toolset → the scopes its tools need. Toolsets may share scopes.
TOOLSET_SCOPES: dict[str, tuple[str, ...]] = {app.toolset: app.scope_names for app in APPS}

#: Every scope, in the order in which pages and documents name them.
SCOPES = tuple(dict.fromkeys(scope for scopes in TOOLSET_SCOPES.values() for scope in scopes))


#: Scopes whose tools affect other users: Nextcloud notifies or invites them, or shows them the result.
OUTWARD = frozenset(scope.name for app in APPS for scope in app.scopes if scope.outward)


def is_writing(scope: str) -> bool:
    """Tell whether a scope allows changes."""
    return scope.endswith(":write")


#: Names for several scopes: all reading, all writing, and all of one app. Stored, granted and compared are single
#: scopes only, so a scope that joins a bundle later is in no earlier grant.
BUNDLES: dict[str, frozenset[str]] = {
    "read": frozenset(scope for scope in SCOPES if not is_writing(scope)),
    "write": frozenset(scope for scope in SCOPES if is_writing(scope)),
    **{
        app: frozenset(scope for scope in SCOPES if scope.startswith(f"{app}:"))
        for app in (scope.partition(":")[0] for scope in SCOPES)
    },
}

#: All scopes and bundles.
WORDS = frozenset(SCOPES) | BUNDLES.keys()


def expand(words: Iterable[str]) -> frozenset[str]:
    """Return the scopes for a list of scopes and bundles; an unknown word adds none (RFC 6749 §3.3).

    This is the only place where a bundle becomes scopes.
    """
    known = frozenset(words) & WORDS
    return frozenset(scope for word in known for scope in BUNDLES.get(word, frozenset({word})))


def shorten(scopes: Iterable[str], *, of: Iterable[str] = SCOPES) -> tuple[str, ...]:
    """Write scopes in as few words as possible, where `of` are all scopes: `read` for all reading."""
    left, there, short = set(scopes), frozenset(of), list[str]()
    for word in ("read", "write"):
        meant = BUNDLES[word] & there
        if len(meant) > 1 and meant <= left:
            short.append(word)
            left -= meant
    return (*short, *sorted(left))


def offered(toolsets: Iterable[str], *, read_only: bool) -> frozenset[str]:
    """Return the scopes that the operator's settings allow: the upper bound of every permission."""
    return frozenset(
        scope
        for toolset in toolsets
        for scope in TOOLSET_SCOPES.get(toolset, ())
        if not (read_only and is_writing(scope))
    )
