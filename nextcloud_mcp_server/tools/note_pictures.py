"""Finds the pictures in the text of a note, also after the note has moved.

The Text app keeps them in the folder `.attachments.ID` next to the note. It moves and deletes that folder along with
a Markdown file (`BeforeNodeRenamedListener`, `BeforeNodeDeletedListener`), but does not restore it from the trash.
Files that the Notes app uploads are next to the note, and stay there when the note moves.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final
from urllib.parse import unquote

from nextcloud_mcp_server.errors import InvalidInput, NotFound
from nextcloud_mcp_server.nextcloud import dav, file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.sanitize import cited
from nextcloud_mcp_server.nextcloud.trash import TrashEntry

#: The destination of a Markdown link, with or without angle brackets (CommonMark §6.3). Possessive: without them an
#: unfinished link costs the square of its length.
_DESTINATION: Final = re.compile(r"\s*+(?P<inside><[^<>\n]*+>|(?:\\.|[^\s\\()]|\([^\s()]*+\))++)")
#: What a title of a link ends with, and begins with.
_QUOTES: Final = {'"': '"', "'": "'", ")": "("}
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_MARKDOWN: Final = (".md", ".markdown")
#: The maximum number of pictures checked after a note was moved.
_MOST: Final = 10
_NAMED: Final = 5
#: How many bytes of a moved file are read to find its links.
_MOST_BYTES: Final = 262_144
#: How many links of a text are looked at.
_MOST_LINKS: Final = 1_000


def names(written: str) -> list[str]:
    """List the paths that a link destination may mean, the likeliest first.

    Raises:
      InvalidInput: It leads out of the note's folder.
    """
    inside = _inside(written.strip())
    text = _without_title((written if inside is None else inside).strip())
    if text.startswith("<") and text.endswith(">"):
        text = text[1:-1]
    plain = _ESCAPED.sub(r"\1", text)
    bare = plain.partition("#")[0].partition("?")[0]
    found = [unquote(plain), plain, unquote(bare)]
    if inside is None and "\\" not in written:
        # What looks like a link title may be part of a name: "Page (2)".
        found.append(written.strip())
    cleaned = [re.sub(r"\A(?:\./)+", "", one) for one in found if one.strip()]
    if not cleaned or any(".." in one.split("/") or "\\" in one or not one.isprintable() for one in cleaned):
        raise InvalidInput("'path' must be the attachment's path as the note's text has it.")
    return list(dict.fromkeys(cleaned))


def _inside(written: str) -> str | None:
    """Return what is in the parentheses of a whole link; None for anything else."""
    end = written.rfind("](") if written.startswith(("[", "![")) and written.endswith(")") else -1
    return None if end < 0 else written[end + 2 : -1]


def _without_title(text: str) -> str:
    """Remove the title behind the destination of a link."""
    end = len(text) - 1
    mark = _QUOTES.get(text[-1:])
    start = -1 if mark is None else text.rfind(mark, 0, end)
    is_title = start > 0 and text[start - 1].isspace() and not (mark == "(" and ")" in text[start:end])
    return text[:start].rstrip() if is_title else text


def linked(text: str) -> Iterator[str]:
    """Yield the files next to a note that the first links of its text show or link to, each once."""
    seen: set[str] = set()
    for inside in islice(_destinations(text), _MOST_LINKS):
        if re.match(r"<?(?:[a-z][a-z0-9+.-]*+:|[/#])", inside, re.IGNORECASE):
            continue
        try:
            path = names(inside)[0]
        except InvalidInput:
            continue
        if path not in seen and not path.lower().endswith(_MARKDOWN):
            seen.add(path)
            yield path


def _destinations(text: str) -> Iterator[str]:
    """Yield the destinations of all links, in one pass from one `](` to the next."""
    start, last = 0, text.rfind(")")
    while (end := text.find("](", start)) >= 0:
        # A label has no closing bracket inside.
        has_label = text.find("[", text.rfind("]", start, end) + 1 or start, end) >= 0
        found = _DESTINATION.match(text, end + 2) if has_label else None
        if found is not None and found.end() <= last:
            yield found["inside"]
            start = text.find(")", found.end()) + 1
        else:
            start = end + 1


async def left_behind(nc: Account, text: str, *, before: str, after: str) -> str | None:
    """Return a sentence about files in a text that stayed in the old folder of a note; None without any.

    Each is looked up at its new place, and at its old place only when it is not there.
    """
    stayed = [
        path
        for path in islice(linked(text[:_MOST_BYTES]), _MOST)
        if not await _is_there(nc, f"{after}/{path}") and await _is_there(nc, f"{before}/{path}")
    ]
    if not stayed:
        return None
    what = ", ".join(cited(path) for path in stayed[:_NAMED])
    return (
        f"The text names files that Nextcloud left in {cited(before or '/')}, so they no longer show: {what}. "
        f"nc_files_move_item moves them to {cited(after or '/')} too."
    )


async def after_move(nc: Account, source: str, destination: str) -> str | None:
    """Return a sentence about files that a moved Markdown file left behind; None without any.

    Also None where that cannot be determined.
    """
    before, after = (path.strip("/").rpartition("/")[0] for path in (source, destination))
    if not destination.lower().endswith(_MARKDOWN) or dav.split(before) == dav.split(after):
        return None
    try:
        text = (await nc.files.read(destination, length=_MOST_BYTES)).data.decode(errors="replace")
    except (InvalidInput, *file_errors.NOT_SEEN):
        return None
    return await left_behind(nc, text, before=before, after=after)


async def _is_there(nc: Account, path: str) -> bool:
    """Tell whether a file exists; True on an error, so that no file is reported as missing by mistake."""
    try:
        await nc.files.info(path)
    except NotFound:
        return False
    except (InvalidInput, *file_errors.NOT_SEEN):
        return True
    return True


async def bring_back(nc: Account, note: TrashEntry) -> str | None:
    """Restore the pictures of a note that was just restored, or return where they are."""
    folder, _, name = note.original_path.strip("/").rpartition("/")
    if note.is_folder or not name.lower().endswith(_MARKDOWN) or not note.file_id:
        return None
    where = f"{folder}/.attachments.{note.file_id.lstrip('0')}".strip("/")
    pictures = await nc.trash.find_deleted(where)
    if pictures is None:
        return None
    try:
        await nc.trash.restore(pictures.trash_id)
    except (InvalidInput, *file_errors.NOT_SEEN):
        return f"Its pictures are still in the trash: call nc_files_restore_trash with {cited(pictures.trash_id)}."
    return f"Its pictures are back too, in {cited(where)}."
