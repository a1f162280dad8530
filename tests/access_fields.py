"""The fields that the rows of a page send for a choice of scopes, and what they show."""

import re


def fields_for(*scopes: str) -> dict[str, str]:
    """Return exactly these scopes as a form sends them: `allow.notes=read`."""
    kinds: dict[str, set[str]] = {}
    for scope in scopes:
        app, _, kind = scope.partition(":")
        kinds.setdefault(f"allow.{app}", set()).add(kind)
    return {field: _LEVELS.get(frozenset(kind), "unknown") for field, kind in kinds.items()}


_LEVELS = {
    frozenset({"read"}): "read",
    frozenset({"write"}): "change-only",
    frozenset({"read", "write"}): "change",
}

_INPUT = re.compile(r'name="allow\.([a-z]+)" value="([a-z-]+)"( checked)?( disabled)?')


def choices_in(html: str) -> list[str]:
    """List the choices of a page, as `notes:read`; what is off is left out."""
    return [f"{app}:{level}" for app, level, *_ in _INPUT.findall(html) if level != "off"]


def chosen_in(html: str) -> list[str]:
    """List the choices that a page shows as chosen; what is off is left out."""
    return [f"{app}:{level}" for app, level, chosen, _ in _INPUT.findall(html) if chosen and level != "off"]


def told_in(html: str) -> list[tuple[str, str]]:
    """List the apps of a page without choices, each with what may be done there."""
    return re.findall(r'<span>([^<]+)</span> <em class="chip [a-z-]+">([^<]+)</em>', html)
