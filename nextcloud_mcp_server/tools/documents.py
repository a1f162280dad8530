"""The text of a user's documents: extracted once, then returned page by page."""

from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol
from weakref import WeakValueDictionary

import anyio

from nextcloud_mcp_server.documents import process
from nextcloud_mcp_server.documents.kinds import NAMES, TEXTS, Kind
from nextcloud_mcp_server.documents.output import MAX_TEXT_BYTES, End
from nextcloud_mcp_server.documents.process import Extract
from nextcloud_mcp_server.documents.worker import SMALL_BYTES
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import character_references
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.version import Version
from nextcloud_mcp_server.tools.progress import Progress

#: Larger documents consist mostly of pictures.
MAX_DOCUMENT_BYTES: Final = 52_428_800
#: How many documents are read at once: in total, and for one user.
AT_ONCE: Final = 3
#: How long extracted texts are cached, so that the next page need not be read again; and the size limit of the
#: cache.
KEPT_SECONDS: Final = 600.0
KEPT_BYTES: Final = 16_777_216
KEPT_TEXTS: Final = 200
#: Two changes in one second that leave the size the same give one etag on many storages. So the text of a file that
#: changed so recently, by this server's clock, is not cached.
FRESH_SECONDS: Final = 10

_COULD_NOT: Final[dict[End, str]] = {
    "password": "is locked with a password, so its text can't be read; the person can store it without one",
    "empty": "holds no text",
    "unpacks": "would unpack to far more than a document has, so it was not opened",
    "broken": "is damaged or not what its name says, so its text can't be read",
    "failed": "could not be read: something in it is beyond this server's reader",
    "slow": "took too long to read",
    "memory": "needs more memory to read than is allowed",
}
_SCANNED: Final = "has no text layer: its pages are pictures, such as scans"
_CUT: Final[dict[End, str]] = {
    "long": "It is longer than is read of one document; what follows is missing.",
    "slow": "It took too long to read, so what follows is missing.",
    "memory": "It needs more memory than is allowed, so what follows is missing.",
    "broken": "It is damaged, so what follows is missing.",
    "unpacks": "It unpacks to more than a document has, so what follows is missing.",
    "failed": "A part of it could not be read, so what follows is missing.",
}


#: The user, the file, its version, and the kind of document.
_Key = tuple[str, str, str, Kind]


class Read(Protocol):
    """Extracts the text of a document: `documents.process.extract`."""

    def __call__(
        self, kind: Kind, pieces: AsyncIterable[bytes], *, report: Callable[[int, int], Awaitable[None]]
    ) -> Awaitable[Extract]:
        """Read one document."""
        ...


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document and its text, or the reason why there is none."""

    path: str
    content_type: str
    version: Version
    kind: Kind
    #: None: the document is too large to be read.
    extract: Extract | None

    @property
    def note(self) -> str:
        """Return a sentence for the reader of the text, or the reason why there is none."""
        name = NAMES[self.kind]
        if self.extract is None:
            why = f"is too large: text is taken out of documents of up to {MAX_DOCUMENT_BYTES} bytes"
            return f"This {name} of {self.version.size} bytes {why}."
        if not self.readable:
            scanned = self.kind == "pdf" and self.extract.end == "empty"
            why = _SCANNED if scanned else _COULD_NOT[self.extract.end]
            return f"This {name} of {self.version.size} bytes {why}."
        stored = " Pass raw=true for the file as it is stored." if self.kind in TEXTS else ""
        return f"This is the text of the {name} alone.{stored} {_CUT.get(self.extract.end, '')}".strip()

    @property
    def readable(self) -> bool:
        """Tell whether there is any text."""
        extract = self.extract
        return extract is not None and bool(extract.text) and extract.end not in {"empty", "password"}


class _Slot:
    """One user's slot: a second document at the same time waits for the first."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()


