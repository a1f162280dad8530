"""Tools for the Notes app."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated

from pydantic import Field

from nextcloud_mcp_server.apps.notes import attachments, results
from nextcloud_mcp_server.apps.notes import edit as note_edit
from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.apps.notes.models import Note
from nextcloud_mcp_server.apps.notes.texts import SearchedNote
from nextcloud_mcp_server.errors import InvalidInput, NotFound
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.aside import aside, aside_for, sorted_aside
from nextcloud_mcp_server.nextcloud.etag import normalise
from nextcloud_mcp_server.nextcloud.ids import Id, number
from nextcloud_mcp_server.nextcloud.ranking import rank_aside, terms_of
from nextcloud_mcp_server.nextcloud.spelling import composed, folded
from nextcloud_mcp_server.nextcloud.top_k import Position
from nextcloud_mcp_server.tools import note_pictures, pagination, time_argument
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.text_page import MAX_TEXT_BYTES, cut_aside
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

notes = Toolset("notes")

_MAX_SEGMENT_BYTES = 250
#: With the title appended, the maximum path of Nextcloud (4000).
_MAX_CATEGORY_BYTES = 3500
_LISTED = 10


@notes.tool("List notes", read_only=True)
@require_provisioning("notes:read")
async def nc_notes_list_notes(
    nc: Account,
    *,
    category: Annotated[
        str | None, Field(description='With those below it; "" = uncategorised.'), Empty("uncategorised")
    ] = None,
    favorite: bool | None = None,
    modified_since: Annotated[str | None, Field(description="ISO 8601.")] = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 50,
    cursor: str | None = None,
) -> results.NoteList:
    """List notes, last changed first, with title, category, etag and date, without text; go on with cursor."""
    since = None if modified_since is None else await time_argument.read(nc, "modified_since", modified_since)
    filters = ("notes", category, favorite, since)
    after = pagination.unseal(cursor, *filters)
    inside = None if category is None else composed(category.strip("/"))
    found = [
        note
        async for note in nc.client(NotesClient).list_all()
        if favorite in (None, note.favorite)
        and (since is None or note.modified >= since.timestamp())
        and (inside is None or _is_in(note.category, inside))
    ]
    # A position in the order, not a row number: notes changed meanwhile move to the front and shift nothing.
    rest = await sorted_aside(found, _position, uid=nc.uid)
    if after is not None:
        rest = rest[bisect_right(rest, after, key=_position) :]
    shown = rest[:limit]
    left = len(rest) - len(shown)
    return results.NoteList(
        notes=[results.info(one) for one in shown],
        cursor=pagination.seal(_position(shown[-1]), *filters) if left else None,
        remaining=left or None,
    )


@notes.tool("Search notes", read_only=True)
@require_provisioning("notes:read")
async def nc_notes_search_notes(
    nc: Account,
    query: Annotated[str, Field(description="Words or a question.")],
    limit: Annotated[int, Field(ge=1, le=50)] = 20,
) -> results.NoteHits:
    """Find notes by title and text, best first, with a snippet: those with all words, or with the rarest."""
    terms = terms_of(query)
    if not terms:
        raise InvalidInput("'query' has no words: send those to look for, or call nc_notes_list_notes.")
    texts = await nc.client(NotesClient).texts()
    listed = by_preference(texts.notes)
    ranking = await rank_aside([one.folded for one in listed], terms, uid=nc.uid, phrase=query)
    hits = [(listed[hit.number], hit.at) for hit in ranking.hits[:limit]]
    return results.NoteHits(
        # Finding the places in texts of megabytes takes a while.
        notes=await aside(partial(results.hits, hits), uid=nc.uid),
        total=len(ranking.hits),
        not_found=ranking.missing or None,
        searched=None if texts.complete else len(texts.notes),
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
) -> results.NoteText:
    """Read a note with its text and etag; long text comes in pages of bytes: go on at next_offset."""
    if (note_id is None) == (title is None):
        raise InvalidInput("Send either 'note_id' or 'title'.")
    wanted = await _by_name(nc, title or "") if note_id is None else note_id
    note = await nc.client(NotesClient).get(wanted)
    page = await cut_aside(note.text, uid=nc.uid, offset=offset, limit=limit)
    return results.text(note, page, offset=offset)


@notes.tool("Create a note")
@require_provisioning("notes:write")
async def nc_notes_create_note(
    nc: Account, *, title: str, content: str = "", category: str = "", favorite: bool = False
) -> results.NoteWritten:
    """Create a note in Markdown; "/" in the category makes folders. An existing title gets a number."""
    title, category = _title(title), _category(category)
    note = await nc.client(NotesClient).create(
        title=title, content=content, category=category, favorite=favorite
    )
    sent = {"title": title, "category": category, "content": content, "favorite": favorite}
    return results.written(note, sent)


@notes.tool("Change a note", destructive=True, repeatable=True)
@require_provisioning("notes:write")
async def nc_notes_update_note(
    nc: Account,
    note_id: Id,
    *,
    etag: Annotated[str | None, Field(description="As read; required with content.")] = None,
    title: str | None = None,
    content: Annotated[
        str | None, Field(description="Replaces the whole text."), Empty("empties the note")
    ] = None,
    category: Annotated[str | None, Empty("uncategorised")] = None,
    favorite: bool | None = None,
) -> results.NoteWritten:
    """Change only the given fields of a note; to change a part of its text use nc_notes_edit_note."""
    if all(value is None for value in (title, content, category, favorite)):
        raise InvalidInput("Nothing to change: send 'title', 'content', 'category' or 'favorite'.")
    if content is not None and etag is None:
        raise InvalidInput("Replacing 'content' needs the 'etag' that nc_notes_get_note answered.")
    title = None if title is None else _title(title)
    category = None if category is None else _category(category)
    # The state before the move; afterwards the files that stayed behind could not be found.
    before = None if category is None else await nc.client(NotesClient).get(note_id)
    note = await nc.client(NotesClient).update(
        note_id, if_match=etag, title=title, content=content, category=category, favorite=favorite
    )
    stayed = await _left_behind(nc, before, note)
    sent = {"title": title, "category": category, "content": content, "favorite": favorite}
    if before is None and etag is not None and normalise(etag) == note.etag:
        # The state before: every change makes another etag.
        before = note
    return results.written(note, sent, before=before, stayed=stayed)


@notes.tool("Append to a note")
@require_provisioning("notes:write")
async def nc_notes_append_content(nc: Account, note_id: Id, content: str) -> results.NoteWritten:
    """Add text on a new line at the end of a note; nothing needs to be read before."""
    if not content:
        raise InvalidInput("'content' is empty: send the text to add.")
    before, sent, note = await nc.client(NotesClient).change(
        note_id, partial(_appended, content), if_match=None
    )
    return results.written(note, {"content": sent}, before=before)


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
) -> results.NoteWritten:
    """Replace one exact passage or one Markdown section of a note; ambiguous ones are refused."""
    if (old_text is None) == (section is None):
        raise InvalidInput("Send either 'old_text' or 'section'.")

    def edit(text: str) -> str:
        if old_text is not None:
            return note_edit.replace(text, old_text, new_text)
        return note_edit.replace_section(text, section or "", new_text)

    before, sent, note = await nc.client(NotesClient).change(note_id, edit, if_match=etag)
    return results.written(note, {"content": sent}, before=before)


@notes.tool("Delete a note", destructive=True)
@require_provisioning("notes:write")
async def nc_notes_delete_note(nc: Account, note_id: Id) -> results.NoteDeleted:
    """Move a note to the trash; the answer says how to bring it back."""
    await nc.client(NotesClient).delete(note_id)
    return results.deleted(note_id)


@notes.tool("Show a note's attachment", read_only=True)
@require_provisioning("notes:read")
async def nc_notes_get_attachment(
    nc: Account, note_id: Id, path: Annotated[str, Field(description="As in the note's text.")]
) -> results.NoteImage | results.NoteFile:
    """Show a picture that a note holds; other files are only described."""
    found, attachment = await attachments.find(nc, note_id, path)
    return results.attached(found, attachment)


def by_preference(notes: Iterable[SearchedNote]) -> list[SearchedNote]:
    """Sort notes of equal score: favourites first, then the last changed."""
    return sorted(notes, key=lambda one: (not one.note.favorite, -one.note.modified, number(one.note.id)))


def _appended(addition: str, text: str) -> str:
    return note_edit.append(text, addition)


async def _by_name(nc: Account, name: str) -> Id:
    """Find the one note with this path, category and title, or title."""
    wanted = folded(name.strip().strip("/"))
    listed = [note async for note in nc.client(NotesClient).list_all()]
    for names in (_paths, _titles):
        # There may be tens of thousands.
        found = await aside_for(listed, partial(_of_name, listed, wanted, names), uid=nc.uid)
        if len(found) > 1:
            ids = ", ".join(f"{note.id} (category “{note.category}”)" for note in found[:_LISTED])
            raise InvalidInput(f"{len(found)} notes have that title. Send the 'note_id' of one: {ids}.")
        if found:
            return found[0].id
    raise NotFound("No note has that title or path. Call nc_notes_search_notes to find it.")


async def _left_behind(nc: Account, before: Note | None, note: Note) -> str | None:
    """Return a sentence about files that stayed in the old folder of a note that was moved."""
    if before is None or not before.path or not note.path or before.category == note.category:
        return None
    return await note_pictures.left_behind(
        nc, note.content or "", before=_folder(before.path), after=_folder(note.path)
    )


def _of_name(listed: Iterable[Note], wanted: str, names: Callable[[Note], tuple[str, ...]]) -> list[Note]:
    return [note for note in listed if wanted in {folded(one) for one in names(note)}]


def _folder(path: str) -> str:
    return path.strip("/").rpartition("/")[0]


def _paths(note: Note) -> tuple[str, ...]:
    path = (note.path or "").strip("/")
    stem, dot, _ = path.rpartition(".")
    return (path, stem if dot else path, f"{note.category}/{note.title}")


def _titles(note: Note) -> tuple[str, ...]:
    return (note.title,)


def _position(note: Note) -> Position:
    return Position.of(-note.modified, note.id)


def _is_in(category: str, wanted: str) -> bool:
    """Tell whether a category is the wanted one or below it; nothing is below the empty one."""
    return category == wanted or (bool(wanted) and category.startswith(f"{wanted}/"))


def _title(text: str) -> str:
    title = composed(text.strip())
    if not title:
        raise InvalidInput("'title' is empty: a note needs one.")
    _refuse_control("title", title)
    return title


def _category(text: str) -> str:
    category = composed(text.strip().strip("/"))
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
