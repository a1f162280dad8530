"""Edits the text of a note: append, replace a passage, replace a Markdown section.

The note's line ends are kept and used for new text. A passage or heading that does not occur exactly once is refused:
guessing could change text that the client has not read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import line_ends, passage

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
#: A line that may be a heading or a fence: a note of megabytes may have millions of others.
_MARKED = re.compile(r"^\ufeff* {0,3}(?:#|```|~~~)[^\n]*", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(`{3,}+|~{3,}+)(.*)")
_LISTED_HEADINGS = 20


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    title: str
    start: int
    body: int


def append(text: str, addition: str) -> str:
    """Append text on a line of its own."""
    eol = _eol(text)
    if text and not text.endswith("\n"):
        text += eol
    return text + line_ends.written(addition, eol)


def replace(text: str, old: str, new: str) -> str:
    """Replace the single occurrence of `old`.

    Raises:
      InvalidInput: There is none or more than one, or nothing would change.
    """
    eol = _eol(text)
    if old not in text:
        # Models write \n, whatever line ends they have read.
        old = line_ends.written(old, eol)
    new = line_ends.written(new, eol)
    at = text.find(old)
    if not old or at < 0:
        raise InvalidInput(
            "The note does not hold that text exactly; it is compared character by character. Read the note "
            "again and copy the passage from it."
        )
    if (found := passage.times(text, old)) > 1:
        raise InvalidInput(
            f"The note holds that text {passage.in_words(found)}. Send more of what stands around "
            "the one you mean."
        )
    if old == new:
        raise InvalidInput("The new text equals the old one, so there is nothing to change.")
    return text[:at] + new + text[at + len(old) :]


def replace_section(text: str, heading: str, new: str) -> str:
    """Replace the text below a Markdown heading, up to the next heading of its level or higher.

    The heading stays, and so do the blank lines around the section.

    Raises:
      InvalidInput: There is not exactly one such heading.
    """
    headings = list(_headings(text))
    level, title = _parsed(heading.strip()) or (None, heading.strip())
    found = [one for one in headings if one.title == title and level in (None, one.level)]
    if not found:
        names = ", ".join(f"“{'#' * one.level} {one.title}”" for one in headings[:_LISTED_HEADINGS])
        raise InvalidInput(f"The note has no such heading. It has: {names or 'none at all'}.")
    if len(found) > 1:
        raise InvalidInput(
            f"The note has {len(found)} such headings. Replace the passage itself instead: 'old_text'."
        )
    section = found[0]
    ends = [one.start for one in headings if one.start > section.start and one.level <= section.level]
    end = min(ends, default=len(text))
    return text[: section.body] + _section(text, section, end, new) + text[end:]


def _section(text: str, section: _Heading, end: int, new: str) -> str:
    eol = _eol(text)
    own_line = text[section.start : section.body]
    new = line_ends.written(new, eol).strip("\r\n")
    # Models often repeat the heading in the new text.
    first, _, rest = new.partition("\n")
    if first.strip() == own_line.strip().lstrip("\ufeff"):
        new = rest.strip("\r\n")
    old = text[section.body : end]
    blank_before = "" if not old.strip() else old[: len(old) - len(old.lstrip("\r\n"))]
    blank_after = old[len(old.rstrip("\r\n")) :]
    if old.strip():
        # The first line end ends the last line of text.
        blank_after = blank_after.partition("\n")[2]
    opened = "" if own_line.endswith("\n") else eol
    ended = eol if new and (end < len(text) or text.endswith("\n")) else ""
    return opened + blank_before + new + ended + blank_after


def _headings(text: str) -> Iterator[_Heading]:
    fence = ""
    for line in _MARKED.finditer(text):
        bare = line[0].rstrip("\r").lstrip("\ufeff")
        mark = _FENCE.fullmatch(bare)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark:
            fence = mark[1]
        elif heading := _parsed(bare):
            yield _Heading(heading[0], heading[1], start=line.start(), body=min(line.end() + 1, len(text)))


def _parsed(line: str) -> tuple[int, str] | None:
    """Return the level and the title of an ATX heading (CommonMark 0.31, 4.2); None for another line.

    Not with one pattern: on a line of blanks and `#`, patterns for both ends took hours.
    """
    mark = _HEADING.match(line)
    if mark is None:
        return None
    title = line[mark.end() :].strip()
    # Closing `#` belong to the title unless a blank stands before them.
    bare = title.rstrip("#")
    return len(mark[1]), title if bare and bare[-1] not in " \t" else bare.strip()


def _eol(text: str) -> str:
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
