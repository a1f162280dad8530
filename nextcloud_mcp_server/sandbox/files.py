"""One user's files in the sandbox: a tree with etags, quota, favourites, locks and a trash."""

import hashlib
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from nextcloud_mcp_server.sandbox.node import Bytes, Content, Generated, Node

_LONGEST_NAME_BYTES = 250
_RESERVED_NAMES = frozenset({".htaccess"})
_FORBIDDEN_SUFFIXES = (".part", ".filepart")


class FileFault(Exception):
    """An error of the tree, with Nextcloud's message."""


class FileMissing(FileFault):
    """No such file or folder."""


class FileLocked(FileFault):
    """Another request is writing the file."""


class ParentMissing(FileFault):
    """The parent folder does not exist."""


class NameRefused(FileFault):
    """Nextcloud does not accept this name."""


class NotWritable(FileFault):
    """The user may only read it."""


class QuotaExceeded(FileFault):
    """The quota is used up."""


@dataclass(slots=True, eq=False)
class TrashItem:
    """A deleted node, with its former path and the time of deletion."""

    node: Node
    original_path: str
    deleted_at: int

    @property
    def entry_name(self) -> str:
        """Return its name in the trash."""
        return f"{self.node.name}.d{self.deleted_at}"


class FileTree:
    """One user's files. Paths start with a slash; names are kept in NFC.

    A file written twice within one second keeps its etag, as on Nextcloud's local storage:
    a stale `If-Match` then succeeds. With `coarse_etags=False` every write gets a new one.
    """

    def __init__(
        self,
        owner: str,
        *,
        clock: Callable[[], float],
        next_id: Callable[[], int],
        quota_bytes: int | None = None,
        coarse_etags: bool = True,
    ) -> None:
        self.owner = owner
        self.quota_bytes = quota_bytes
        self.coarse_etags = coarse_etags
        self.trash: list[TrashItem] = []
        self._clock = clock
        self._next_id = next_id
        self._writes = 0
        self._locked: set[str] = set()
        self.root = Node(next_id(), "", None, None, self._fresh_etag(), self.now)

    def find(self, path: str) -> Node | None:
        """Look a path up; None when it does not exist."""
        node = self.root
        for name in split_path(path):
            child = node.children.get(name)
            if child is None:
                return None
            node = child
        return node

    def get(self, path: str) -> Node:
        """Look a path up.

        Raises:
            FileMissing: names the first missing part, as Nextcloud does.
        """
        node = self.root
        for name in split_path(path):
            child = node.children.get(name)
            if child is None:
                # Nextcloud joins the parent's path and a slash, so the root gives two.
                raise FileMissing(f"File with name {node.path}/{name} could not be located")
            node = child
        return node

    def find_by_id(self, file_id: int) -> Node | None:
        """Look a file id up; the trash does not count."""
        return next((node for node in self.root.walk() if node.file_id == file_id), None)

    def make_folder(self, path: str, *, parents: bool = False) -> Node:
        """Create a folder, or return the one that is there."""
        parent = self.root
        names = split_path(path)
        for index, name in enumerate(names):
            child = parent.children.get(name)
            if child is None:
                if not parents and index < len(names) - 1:
                    raise ParentMissing("Parent node does not exist")
                check_name(name)
                child = self._attach(Node(self._next_id(), name, None, None, "", self.now), parent)
                self._changed(child)
            parent = child
        return parent

    def put(
        self, path: str, data: bytes, *, modified_at: int | None = None, checksum: str | None = None
    ) -> Node:
        """Create or overwrite a file."""
        return self._put(path, Bytes(data), modified_at=modified_at, checksum=checksum)

    def put_generated(self, path: str, size: int, chunk: bytes) -> Node:
        """Create a file of `size` bytes that repeats `chunk` and takes no memory."""
        return self._put(path, Generated(size, chunk), modified_at=None, checksum=None)

    def _put(self, path: str, content: Content, *, modified_at: int | None, checksum: str | None) -> Node:
        self.check_unlocked(path)
        parent, name = self._parent_and_name(path)
        node = parent.children.get(name)
        if node is not None and node.readonly:
            raise NotWritable("")
        self.check_room(path, content.size, instead_of=node)
        if node is None:
            node = self._attach(Node(self._next_id(), name, None, content, "", self.now), parent)
            written_before = -1
        else:
            written_before = node.uploaded_at
            if node.size:
                node.versions[node.modified_at] = node.content or content
        node.content = content
        node.checksum = checksum
        node.uploaded_at = self.now
        node.modified_at = self.now if modified_at is None else modified_at
        if not self.coarse_etags or written_before != node.uploaded_at:
            node.etag = self._fresh_etag()
        self._changed(parent)
        return node

    def restore_version(self, node: Node, moment: int) -> None:
        """Restore an earlier content of a file; the current content becomes a version."""
        old, now = node.versions.pop(moment), node.content
        if now is not None:
            node.versions[node.modified_at] = now
        node.content, node.modified_at = old, moment
        node.etag = self._fresh_etag()
        self._changed(node.parent or node)

    def set_modified(self, node: Node, modified_at: int) -> None:
        """Set the time of last change; the etag follows."""
        node.modified_at = modified_at
        node.etag = self._fresh_etag()

    def move(self, source: str, destination: str) -> tuple[Node, bool]:
        """Move a file or folder; an existing target goes to the trash. True: it replaced one."""
        node = self.get(source)
        self.check_unlocked(source)
        parent, name = self._parent_and_name(destination)
        replaced = self._clear_way(destination)
        pictures = _pictures_of(node)
        old_parent = self._detach(node)
        node.name = name
        self._attach(node, parent)
        if pictures is not None and parent is not old_parent:
            self._detach(pictures)
            self._attach(pictures, parent)
        self._changed(old_parent)
        self._changed(parent)
        return node, replaced

    def copy(self, source: str, destination: str) -> tuple[Node, bool]:
        """Copy a file or folder; an existing target goes to the trash. True: it replaced one."""
        node = self.get(source)
        self.check_unlocked(source)
        parent, name = self._parent_and_name(destination)
        self.check_room(destination, node.size)
        replaced = self._clear_way(destination)
        twin = self._duplicate(node, parent, name)
        self._attach(twin, parent)
        self._changed(parent)
        return twin, replaced

    def trash_file(self, path: str) -> TrashItem:
        """Move a file or folder to the trash."""
        node = self.get(path)
        self.check_unlocked(path)
        pictures = _pictures_of(node)
        if pictures is not None:
            self.trash_file(pictures.path)
        deleted_at = self.now
        # Two deletions of one name in one second would share a name; Nextcloud moves on, too.
        taken = {item.entry_name for item in self.trash}
        while f"{node.name}.d{deleted_at}" in taken:
            deleted_at += 1
        item = TrashItem(node, node.path, deleted_at)
        parent = self._detach(node)
        node.favorite = False
        self.trash.append(item)
        self._changed(parent)
        return item

    def find_trash(self, entry_name: str) -> TrashItem | None:
        """Look a trash entry up by its name there."""
        wanted = unicodedata.normalize("NFC", entry_name)
        return next((item for item in self.trash if item.entry_name == wanted), None)

    def restore(self, item: TrashItem) -> Node:
        """Put a trash entry back where it was, under another name when that is taken."""
        folder, _, name = item.original_path.rpartition("/")
        parent = self.find(folder or "/") or self.root
        if not parent.is_folder:
            parent = self.root
        item.node.name = _free_name(parent, name)
        self._attach(item.node, parent)
        self.trash.remove(item)
        self._changed(parent)
        return item.node

    def lock(self, path: str) -> None:
        """Lock a path, as a running upload does."""
        self._locked.add(_normal(path))

    def unlock(self, path: str) -> None:
        """Remove the lock."""
        self._locked.discard(_normal(path))

    def is_locked(self, path: str) -> bool:
        """Return whether a path is locked."""
        return _normal(path) in self._locked

    def check_unlocked(self, path: str) -> None:
        """Raise FileLocked when a path is locked."""
        if self.is_locked(path):
            raise FileLocked(f'"{_normal(path)}" is locked')

    @property
    def used_bytes(self) -> int:
        """Return the number of bytes in use."""
        return self.root.size

    @property
    def available_bytes(self) -> int:
        """Return the number of free bytes; -3 means no limit."""
        return -3 if self.quota_bytes is None else max(0, self.quota_bytes - self.used_bytes)

    def check_room(self, path: str, size: int, *, instead_of: Node | None = None) -> None:
        """Raise QuotaExceeded when `size` more bytes do not fit."""
        if self.quota_bytes is None:
            return
        available = self.available_bytes + (0 if instead_of is None else instead_of.size)
        if size > available:
            raise QuotaExceeded(
                f"Insufficient space in {_normal(path)}, {size} required, {available} available"
            )

    def _parent_and_name(self, path: str) -> tuple[Node, str]:
        *folders, name = split_path(path)
        parent = self.find("/" + "/".join(folders))
        if parent is None or not parent.is_folder:
            raise ParentMissing("Parent node does not exist")
        check_name(name)
        return parent, name

    def _clear_way(self, path: str) -> bool:
        if self.find(path) is None:
            return False
        self.trash_file(path)
        return True

    def _duplicate(self, node: Node, parent: Node, name: str) -> Node:
        twin = Node(
            self._next_id(),
            name,
            parent,
            node.content,
            self._fresh_etag(short=node.is_folder),
            node.modified_at,
            self.now,
            checksum=node.checksum,
        )
        for child in node.sorted_children():
            twin.children[child.name] = self._duplicate(child, twin, child.name)
        return twin

    def _attach(self, node: Node, parent: Node) -> Node:
        node.parent = parent
        parent.children[node.name] = node
        return node

    def _detach(self, node: Node) -> Node:
        parent = node.parent
        if parent is None:
            raise NotWritable("")
        del parent.children[node.name]
        node.parent = None
        return parent

    def _changed(self, folder: Node) -> None:
        step: Node | None = folder
        while step is not None:
            step.etag = self._fresh_etag(short=True)
            step.modified_at = self.now
            step = step.parent

    @property
    def now(self) -> int:
        """Return the current time in Unix seconds."""
        return int(self._clock())

    def _fresh_etag(self, *, short: bool = False) -> str:
        self._writes += 1
        digest = hashlib.sha256(f"{self.owner} {self._writes} {self._clock()}".encode()).hexdigest()
        # Folders have the 13 digits of a time stamp, files a checksum of 32.
        return digest[:13] if short else digest[:32]


