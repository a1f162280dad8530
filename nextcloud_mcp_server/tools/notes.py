"""Tools for the Notes app."""

from functools import partial
from typing import Annotated

from pydantic import Field

from nextcloud_mcp_server.errors import InvalidInput, NotFound
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.ids import Id, number
from nextcloud_mcp_server.nextcloud.notes import Note
from nextcloud_mcp_server.tools import moment, note_edit, note_result
from nextcloud_mcp_server.tools.note_page import MAX_TEXT_BYTES, Cursor, cut, folded, snippet
from nextcloud_mcp_server.tools.note_result import (
    NoteDeleted,
    NoteFile,
    NoteHits,
    NoteImage,
    NoteList,
    NoteText,
    NoteWritten,
)
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

notes = Toolset("notes")

_FILTERED_CHUNK = 1000
_SEARCHED_NOTES = 5000
_MAX_SEGMENT_BYTES = 250
# With the title behind it, what a path may have at Nextcloud (4000).
_MAX_CATEGORY_BYTES = 3500
_LISTED = 10


@notes.tool("List notes", read_only=True)
@require_provisioning("notes:read")
async def nc_notes_list_notes(
    nc: Account,
    *,
    category: Annotated[str | None, Field(description='"" = uncategorised.')] = None,
    favorite: bool | None = None,
    modified_since: Annotated[str | None, Field(description="ISO 8601.")] = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 50,
    cursor: str | None = None,
) -> NoteList:
    """List notes with title, category, etag and date, without their text; go on with cursor."""
    since = None if modified_since is None else await moment.read(nc, "modified_since", modified_since)
    filters = (category, favorite, since)
    here = Cursor() if cursor is None else Cursor.open(cursor, *filters)
    filtered = favorite is not None or since is not None
    page = await nc.notes.page(
        size=_FILTERED_CHUNK if filtered else limit, cursor=here.chunk, category=category
    )
    hits = [
        note
        for note in page.notes
        if favorite in (None, note.favorite) and (since is None or note.modified >= since.timestamp())
    ]
    if filtered:
        hits.sort(key=lambda note: (-note.modified, number(note.id)))
    shown = hits[here.skip : here.skip + limit]
    following = _following(here, hits=len(hits), limit=limit, next_chunk=page.cursor)
    return NoteList(
        notes=[note_result.info(note) for note in shown],
        cursor=None if following is None else following.seal(*filters),
        remaining=page.pending or None,
    )


@notes.tool("Search notes", read_only=True)
@require_provisioning("notes:read")
async def nc_notes_search_notes(
    nc: Account, query: str, limit: Annotated[int, Field(ge=1, le=50)] = 20
) -> NoteHits:
    """Find notes whose title or text holds all words of the query; best first, with a snippet."""
    words = folded(query).split()
    if not words:
        raise InvalidInput("'query' is empty: send the words to look for, or call nc_notes_list_notes.")
    found: list[tuple[int, Note]] = []
    searched = 0
    complete = True
    async for note in nc.notes.read_all():
        if searched == _SEARCHED_NOTES:
            complete = False
            break
        searched += 1
        score = _score(note, words)
        if score:
            found.append((score, note))
    found.sort(key=lambda hit: (-hit[0], -hit[1].modified, number(hit[1].id)))
    return NoteHits(
        notes=[note_result.hit(note, snippet(_readable(note), words)) for _, note in found[:limit]],
        total=len(found),
        searched=None if complete else searched,
    )


@notes.tool("Read a note", read_only=True)
@require_provisioning("notes:read")
async def nc_notes_get_note(
    nc: Account,
    *,
    note_id: Id | None = None,
    title: Annotated[str | None, Field(description="Title or path, instead of note_id.")] = None,
    offset: Annotated[int, Field(ge=0)] = 0,
    limit: Annotated[int, Field(ge=1, le=MAX_TEXT_BYTES)] = MAX_TEXT_BYTES,
) -> NoteText:
    """Read a note with its text and etag; long text comes in pages of bytes: go on at next_offset."""
    if (note_id is None) == (title is None):
        raise InvalidInput("Send either 'note_id' or 'title'.")
    note = await nc.notes.get(await _by_name(nc, title or "") if note_id is None else note_id)
    return note_result.text(note, cut(note.text, offset=offset, limit=limit), offset=offset)


@notes.tool("Create a note")
@require_provisioning("notes:write")
async def nc_notes_create_note(
    nc: Account, *, title: str, content: str = "", category: str = "", favorite: bool = False
) -> NoteWritten:
    """Create a note in Markdown; "/" in the category makes folders. An existing title gets a number."""
    title, category = _title(title), _category(category)
    note = await nc.notes.create(title=title, content=content, category=category, favorite=favorite)
    return note_result.written(note, title=title, category=category)


@notes.tool("Change a note", destructive=True, idempotent=True)
@require_provisioning("notes:write")
async def nc_notes_update_note(
    nc: Account,
    note_id: Id,
    *,
    etag: Annotated[str | None, Field(description="As read; required with content.")] = None,
    title: str | None = None,
    content: Annotated[str | None, Field(description="Replaces the whole text.")] = None,
    category: str | None = None,
    favorite: bool | None = None,
) -> NoteWritten:
    """Change only the given fields of a note; to change a part of its text use nc_notes_edit_note."""
    if all(value is None for value in (title, content, category, favorite)):
        raise InvalidInput("Nothing to change: send 'title', 'content', 'category' or 'favorite'.")
    if content is not None and etag is None:
        raise InvalidInput("Replacing 'content' needs the 'etag' that nc_notes_get_note answered.")
    title = None if title is None else _title(title)
    category = None if category is None else _category(category)
    note = await nc.notes.update(
        note_id, if_match=etag, title=title, content=content, category=category, favorite=favorite
    )
    return note_result.written(note, title=title, category=category)


