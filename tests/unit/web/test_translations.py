"""The catalogues of the pages are complete, and fit the English texts."""

import re
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message

from nextcloud_mcp_server.web.messages import catalogue, english, languages
from tests.translations import FOLDER, TEMPLATE, placeholders, read, template, translations, update, written

TRANSLATED = languages()[1:]
#: So many words in a row are the same in two languages only if nobody has translated them.
SAME_WORDS = 3


def entries(language: str) -> list[Message]:
    return [entry for entry in read(FOLDER / f"{language}.po") if entry.id]


def texts(entry: Message) -> list[str]:
    return [entry.id] if isinstance(entry.id, str) else list(entry.id)


def test_the_template_has_the_english_texts_as_they_are() -> None:
    assert TEMPLATE.read_bytes() == written(template()), "make translations"


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_catalogue_has_the_english_texts_as_they_are(language: str) -> None:
    path = FOLDER / f"{language}.po"

    assert path.read_bytes() == update(path), "make translations"


@pytest.mark.parametrize("language", TRANSLATED)
def test_no_text_is_missing_or_left_to_check(language: str) -> None:
    read_again = read(FOLDER / f"{language}.po")

    assert [entry.context for entry in entries(language) if not all(translations(entry))] == []
    assert [entry.context for entry in entries(language) if entry.fuzzy] == []
    assert [entry.context for entry in read_again.obsolete.values()] == []
    assert {entry.context for entry in entries(language)} == english().keys()


@pytest.mark.parametrize("language", TRANSLATED)
def test_each_form_of_a_translation_has_the_names_in_braces_of_the_english_text(language: str) -> None:
    wrong = {
        entry.context: text
        for entry in entries(language)
        for text in translations(entry)
        if placeholders(text) != set[str]().union(*map(placeholders, texts(entry)))
    }

    assert wrong == {}


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_translation_has_the_markup_of_the_english_text_and_no_other(language: str) -> None:
    def tags(text: str) -> list[str]:
        return sorted(re.findall(r"<[^>]*>|&\w*;?", text))

    wrong = {
        entry.context: text
        for entry in entries(language)
        for text in translations(entry)
        if tags(text) != tags(texts(entry)[0])
    }

    assert wrong == {}


@pytest.mark.parametrize("language", TRANSLATED)
def test_no_translation_is_the_english_text(language: str) -> None:
    same = [
        entry.context
        for entry in entries(language)
        if translations(entry)[0] == texts(entry)[0] and len(texts(entry)[0].split()) >= SAME_WORDS
    ]

    assert same == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_page_shows_what_babel_reads(language: str) -> None:
    """Babel has a reader of its own for catalogues."""
    say = catalogue(language).say

    for entry in entries(language):
        assert entry.context
        shown = {say(entry.context, count) for count in (*range(200), 1_000_000)}
        assert shown == set(translations(entry)), entry.context


@pytest.mark.parametrize("language", TRANSLATED)
def test_the_ends_of_a_translation_are_those_of_the_english_text(language: str) -> None:
    """A colon, an ellipsis or a missing full stop means the same in each language."""

    def end(text: str) -> str:
        return re.sub(r"<[^>]*>", "", text)[-1:] if text[-1:] in ":…?" else ""

    wrong = [
        entry.context
        for entry in entries(language)
        for text in translations(entry)
        if end(text) != end(texts(entry)[0])
    ]

    assert wrong == []


def test_a_changed_english_text_keeps_its_translation_to_be_checked(tmp_path: Path) -> None:
    path = tmp_path / "de.po"
    changed = written(read(FOLDER / "de.po")).decode().replace('msgid "Try again"', 'msgid "Once more"')
    path.write_text(changed, encoding="utf-8")

    path.write_bytes(update(path))
    path.write_bytes(update(path))

    (entry,) = [entry for entry in read(path) if entry.context == "page.try_again"]
    assert (entry.id, entry.string, entry.fuzzy) == ("Try again", "Noch einmal versuchen", True)


def test_a_new_language_begins_without_translations(tmp_path: Path) -> None:
    path = tmp_path / "pl.po"

    path.write_bytes(update(path))

    found: Catalog = read(path)
    assert (found.locale_identifier, found.num_plurals) == ("pl", 3)
    assert {entry.context for entry in found if entry.id} == english().keys()
    assert not any(any(translations(entry)) for entry in found if entry.id)
