"""Notes as resources: `nc://notes/12`, also written `nc://notes/12 Shopping list`."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.resources import kind
from nextcloud_mcp_server.resources.kind import About, Contents, Listed, Marks, Page, Reader, Typed

_MARKDOWN = "text/markdown"
_PAGE = 100
_NUMBER = re.compile(r"(\d{1,18})(?: .*)?", re.DOTALL | re.ASCII)


@dataclass(frozen=True, slots=True)
class _Seen:
    etag: str | None
    listing: str
    notes: dict[str, str]


class Notes:
    """The kind of notes, by id. A title after it is for users: completion offers `12 Shopping list`."""

    about = About(
        "notes",
        template="nc://notes/{id}",
        name="note",
        title="Note",
        description="A note in Markdown, by its number.",
        mime_type=_MARKDOWN,
        action="nc_notes_get_note",
        listing="nc_notes_list_notes",
    )

    async def page(self, nc: Account, cursor: str | None) -> Page:
        """List notes by title."""
        found = await nc.client(NotesClient).page(size=_PAGE, cursor=cursor)
        rows = [
            Listed(
                uri=self.about.uri(note.id),
                name=note.title,
                mime_type=_MARKDOWN,
                modified=timestamp.moment(note.modified),
            )
            for note in found.notes
        ]
        return Page(rows, found.cursor)

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:  # noqa: ARG002 - the form of a kind
        """Read the text of a note."""
        number = _number(value)
        if number is None:
            raise kind.no_such(self.about.uri(value))
        note = await nc.client(NotesClient).get(number)
        too_long = "The note is too long for one resource; nc_notes_get_note reads it in parts."
        return kind.whole(note.text, _MARKDOWN, too_large=too_long)

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        """Fetch the list of notes if it has changed: one request for any number of values."""
        seen: _Seen = before.state if before else _Seen(None, "", {})
        if found := await nc.client(NotesClient).changed(seen.etag):
            listed = kind.fingerprint((note.id, note.title) for note in found.notes)
            seen = _Seen(found.etag, listed, {note.id: note.etag for note in found.notes})
        each = {value: seen.notes.get(_number(value) or "", "") for value in values}
        return Marks(each, seen.listing if listing else None, seen)

    async def complete(self, nc: Account, typed: Typed) -> list[str]:
        """Find notes whose id begins with the text, or whose title has all its words."""
        value = typed.value
        words = value.casefold().split()
        return [
            f"{note.id} {note.title}"
            async for note in nc.client(NotesClient).list_all()
            if note.id.startswith(value.strip()) or all(w in note.title.casefold() for w in words)
        ]


def _number(value: str) -> str | None:
    """Return the id of a note, without the title after it."""
    found = _NUMBER.fullmatch(value)
    return str(int(found[1])) if found else None