@notes.tool("Append to a note")
@require_provisioning("notes:write")
async def nc_notes_append_content(nc: Account, note_id: Id, content: str) -> NoteWritten:
    """Add text on a new line at the end of a note; nothing needs to be read before."""
    if not content:
        raise InvalidInput("'content' is empty: send the text to add.")
    _, note = await nc.notes.change(note_id, partial(_appended, content), if_match=None)
    return note_result.written(note)


@notes.tool("Edit a note", destructive=True)
@require_provisioning("notes:write")
async def nc_notes_edit_note(
    nc: Account,
    note_id: Id,
    *,
    new_text: str,
    old_text: Annotated[str | None, Field(description="Exact passage, there once.")] = None,
    section: Annotated[str | None, Field(description="Or a heading: the text below it is replaced.")] = None,
    etag: str | None = None,
) -> NoteWritten:
    """Replace one exact passage or one Markdown section of a note; ambiguous ones are refused."""
    if (old_text is None) == (section is None):
        raise InvalidInput("Send either 'old_text' or 'section'.")

    def edit(text: str) -> str:
        if old_text is not None:
            return note_edit.replace(text, old_text, new_text)
        return note_edit.replace_section(text, section or "", new_text)

    _, note = await nc.notes.change(note_id, edit, if_match=etag)
    return note_result.written(note)


@notes.tool("Delete a note", destructive=True)
@require_provisioning("notes:write")
async def nc_notes_delete_note(nc: Account, note_id: Id) -> NoteDeleted:
    """Move a note to the trash; the answer says how to bring it back."""
    await nc.notes.delete(note_id)
    return note_result.deleted(note_id)


@notes.tool("Show a note's attachment", read_only=True)
@require_provisioning("notes:read")
async def nc_notes_get_attachment(
    nc: Account, note_id: Id, path: Annotated[str, Field(description="As in the note's text.")]
) -> NoteImage | NoteFile:
    """Show a picture that a note holds; other files are only described."""
    if {".."} & set(path.split("/")) or "\\" in path or not path.isprintable() or not path.strip():
        raise InvalidInput("'path' must be the attachment's path as the note's text has it.")
    return note_result.attached(path, await nc.notes.attachment(note_id, path))


def _appended(addition: str, text: str) -> str:
    return note_edit.append(text, addition)


async def _by_name(nc: Account, name: str) -> Id:
    """Find the one note of this path, category and title, or title."""
    wanted = folded(name.strip().strip("/"))
    listed = [note async for note in nc.notes.list_all()]
    for names in (_paths, _titles):
        found = [note for note in listed if wanted in {folded(one) for one in names(note)}]
        if len(found) > 1:
            ids = ", ".join(f"{note.id} (category “{note.category}”)" for note in found[:_LISTED])
            raise InvalidInput(f"{len(found)} notes have that title. Send the 'note_id' of one: {ids}.")
        if found:
            return found[0].id
    raise NotFound("No note has that title or path. Call nc_notes_search_notes to find it.")


def _paths(note: Note) -> tuple[str, ...]:
    path = (note.path or "").strip("/")
    stem, dot, _ = path.rpartition(".")
    return (path, stem if dot else path, f"{note.category}/{note.title}")


def _titles(note: Note) -> tuple[str, ...]:
    return (note.title,)


def _readable(note: Note) -> str:
    """Take the text, unless Nextcloud put an error message in its place."""
    return "" if note.error else note.content or ""


def _score(note: Note, words: list[str]) -> int:
    """Rank a note; 0 when a word is missing. A word in the title counts more than any in the text."""
    title, body = folded(note.title), folded(_readable(note))
    if not all(word in title or word in body for word in words):
        return 0
    phrase = " ".join(words)
    score = 100 * (phrase == title) + 100 * (phrase in title) + 40 * (phrase in body)
    score += sum(20 * (word in title) + min(body.count(word), 5) for word in words)
    return score + 5 * note.favorite


def _following(here: Cursor, *, hits: int, limit: int, next_chunk: str | None) -> Cursor | None:
    if hits > here.skip + limit:
        return Cursor(chunk=here.chunk, skip=here.skip + limit)
    return None if next_chunk is None else Cursor(chunk=next_chunk)


def _title(text: str) -> str:
    title = text.strip()
    if not title:
        raise InvalidInput("'title' is empty: a note needs one.")
    _refuse_control("title", title)
    return title


def _category(text: str) -> str:
    category = text.strip().strip("/")
    segments = category.split("/")
    if "\\" in category or {".", ".."} & set(segments):
        raise InvalidInput("'category' must be folder names with / between them, without “..” or backslash.")
    if any(len(segment.encode()) > _MAX_SEGMENT_BYTES for segment in segments):
        raise InvalidInput(f"'category' has a folder name longer than {_MAX_SEGMENT_BYTES} bytes.")
    if len(category.encode()) > _MAX_CATEGORY_BYTES:
        raise InvalidInput(f"'category' is longer than {_MAX_CATEGORY_BYTES} bytes: shorten it.")
    _refuse_control("category", category)
    return category


def _refuse_control(name: str, text: str) -> None:
    if any(character < " " or character == "\x7f" for character in text):
        raise InvalidInput(f"'{name}' holds a line break or control character; send one line.")
