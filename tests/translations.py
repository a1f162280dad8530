"""Brings the catalogues of the pages up to date with the English texts: `make translations`.

The English texts are in `web/catalogue/en.toml` and in the declarations of the apps. This writes them to
`web/catalogue/pages.pot`, and to each `.po` file beside it what is new. Where an English text has changed, its
translation stays, marked as fuzzy, until a translator has looked at it. `make translations ADD=it` adds a language.
"""

import argparse
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from string import Formatter

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, write_po

from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.web.messages import Text, of_app, of_pages

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "nextcloud_mcp_server" / "web" / "catalogue"
TEMPLATE = FOLDER / "pages.pot"
_PROJECT = "nextcloud-mcp-server"
# Lines of the header that would change with every run, or name a person.
_CHANGING = (
    b'"POT-Creation-Date',
    b'"PO-Revision-Date',
    b'"Last-Translator',
    b'"Language-Team',
    b'"Generated-By',
    b'"Report-Msgid',
)
_HEADER = """\
# {language} texts of the pages of the Nextcloud MCP server. How to translate: CONTRIBUTING.md.
# msgctxt is the key of a text, msgid the English text. {{names}} in braces and <tags> stay as they are."""


def placeholders(text: str) -> set[str]:
    """Return the names in braces."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def translations(entry: Message) -> list[str]:
    """Return the forms of a translation; there is one if the text does not count."""
    return [entry.string] if isinstance(entry.string, str) else list(entry.string or ("",))


def sources() -> Iterator[tuple[str, str, Text]]:
    """Yield each English text, with the file where it stands and its key."""
    for key, text in of_pages():
        yield "nextcloud_mcp_server/web/catalogue/en.toml", key, text
    for app in APPS:
        for key, text in of_app(app):
            yield f"nextcloud_mcp_server/apps/{app.name}/app.py", key, text


def template() -> Catalog:
    """Return a catalogue of all English texts, without translations."""
    return merged(Catalog(), None)


def merged(former: Catalog, language: str | None) -> Catalog:
    """Return a catalogue of all English texts, with the translations of a former one."""
    catalog = Catalog(locale=language, project=_PROJECT, version="pages", fuzzy=False, charset="utf-8")
    catalog.header_comment = _HEADER.format(
        language=catalog.locale.english_name if catalog.locale else "English"
    )
    known = {message.context: message for message in former if message.id}
    for file, key, text in sources():
        flags = ["python-brace-format"] if placeholders(text.one + text.other) else []
        entry = catalog.add(
            (text.one, text.other) if text.other else text.one,
            context=key,
            locations=[(file, 0)],
            flags=flags,
        )
        if key in known:
            _translate(entry, known[key])
    return catalog


def _translate(entry: Message, former: Message) -> None:
    """Give an entry the translation that its key had."""
    if isinstance(entry.id, str) != isinstance(former.id, str):
        return
    entry.string = former.string
    entry.user_comments = former.user_comments
    if former.fuzzy or former.id != entry.id:
        entry.flags.add("fuzzy")


def written(catalog: Catalog) -> bytes:
    """Return a catalogue as a file: no times and no line numbers, which would change with every run."""
    file = BytesIO()
    write_po(file, catalog, width=0, include_lineno=False)
    kept = [line for line in file.getvalue().splitlines() if not line.startswith(_CHANGING)]
    return b"\n".join(kept).rstrip() + b"\n"


def read(path: Path) -> Catalog:
    """Read the catalogue of a language."""
    with path.open("rb") as file:
        return read_po(file, locale=path.stem, abort_invalid=True)


def update(path: Path) -> bytes:
    """Return the catalogue of a language with all present English texts; a new language has no translations."""
    return written(merged(read(path) if path.exists() else Catalog(), path.stem))


def main() -> None:
    """Write the template and the catalogues of all languages."""
    parser = argparse.ArgumentParser(
        prog="tests.translations", description="Update the catalogues of the pages."
    )
    parser.add_argument("language", nargs="*", help="a language to add, such as it")
    TEMPLATE.write_bytes(written(template()))
    paths = {*FOLDER.glob("*.po"), *(FOLDER / f"{language}.po" for language in parser.parse_args().language)}
    for path in sorted(paths):
        path.write_bytes(update(path))
        left = [entry for entry in read(path) if entry.id and (entry.fuzzy or not all(translations(entry)))]
        sys.stdout.write(f"{path.stem}: {len(left)} texts to translate or to check\n")


if __name__ == "__main__":
    main()
