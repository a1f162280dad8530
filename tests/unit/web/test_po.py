from gettext import GNUTranslations
from io import BytesIO

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import write_po
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.web.po import read_po

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
# No surrogates, which UTF-8 has not; a .mo file separates its strings by U+0000 and contexts by U+0004.
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters='\n\t\\"'), min_size=1)


def test_a_text_is_found_with_its_context_alone() -> None:
    read = read_po(HEADER + 'msgctxt "a"\nmsgid "Open"\nmsgstr "Öffnen"\n')

    assert read.pgettext("a", "Open") == "Öffnen"
    assert read.pgettext("b", "Open") == "Open"
    assert read.gettext("Open") == "Open"


def test_a_text_may_stand_in_many_parts_with_escapes() -> None:
    read = read_po(HEADER + 'msgid ""\n"One\\n"\n"\\"two\\""\nmsgstr ""\n"Eins\\n"\n"\\"zwei\\"\\\\n"\n')

    assert read.gettext('One\n"two"') == 'Eins\n"zwei"\\n'


@pytest.mark.parametrize(
    "entry",
    [
        'msgid "Open"\nmsgstr ""\n',
        '#, fuzzy\nmsgid "Open"\nmsgstr "Öffnen"\n',
        '#, python-brace-format, fuzzy\n#| msgid "Opened"\nmsgid "Open"\nmsgstr "Geöffnet"\n',
        '#~ msgid "Open"\n#~ msgstr "Öffnen"\n',
        "# a comment alone\n",
    ],
)
def test_what_is_not_translated_or_not_checked_stays_in_english(entry: str) -> None:
    assert read_po(HEADER + entry).gettext("Open") == "Open"


def test_a_language_has_as_many_forms_as_its_header_says() -> None:
    header = (
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n"Plural-Forms: nplurals=3; plural='
        '(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);\\n"\n\n'
    )
    read = read_po(
        header
        + 'msgctxt "a"\nmsgid "{count} day"\nmsgid_plural "{count} days"\n'
        + 'msgstr[0] "{count} dzień"\nmsgstr[1] "{count} dni"\nmsgstr[2] "{count} dni!"\n'
    )

    said = [read.npgettext("a", "{count} day", "{count} days", count) for count in (1, 2, 5, 22)]

    assert said == ["{count} dzień", "{count} dni", "{count} dni!", "{count} dni"]


def test_a_plural_with_a_missing_form_stays_in_english() -> None:
    read = read_po(HEADER + 'msgid "day"\nmsgid_plural "days"\nmsgstr[0] "Tag"\nmsgstr[1] ""\n')

    assert read.ngettext("day", "days", 2) == "days"


@given(texts=st.dictionaries(st.tuples(st.none() | TEXTS, TEXTS), TEXTS, max_size=5))
def test_a_catalogue_says_what_babel_compiles_it_to(texts: dict[tuple[str | None, str], str]) -> None:
    catalog = Catalog(locale="de", fuzzy=False)
    for (context, text), translation in texts.items():
        catalog.add(text, translation, context=context)
    source, compiled = BytesIO(), BytesIO()
    write_po(source, catalog)
    write_mo(compiled, catalog)
    compiled.seek(0)

    read, expected = read_po(source.getvalue().decode()), GNUTranslations(compiled)

    for context, text in texts:
        if context is None:
            assert read.gettext(text) == expected.gettext(text)
        else:
            assert read.pgettext(context, text) == expected.pgettext(context, text)