class Documents:
    """Extracts the text of documents and caches the latest texts."""

    def __init__(
        self,
        read: Read = process.extract,
        *,
        clock: Callable[[], float] = anyio.current_time,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._read = read
        self._clock = clock
        self._now = now
        self._limit = anyio.CapacityLimiter(AT_ONCE)
        self._slots = WeakValueDictionary[str, _Slot]()
        self._kept = OrderedDict[_Key, tuple[float, DocumentText]]()

    async def text(self, nc: Account, path: str, kind: Kind, progress: Progress) -> DocumentText:
        """Return the text of the current version of a document.

        One small request when the text is cached, else two requests and a separate process.

        Raises:
          NextcloudError: The file does not exist or cannot be fetched.
        """
        entry = await nc.files.info(path)
        if entry.is_folder:
            raise InvalidInput(f"{quoted(path)} is a folder: list it with nc_files_list_folder.")
        if (entry.size or 0) > MAX_DOCUMENT_BYTES:
            return DocumentText(entry.path, entry.content_type, entry.version, kind, None)
        key = (nc.uid, entry.path, str(entry.version), kind)
        slot = self._slots.setdefault(nc.uid, _Slot())
        async with slot.lock:
            if known := self._known(key):
                return known
            settled = self._now().timestamp() - FRESH_SECONDS
            found = await self._fetch(nc, entry, kind, progress)
            if (found.version.seconds or 0) >= settled:
                return found
            # By the version that was read: the file may have changed after it was looked up.
            self._keep((nc.uid, entry.path, str(found.version), kind), found)
            return found

    async def page(self, nc: Account, page: str) -> tuple[str, str | None]:
        """Return the text of HTML that is not a file, such as an article, and a note for its reader.

        HTML with tags is parsed in a separate process, because it is untrusted text.
        """
        whole = page[:MAX_TEXT_BYTES]
        cut = _CUT["long"] if len(whole) < len(page) else None
        if "<" not in whole:
            return await self.plain(nc, page, character_references.unescape)
        slot = self._slots.setdefault(nc.uid, _Slot())
        async with slot.lock, self._limit:
            extract = await self._read("html", _pieces(whole), report=_nobody)
        known: dict[End, str] = {} if extract.text else _COULD_NOT
        why = f"It {known[extract.end]}." if extract.end in known else _CUT.get(extract.end)
        return extract.text.decode(), why or cut

    async def plain(self, nc: Account, text: str, read: Callable[[str], str]) -> tuple[str, str | None]:
        """Return what `read` makes of the beginning of a text, with a note where the rest is missing."""
        whole = text[:MAX_TEXT_BYTES]
        cut = _CUT["long"] if len(whole) < len(text) else None
        return await aside(partial(read, whole), uid=nc.uid, size=len(whole)), cut

    async def _fetch(self, nc: Account, entry: Entry, kind: Kind, progress: Progress) -> DocumentText:
        async def report(done: int, total: int) -> None:
            await progress.report(done, total, f"Read {done} of {total} parts")

        async with AsyncExitStack() as stack:
            if is_large := entry.size is None or entry.size > SMALL_BYTES:
                # Its bytes are not held here: the worker takes them as they come, within a time.
                await stack.enter_async_context(self._limit)
            async with nc.download.open(entry.path, known=entry) as download:
                # A slow storage makes nobody else wait for a small document: it is here before its turn.
                begun = [] if is_large else await _begun(download.pieces)
                if not is_large:
                    await stack.enter_async_context(self._limit)
                extract = await self._read(kind, _joined(begun, download.pieces), report=report)
        return DocumentText(download.path, download.content_type, download.version, kind, extract)

    def _known(self, key: _Key) -> DocumentText | None:
        now = self._clock()
        for old in [each for each, (until, _) in self._kept.items() if until <= now]:
            del self._kept[old]
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][1]

    def _keep(self, key: _Key, found: DocumentText) -> None:
        self._kept[key] = self._clock() + KEPT_SECONDS, found
        while len(self._kept) > KEPT_TEXTS or self._size > KEPT_BYTES:
            self._kept.popitem(last=False)

    @property
    def _size(self) -> int:
        return sum(len(found.extract.text) for _, found in self._kept.values() if found.extract)


async def _begun(pieces: AsyncIterator[bytes]) -> list[bytes]:
    """Read the pieces of a small document; of one that has grown since it was looked up, the first ones."""
    begun: list[bytes] = []
    size = 0
    async for piece in pieces:
        begun.append(piece)
        size += len(piece)
        if size > SMALL_BYTES:
            break
    return begun


async def _joined(begun: Sequence[bytes], rest: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    for piece in begun:
        yield piece
    async for piece in rest:
        yield piece


async def _pieces(page: str) -> AsyncIterator[bytes]:
    """Yield the page with a byte order mark, so that it is read as UTF-8 whatever it declares."""
    yield b"\xef\xbb\xbf" + page.encode("utf-8", "replace")


async def _nobody(done: int, total: int) -> None:
    """Ignore the progress."""
