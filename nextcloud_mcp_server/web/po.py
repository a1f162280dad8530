"""Reads a catalogue of gettext in the form that translators edit (`.po`), without a step that compiles it.

A `.po` file says in its entries what a `.mo` file has in its tables; here the one becomes the other in memory, for the
standard library's `gettext`. Both forms: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html and
MO-Files.html.
"""

import re
import struct
from collections.abc import Iterator
from gettext import GNUTranslations
from io import BytesIO
from typing import Final

_MAGIC: Final = 0x950412DE
_HEADER_SIZE: Final = 28
_CONTEXT_END: Final = "\x04"
_NEXT_FORM: Final = "\0"

# A keyword with its string, or a further part of the string before it.
_LINE: Final = re.compile(
    r'(?:(?P<keyword>msgctxt|msgid|msgid_plural|msgstr)(?:\[\d+\])?\s+)?"(?P<text>.*)"\s*$'
)
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}


def read_po(text: str) -> GNUTranslations:
    """Read a catalogue; what is untranslated or marked as fuzzy is left out, and so stays in English."""
    return GNUTranslations(BytesIO(_compiled(dict(_entries(text)))))


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield each entry as in a `.mo` file: context and text, with the plural after it, and its translations."""
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        if any(line.startswith("#,") and "fuzzy" in line for line in lines):
            continue
        fields = _fields(lines)
        if not fields.get("msgstr") or not all(fields["msgstr"]):
            continue
        source = _NEXT_FORM.join(fields["msgid"] + fields.get("msgid_plural", []))
        context = "".join(f"{each}{_CONTEXT_END}" for each in fields.get("msgctxt", []))
        yield context + source, _NEXT_FORM.join(fields["msgstr"])


def _fields(lines: list[str]) -> dict[str, list[str]]:
    """Return the strings of an entry by keyword; `msgstr` has one for each form of the plural."""
    fields: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        # Comments begin with #, and so do entries of former texts.
        found = _LINE.match(line)
        if found is None:
            continue
        if found["keyword"]:
            current = fields.setdefault(found["keyword"], [])
            current.append("")
        current[-1] += _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), found["text"])
    return fields


def _compiled(entries: dict[str, str]) -> bytes:
    """Write the tables of a `.mo` file: lengths and offsets of the texts, then of the translations, then both."""
    pairs = sorted((key.encode(), value.encode()) for key, value in entries.items())
    strings = [key for key, _ in pairs] + [value for _, value in pairs]
    table_size = 8 * len(pairs)
    offset = _HEADER_SIZE + 2 * table_size
    tables, data = bytearray(), bytearray()
    for string in strings:
        tables += struct.pack("<II", len(string), offset + len(data))
        data += string + b"\0"
    header = struct.pack(
        "<IIIIIII", _MAGIC, 0, len(pairs), _HEADER_SIZE, _HEADER_SIZE + table_size, 0, offset
    )
    return header + bytes(tables + data)
