"""The sentences of the pages, in all languages."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast

from nextcloud_mcp_server.declarations.app import Words
from nextcloud_mcp_server.declarations.apps import APPS

LANGUAGES = Words._fields
_DEFAULT = "en"
_PACKAGE = "nextcloud_mcp_server.web"
# Longer than any browser sends; parsing more would only take time.
_LONGEST_HEADER = 200


def language_of(accept_language: str | None) -> str:
    """Choose the language that a browser prefers (RFC 9110 §12.5.4); English if none is available."""
    best, best_weight = _DEFAULT, 0.0
    for choice in (accept_language or "")[:_LONGEST_HEADER].split(","):
        tag, _, parameter = choice.strip().partition(";")
        language = tag.strip().lower().partition("-")[0]
        weight = _weight(parameter)
        if language in LANGUAGES and weight > best_weight:
            best, best_weight = language, weight
    return best


def _weight(parameter: str) -> float:
    name, _, number = parameter.strip().partition("=")
    if not name:
        return 1.0
    try:
        return float(number) if name == "q" else 0.0
    except ValueError:
        return 0.0


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """Read the sentences of one language, with their keys joined by dots."""
    text = files(_PACKAGE).joinpath("catalogue", f"{language}.toml").read_text(encoding="utf-8")
    return {**dict(_flatten("", tomllib.loads(text))), **dict(_of_apps(LANGUAGES.index(language)))}


def _of_apps(language: int) -> Iterator[tuple[str, str]]:
    """Yield the sentences that the apps declare; `Words` has them in the order of `LANGUAGES`."""
    for app in APPS:
        if app.title is not None:
            yield f"app.{app.name}", app.title[language]
        for scope in app.scopes:
            yield f"scope.{scope.name}", scope.what[language]
            yield f"scope_detail.{scope.name}", scope.detail[language]
        for tool, action in app.actions.items():
            yield f"action.{tool}", action[language]


def _flatten(prefix: str, table: dict[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += _flatten(f"{prefix}{key}.", cast("dict[str, Any]", value))
        else:
            found.append((f"{prefix}{key}", str(value)))
    return found
