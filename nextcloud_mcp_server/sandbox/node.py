"""Files and folders of the sandbox, and the bytes behind a file."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

INSTANCE_ID = "ocsandbox001"

_DEFAULT_MIME = "application/octet-stream"
_MIME_BY_SUFFIX = {
    "bin": "application/x-bin",
    "css": "text/css",
    "csv": "text/csv",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "gif": "image/gif",
    "htm": "text/html",
    "html": "text/html",
    "ics": "text/calendar",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "js": "application/javascript",
    "json": "application/json",
    "log": "text/plain",
    "md": "text/markdown",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "odt": "application/vnd.oasis.opendocument.text",
    "org": "text/org",
    "pdf": "application/pdf",
    "png": "image/png",
    "py": "text/x-python",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "vcf": "text/vcard",
    "webp": "image/webp",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "zip": "application/zip",
}
# A browser would run these, so Nextcloud downloads them as plain text.
_UNSAFE_MIMES = frozenset(
    {
        "application/javascript",
        "application/json",
        "application/xml",
        "application/yaml",
        "image/svg+xml",
        "text/html",
    }
)


class Content(Protocol):
    """The bytes of a file, readable in pieces."""

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        ...

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes from `start` up to `stop`."""
        ...


@dataclass(frozen=True, slots=True)
class Bytes:
    """A file's bytes, held in memory once and never copied for a request."""

    data: bytes
    piece_bytes: int = 262_144

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return len(self.data)

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes from `start` up to `stop`."""
        for at in range(start, stop, self.piece_bytes):
            yield self.data[at : min(at + self.piece_bytes, stop)]


@dataclass(frozen=True, slots=True)
class Generated:
    """A big file made of one repeated chunk, so that it costs no memory."""

    size: int
    chunk: bytes

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes from `start` up to `stop`."""
        while start < stop:
            offset = start % len(self.chunk)
            piece = self.chunk[offset : offset + stop - start]
            yield piece
            start += len(piece)


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag, the same for all people."""

    id: int
    name: str
    assignable: bool = True


@dataclass(slots=True, eq=False)
class Comment:
    """The comment of a user on a file."""

    id: int
    author: str
    message: str
    created_at: float


@dataclass(slots=True, eq=False)
class Node:
    """One file or folder. `content` is None for a folder."""

    file_id: int
    name: str
    parent: "Node | None"
    content: Content | None
    etag: str
    modified_at: int
    uploaded_at: int = 0
    children: dict[str, "Node"] = field(default_factory=dict[str, "Node"])
    favorite: bool = False
    checksum: str | None = None
    readonly: bool = False
    #: End-to-end encrypted, a folder alone.
    encrypted: bool = False
    tags: set[int] = field(default_factory=set[int])
    comments: list[Comment] = field(default_factory=list[Comment])
    # What it held before, by the time at which it was written.
    versions: dict[int, Content] = field(default_factory=dict[int, Content])
    extra: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_folder(self) -> bool:
        """Whether the node is a folder."""
        return self.content is None

    @property
    def path(self) -> str:
        """Build the path below the owner's home, with a leading slash."""
        if self.parent is None:
            return "/"
        return f"{self.parent.path.rstrip('/')}/{self.name}"

    @property
    def size(self) -> int:
        """Count the bytes, of a folder those of everything below it."""
        if self.content is not None:
            return self.content.size
        return sum(child.size for child in self.children.values())

    @property
    def oc_id(self) -> str:
        """Build the id that names the instance as well."""
        return f"{self.file_id:08d}{INSTANCE_ID}"

    @property
    def permissions(self) -> str:
        """Return the owner's permissions, in ownCloud's letters."""
        if self.readonly:
            return "RG"
        return "RGDNVCK" if self.is_folder else "RGDNVW"

    @property
    def mime(self) -> str:
        """Guess the type from the name, as Nextcloud does."""
        return mime_of(self.name)

    def sorted_children(self) -> list["Node"]:
        """List a folder in the order of PROPFIND: by code point."""
        return [self.children[name] for name in sorted(self.children)]

    def walk(self) -> Iterator["Node"]:
        """Yield everything below, each folder before its contents."""
        for child in self.sorted_children():
            yield child
            yield from child.walk()

    def read(self) -> bytes:
        """Return all bytes of a file."""
        return b"" if self.content is None else b"".join(self.content.pieces(0, self.content.size))


def mime_of(name: str) -> str:
    """Guess a type from a file's name."""
    return _MIME_BY_SUFFIX.get(name.rpartition(".")[2].lower(), _DEFAULT_MIME)


def download_mime_of(mime: str) -> str:
    """Return which Content-Type a download of this type gets."""
    safe = "text/plain" if mime in _UNSAFE_MIMES else mime
    return f"{safe};charset=UTF-8" if safe.startswith("text/") else safe