def split_path(path: str) -> list[str]:
    """Split a path into names in NFC, without empty ones."""
    return [unicodedata.normalize("NFC", name) for name in path.split("/") if name]


def check_name(name: str) -> None:
    """Raise NameRefused for names Nextcloud does not accept."""
    reason = None
    if "\\" in name:
        reason = '"\\" is not allowed inside a file or folder name.'
    elif len(name.encode()) > _LONGEST_NAME_BYTES:
        reason = "Filename is too long"
    elif name.lower() in _RESERVED_NAMES:
        reason = "Filename is a reserved word"
    else:
        suffix = next((end for end in _FORBIDDEN_SUFFIXES if name.lower().endswith(end)), None)
        reason = None if suffix is None else f'"{suffix}" is a forbidden file type.'
    if reason is not None:
        raise NameRefused(reason)


def _normal(path: str) -> str:
    return "/" + "/".join(split_path(path))


def _free_name(parent: Node, name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    if not stem:
        stem, dot, suffix = name, "", ""
    candidate, count = name, 1
    while candidate in parent.children:
        mark = "(restored)" if count == 1 else f"(restored {count})"
        candidate, count = f"{stem} {mark}{dot}{suffix}", count + 1
    return candidate


def _pictures_of(node: Node) -> Node | None:
    """Find the folder in which the Text app keeps the pictures of a Markdown file; it moves and goes with the file."""
    if node.is_folder or node.parent is None or node.mime != "text/markdown":
        return None
    found = node.parent.children.get(f".attachments.{node.file_id}")
    return found if found is not None and found.is_folder else None
