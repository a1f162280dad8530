"""Finds the pictures in the text of a note, also after the note has moved.

The Text app keeps them in the folder `.attachments.ID` next to the note. It moves and deletes that folder along with
a Markdown file (`BeforeNodeRenamedListener`, `BeforeNodeDeletedListener`), but does not restore it from the trash.
Files that the Notes app uploads are next to the note, and stay there when the note moves.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from nextcloud_mcp_server.errors import InvalidInput, NotFound
from nextcloud_mcp_server.nextcloud import dav, file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.sanitize import cited
from nextcloud_mcp_server.nextcloud.trash import TrashEntry

#: The destination of a Markdown link, with or without angle brackets, and what may surround it (CommonMark §6.3).
_LINK: Final = re.compile(r"!?\[[^\]]*\]\(\s*(?P<inside><[^<>\n]*>|(?:\\.|[^\s\\()]|\([^\s()]*\))+)[^)]*\)")
_WHOLE_LINK: Final = re.compile(r"!?\[.*\]\((?P<inside>.*)\)", re.DOTALL)
_TITLE: Final = re.compile(r"""\s+(?:"[^"]*"|'[^']*'|\([^()]*\))\s*\Z""")
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_MARKDOWN: Final = (".md", ".markdown")
#: The maximum number of pictures checked after a note was moved.
_MOST: Final = 10
_NAMED: Final = 5
#: How many bytes of a moved file are read to find its links.
_MOST_BYTES: Final = 262_144


def names(written: str) -> list[str]:
    """List the paths that a link destination may mean, the likeliest first.

    Raises:
      InvalidInput: It leads out of the note's folder.
    """
    whole = _WHOLE_LINK.fullmatch(written.strip())
    text = _TITLE.sub("", (whole["inside"] if whole else written).strip())
    if text.startswith("<") and text.endswith(">"):
        text = text[1:-1]
    plain = _ESCAPED.sub(r"\1", text)
    bare = plain.partition("#")[0].partition("?")[0]
    found = [unquote(plain), plain, unquote(bare)]
    if whole is None and "\\" not in written:
        # What looks like a link title may be part of a name: "Page (2)".
        found.append(written.strip())
    cleaned = [re.sub(r"\A(?:\./)+", "", one) for one in found if one.strip()]
    if not cleaned or any(".." in one.split("/") or "\\" in one or not one.isprintable() for one in cleaned):
        raise InvalidInput("'path' must be the attachment's path as the note's text has it.")
    return list(dict.fromkeys(cleaned))


def linked(text: str) -> Iterator[str]:
    """Yield the files next to a note that its text shows or links to, each once."""
    seen: set[str] = set()
    for found in _LINK.finditer(text):
        inside = found["inside"]
        if re.match(r"<?(?:[a-z][a-z0-9+.-]*:|[/#])", inside, re.IGNORECASE):
            continue
        try:
            path = names(inside)[0]
        except InvalidInput:
            continue
        if path not in seen and not path.lower().endswith(_MARKDOWN):
            seen.add(path)
            yield path


async def left_behind(nc: Account, text: str, *, before: str, after: str) -> str | None:
    """Return a sentence about files in a text that stayed in the old folder of a note; None without any.

    Each is looked up at its new place, and at its old place only when it is not there.
    """
    stayed = [
        path
        for path in list(linked(text))[:_MOST]
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
