"""The sentences of the pages, in all languages.

The English ones are in `catalogue/en.toml` and in the declarations of the apps, each with a key. `catalogue/de.po` and
its like have translations, whose context is the key. A language is read with the first page in it.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from gettext import NullTranslations
from importlib.resources import files
from typing import Any, NamedTuple, cast

from nextcloud_mcp_server.declarations.app import App
from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.web.po import read_po

ENGLISH = "en"
_FOLDER = files("nextcloud_mcp_server.web").joinpath("catalogue")
# Longer than any browser sends; parsing more would only take time.
_LONGEST_HEADER = 200


class Text(NamedTuple):
    """An English text; one that counts something has another form in the plural."""

    one: str
    other: str = ""


class Catalogue:
    """The sentences in one language, by their keys."""

    def __init__(self, translations: NullTranslations) -> None:
        self._translations = translations
        self._texts = english()

    def say(self, key: str, count: int = 1) -> str:
        """Return a sentence; `count` chooses the form of one that counts something."""
        text = self._texts[key]
        if text.other:
            return self._translations.npgettext(key, text.one, text.other, count)
        return self._translations.pgettext(key, text.one)


@cache
def languages() -> tuple[str, ...]:
    """Return the languages that there is a catalogue for, English first."""
    names = (entry.name.partition(".") for entry in _FOLDER.iterdir())
    return (ENGLISH, *sorted(language for language, _, form in names if form == "po"))


def language_of(accept_language: str | None) -> str:
    """Choose the language that a browser prefers (RFC 9110 §12.5.4); English if none is available."""
    best, best_weight = ENGLISH, 0.0
    for choice in (accept_language or "")[:_LONGEST_HEADER].split(","):
        tag, _, parameter = choice.strip().partition(";")
        language = tag.strip().lower().partition("-")[0]
        weight = _weight(parameter)
        if language in languages() and weight > best_weight:
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
def catalogue(language: str) -> Catalogue:
    """Read the sentences of one language."""
    if language == ENGLISH:
        return Catalogue(NullTranslations())
    return Catalogue(read_po(_FOLDER.joinpath(f"{language}.po").read_text(encoding="utf-8")))


@cache
def english() -> Mapping[str, Text]:
    """Return every English text by its key."""
    return {**dict(of_pages()), **{key: text for app in APPS for key, text in of_app(app)}}


def of_pages() -> Iterator[tuple[str, Text]]:
    """Yield the texts of the pages, with their keys joined by dots."""
    return _flatten("", tomllib.loads(_FOLDER.joinpath("en.toml").read_text(encoding="utf-8")))


def of_app(app: App) -> Iterator[tuple[str, Text]]:
    """Yield the texts that an app declares."""
    if app.title:
        yield f"app.{app.name}", Text(app.title)
    for scope in app.scopes:
        yield f"scope.{scope.name}", Text(scope.what)
        yield f"scope_detail.{scope.name}", Text(scope.detail)
    for tool, action in app.actions.items():
        yield f"action.{tool}", Text(action)


def _flatten(prefix: str, table: dict[str, Any]) -> Iterator[tuple[str, Text]]:
    for key, value in table.items():
        if isinstance(value, str):
            yield f"{prefix}{key}", Text(value)
        elif value.keys() == {"one", "other"}:
            yield f"{prefix}{key}", Text(**value)
        else:
            yield from _flatten(f"{prefix}{key}.", cast("dict[str, Any]", value))
