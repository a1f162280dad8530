"""The two tools, over notes and files, that ChatGPT's research mode requires by name and shape.

`search` takes a query and answers `results` with `id`, `title` and `url`; `fetch` takes an id and answers `id`,
`title`, `text`, `url` and `metadata`; both as JSON in one text. An id is bound to the account, and its content is
fetched with that account's own access.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final, TypedDict, cast
from urllib.parse import quote, urlencode

from pydantic import Field

from nextcloud_mcp_server.apps.files.read import nc_files_read_file
from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.apps.notes.tools import by_preference
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud import file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.file_query import Query
from nextcloud_mcp_server.nextcloud.ids import Id, TextId
from nextcloud_mcp_server.nextcloud.ranking import Document, Term, fold, rank_aside, terms_of
from nextcloud_mcp_server.nextcloud.sanitize import quoted, sent_bytes
from nextcloud_mcp_server.nextcloud.top_k import Position
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.file_results import FileFacts, FileImage, FileText
from nextcloud_mcp_server.tools.progress import Progress
from nextcloud_mcp_server.tools.result import LongText, Result
from nextcloud_mcp_server.tools.text_page import TextPage, cut
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

#: The maximum number of notes, of file names and of file contents, each.
_MOST: Final = 10
#: The number of file names ranked; the newest are fetched.
_NAMES: Final = 100
#: More words do not improve the search by name.
_WORDS: Final = 8
#: Results that reach this share of the best score are returned as well.
_SHARE: Final = 0.3
#: A text is sent twice as JSON, where it may be several times as long, and a result may have 80,000 bytes.
_PAGE_BYTES: Final = 32_000
_MAX_JSON_BYTES: Final = 36_000

_WORD: Final = re.compile(r"[^\W_]+(?:[._'&+%-]+[^\W_]+)*%?")
_WHAT: Final = re.compile(r"(?P<kind>note(?=:\d{1,18}\Z)|file):(?P<which>.+)", re.DOTALL)

research = Toolset("research")


class Source(Result):
    """Something found."""

    id: str
    title: str
    url: str


class Sources(Result):
    """What was found, the best first."""

    results: list[Source]


class Fetched(Result):
    """A note or file; what follows of a long one has the id `next_id` in `metadata`."""

    id: str
    title: str
    text: LongText
    url: str
    metadata: dict[str, str]


@research.tool("Search notes and files", read_only=True, long=True)
@require_provisioning("notes:read", "files:read")
async def search(nc: Account, query: Annotated[str, Field(min_length=1, max_length=500)]) -> Sources:
    """Find notes by their words, and files by name and, where Nextcloud indexes it, by content."""
    return await _searched(nc, query)


async def _searched(nc: Account, query: str) -> Sources:
    terms = terms_of(query)
    apps = (await nc.capabilities.get()).apps
    notes = by_preference((await nc.client(NotesClient).texts()).notes) if "notes" in apps and terms else []
    files = await _named(nc, _telling(query, terms))
    # One ranking for both, so that a file whose name has all words comes before a note with one of them.
    documents = [*(one.folded for one in notes), *map(_name, files)]
    found: dict[bool, list[Source]] = {True: [], False: []}
    ranked: list[Source] = []
    ranking = await rank_aside(documents, terms, uid=nc.uid, phrase=query, enough=_SHARE)
    for hit in ranking.hits:
        is_note = hit.number < len(notes)
        if len(found[is_note]) < _MOST:
            source = (
                _note(nc, notes[hit.number].note.id, notes[hit.number].note.title)
                if is_note
                else _file_source(nc, files[hit.number - len(notes)])
            )
            found[is_note].append(source)
            ranked.append(source)
    if "fulltextsearch" in apps and terms:
        ranked += [_file_source(nc, entry) for entry in await _written(nc, query)]
    return Sources(results=pagination.fit(list({source.id: source for source in ranked}.values())))


async def _named(nc: Account, words: tuple[str, ...]) -> list[Entry]:
    """Find files with one of the words in their names, newest first."""
    if not words:
        return []
    named, _ = await nc.file_search.find(Query(kind="file", any_word=words), limit=_NAMES)
    return [each.entry for each in named]


async def _written(nc: Account, query: str) -> list[Entry]:
    """Find files by their content; an error of the index does not hide the other results."""
    try:
        written, _ = await nc.file_search.find(Query(kind="file", content=query), limit=_MOST)
    except file_errors.NOT_SEEN:
        return []
    return [each.entry for each in written]


@research.tool("Fetch a note or file", read_only=True, long=True)
@require_provisioning("notes:read", "files:read")
async def fetch(
    nc: Account,
    id: TextId,  # noqa: A002 - research clients send it by this name
    *,
    progress: Progress,
    documents: Documents,
) -> Fetched:
    """Read what search found, by its id; of a long text go on with next_id of the metadata."""
    here = _opened(nc, id)
    if here["kind"] == "note":
        return await _fetch_note(nc, id, here)

    async def read(limit: int) -> Fetched:
        path, offset = here["which"], here["offset"]
        body = nc_files_read_file.body(
            nc, path, offset=offset, limit=limit, raw=False, progress=progress, documents=documents
        )
        return await shown(cast("FileText | FileImage | FileFacts", await body), limit)

    async def shown(found: FileText | FileImage | FileFacts, limit: int) -> Fetched:
        if isinstance(found, FileText) and not _fits(found.content):
            return await read(limit // 2)
        return _file(nc, id, found)

    return await read(_PAGE_BYTES)


class _Here(TypedDict):
    """What an id stands for, and from which byte on."""

    kind: str
    which: str
    offset: int


def _sealed(nc: Account, kind: str, which: str, offset: int = 0) -> str:
    return pagination.seal(Position.of(offset, f"{kind}:{which}"), "research", nc.uid)


def _opened(nc: Account, asked: str) -> _Here:
    try:
        position = pagination.unseal(asked, "research", nc.uid, least=0)
    except InvalidInput:
        position = None
    what = None if position is None else _WHAT.fullmatch(position.name)
    if position is None or what is None:
        raise InvalidInput(f"{quoted(asked)} is no id that search answered: search again and pass one on.")
    return _Here(kind=what["kind"], which=what["which"], offset=position.number)


def _fits(text: str) -> bool:
    return sent_bytes(text) <= _MAX_JSON_BYTES


def _file(nc: Account, asked: str, read: FileText | FileImage | FileFacts) -> Fetched:
    about: dict[str, object] = {
        "type": getattr(read, "type", None),
        "modified": read.modified and read.modified.isoformat().replace("+00:00", "Z"),
        "note": read.note,
    }
    if isinstance(read, FileText) and read.next_offset is not None:
        about["next_id"] = _sealed(nc, "file", read.path, read.next_offset)
    # For a file that is not text, the note says what it is.
    text = read.content if isinstance(read, FileText) else read.note or "This is a picture."
    return Fetched(
        id=asked,
        title=read.path.rpartition("/")[2],
        text=text,
        url=_file_url(nc, read.path),
        metadata=_words(about),
    )


async def _fetch_note(nc: Account, asked: str, here: _Here) -> Fetched:
    note = await nc.client(NotesClient).get(here["which"])
    page = await aside(partial(_fitting, note.text, here["offset"]), uid=nc.uid, size=len(note.text))
    about: dict[str, object] = {"type": "note", "category": note.category or None}
    if page.next_offset is not None:
        about["next_id"] = _sealed(nc, "note", note.id, page.next_offset)
    found = _note(nc, note.id, note.title)
    return Fetched(id=asked, title=found.title, text=page.text, url=found.url, metadata=_words(about))


def _fitting(text: str, offset: int) -> TextPage:
    limit = _PAGE_BYTES
    page = cut(text, offset=offset, limit=limit)
    while not _fits(page.text):
        limit //= 2
        page = cut(text, offset=offset, limit=limit)
    return page


def _telling(query: str, terms: Sequence[Term]) -> tuple[str, ...]:
    """Return the words that a file name may contain, including inner symbols, and pairs of characters.

    The pairs are for scripts without spaces.
    """
    telling = {term.folded for term in terms}
    words = [word for word in _WORD.findall(query) if any(term.folded in telling for term in _plain(word))]
    return tuple(dict.fromkeys([*words, *(term.written for term in terms if term.is_pair)]))[:_WORDS]


def _plain(word: str) -> list[Term]:
    return [term for term in terms_of(word) if not term.is_pair]


def _name(entry: Entry) -> Document:
    return Document(fold(entry.name), fold("/".join(entry.segments[:-1])))


def _file_source(nc: Account, entry: Entry) -> Source:
    return Source(id=_sealed(nc, "file", entry.path), title=entry.path, url=_file_url(nc, entry.path))


def _note(nc: Account, note_id: Id, title: str) -> Source:
    return Source(
        id=_sealed(nc, "note", note_id), title=title, url=f"{nc.web}/index.php/apps/notes/note/{note_id}"
    )


def _file_url(nc: Account, path: str) -> str:
    folder, _, name = path.rpartition("/")
    where = urlencode({"dir": f"/{folder}", "scrollto": name}, quote_via=quote, safe="/")
    return f"{nc.web}/index.php/apps/files/?{where}"


def _words(facts: dict[str, object]) -> dict[str, str]:
    """Convert values to texts, as research clients require."""
    return {name: str(value) for name, value in facts.items() if value is not None}
