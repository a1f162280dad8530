"""The one list of what can be permitted, and the arithmetic on it."""

from collections.abc import Iterable

#: Scope → toolset that needs it. Writing scopes end in `:write`.
SCOPES: dict[str, str] = {
    "notes:read": "notes",
    "notes:write": "notes",
    "files:read": "files",
    "files:write": "files",
}


def is_writing(scope: str) -> bool:
    """Tell whether a scope allows changes."""
    return scope.endswith(":write")


def offered(toolsets: Iterable[str], *, read_only: bool) -> frozenset[str]:
    """List the scopes the operator's settings allow at all: the upper bound of every permission."""
    enabled = frozenset(toolsets)
    return frozenset(
        scope
        for scope, toolset in SCOPES.items()
        if toolset in enabled and not (read_only and is_writing(scope))
    )
