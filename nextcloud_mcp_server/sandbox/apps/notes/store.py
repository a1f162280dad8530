"""A user's notes: text files below the Notes folder, as the Notes app reads them."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nextcloud_mcp_server.sandbox.files import FileTree, NotWritable
from nextcloud_mcp_server.sandbox.node import Node
from nextcloud_mcp_server.sandbox.reply import php_json
from nextcloud_mcp_server.sandbox.state import Clock, User

_NOTE_SUFFIXES = (".md", ".txt", ".org", ".markdown", ".note")
_LONGEST_TITLE = 100
_DEFAULT_TITLE = "New note"
_LOCKED = "OCP\\Lock\\LockedException"
_NUMBERED = re.compile(r"\s\(([0-9]+)\)$")
_CURSOR = re.compile(r"(\d+)-(\d+)-(\d+)")


class NoteMissing(Exception):
    """The user has no such note."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The fields of an update; None keeps a field."""

    title: str | None = None
    category: str | None = None
    content: str | None = None
    modified_at: int | None = None
    favorite: bool | None = None


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The parameters of a list."""

    category: str | None = None
    exclude: frozenset[str] = frozenset()
    prune_before: int = 0
    chunk_size: int = 0
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A chunk of a list; `cursor` is None on the last chunk."""

    notes: list[dict[str, object]]
    etag: str
    listed_at: int
    cursor: str | None
    pending: int


class NoteStore:
    """Reads and writes one user's notes."""

    def __init__(self, user: User, clock: Clock) -> None:
        self._user = user
        self._clock = clock

    @property
    def _tree(self) -> FileTree:
        return self._user.files

    @property
    def _root_path(self) -> str:
        return f"/{self._user.notes_path}"

    def find(self, note_id: int) -> Node:
        """Find a note's file by its id.

        Raises:
            NoteMissing: No such note.
        """
        for node in self._walk():
            if node.file_id == note_id:
                return node
        raise NoteMissing

    def create(self, changes: Changes) -> Node:
        """Create a note; its title is made safe, and unique in its category."""
        title = safe_title(changes.title or "")
        folder = self._category_folder(changes.category or "")
        name = self._free_name(folder, title, None)
        node = self._tree.put(
            f"{folder.path}/{name}",
            (changes.content or "").encode(errors="replace"),
            modified_at=changes.modified_at or None,
        )
        node.favorite = bool(changes.favorite)
        self._note_sync(node)
        return node

    def update(self, node: Node, changes: Changes) -> None:
        """Change a note."""
        self._tree.check_unlocked(node.path)
        if node.readonly:
            raise NotWritable("")
        if changes.title is not None or changes.category is not None:
            self._rename(node, changes)
        if changes.content is not None:
            self._tree.put(node.path, changes.content.encode(errors="replace"))
        if changes.modified_at is not None:
            self._tree.set_modified(node, changes.modified_at)
        if changes.favorite is not None:
            node.favorite = changes.favorite
        self._note_sync(node)

    def delete(self, node: Node) -> None:
        """Move a note's file to the trash, and its folder if that is empty now."""
        if node.readonly:
            raise NotWritable("")
        folder = node.parent
        self._tree.trash_file(node.path)
        self._drop_empty(folder)

    def list(self, query: ListQuery) -> Listing:
        """List notes in chunks; the last chunk names all other notes by their ids alone."""
        now = int(self._clock().timestamp())
        everything = [
            (self._note_sync(node), node)
            for node in self._walk()
            if query.category is None or self.category(node) == query.category
        ]
        started_at, after = _read_cursor(query.cursor, now)
        wanted = sorted(
            (
                (synced_at, node.file_id, node)
                for synced_at, node in everything
                if synced_at >= query.prune_before
            ),
            key=lambda entry: entry[:2],
        )
        wanted = [entry for entry in wanted if entry[:2] > after]
        chunk = wanted[: query.chunk_size] if query.chunk_size else wanted
        pending = len(wanted) - len(chunk)
        notes = {node.file_id: self.describe(node, query.exclude) for _, _, node in chunk}
        if not pending:
            for _, node in everything:
                notes.setdefault(node.file_id, {"id": node.file_id})
        return Listing(
            notes=list(notes.values()),
            etag=_md5(php_json(notes or []).encode()),
            listed_at=started_at,
            cursor=f"{started_at}-{chunk[-1][0]}-{chunk[-1][1]}" if pending else None,
            pending=pending,
        )

    def describe(self, node: Node, exclude: frozenset[str] = frozenset()) -> dict[str, object]:
        """Describe a note as the API does; the etag cannot be excluded."""
        locked = self._tree.is_locked(node.path)
        note: dict[str, object] = {
            "id": node.file_id,
            "title": title_of(node),
            "modified": node.modified_at,
            "category": self.category(node),
            "favorite": node.favorite,
            "readonly": node.readonly or locked,
            "internalPath": node.path,
            "shareTypes": [],
            "isShared": False,
            "error": locked,
            "errorType": _LOCKED if locked else "",
            # Nextcloud answers 200 here, with the exception's name for the text.
            "content": f"Error: {_LOCKED}" if locked else node.read().decode(errors="replace"),
        }
        etag = _md5(b"locked", self.etag(node).encode()) if locked else self.etag(node)
        return {name: value for name, value in note.items() if name not in exclude} | {"etag": etag}

    def etag(self, node: Node) -> str:
        """Compute the etag that a write must name; unlike a file's it follows every change at once."""
        marks = f"{node.file_id} {node.modified_at} {node.favorite} {node.readonly} {node.path}"
        return _md5(marks.encode(), b"\0", node.read())

    def category(self, node: Node) -> str:
        """Return the folder of a note below the Notes folder."""
        return node.path.removeprefix(self._root_path).rpartition("/")[0].strip("/")

    def _walk(self) -> Iterator[Node]:
        root = self._tree.find(self._root_path)
        if root is not None:
            yield from _walk_notes(root, self._user.notes_suffix)

    def _note_sync(self, node: Node) -> int:
        """Record when a note first had its current etag; pruneBefore compares with that."""
        etag = self.etag(node)
        known = self._user.note_syncs.get(node.file_id)
        if known is None or known[0] != etag:
            known = (etag, int(self._clock().timestamp()))
            self._user.note_syncs[node.file_id] = known
        return known[1]

    def _rename(self, node: Node, changes: Changes) -> None:
        title = title_of(node) if changes.title is None else safe_title(changes.title)
        category = self.category(node) if changes.category is None else changes.category
        old_folder = node.parent
        folder = self._category_folder(category)
        target = f"{folder.path}/{self._free_name(folder, title, node)}"
        if target != node.path:
            self._tree.move(node.path, target)
            self._drop_empty(old_folder)

    def _category_folder(self, category: str) -> Node:
        return self._tree.make_folder(f"{self._root_path}/{safe_category(category)}", parents=True)

    def _free_name(self, folder: Node, title: str, own: Node | None) -> str:
        while folder.children.get(f"{title}{self._user.notes_suffix}") not in {None, own}:
            title = _next_title(title)
        return f"{title}{self._user.notes_suffix}"

    def _drop_empty(self, folder: Node | None) -> None:
        while folder is not None and not folder.children and folder.path != self._root_path:
            parent = folder.parent
            self._tree.trash_file(folder.path)
            folder = parent


def title_of(node: Node) -> str:
    """Return the title of a note: its file name without the suffix."""
    return node.name.rpartition(".")[0]


def safe_title(text: str) -> str:
    """Turn a title into a valid file name."""
    text = re.sub(r"^\s*[*+-]\s+", "", text, flags=re.MULTILINE)
    text = re.sub(r"^#+\s+(.*?)\s*#*$", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^(=+|-+)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"(\*+|_+)(.*?)\1", r"\2", text, flags=re.MULTILINE)
    lines = _safe_path_part(text).splitlines()
    return (lines[0].strip() if lines else "")[:_LONGEST_TITLE] or _DEFAULT_TITLE


def safe_category(text: str) -> str:
    """Turn a category into the path of a folder below the Notes folder."""
    return "/".join(part for part in (_safe_path_part(part) for part in text.split("/")) if part)


def _next_title(title: str) -> str:
    numbered = _NUMBERED.search(title)
    if numbered is None:
        return f"{title} (2)"
    return f"{title[: numbered.start()]} ({int(numbered[1]) + 1})"


def _safe_path_part(text: str) -> str:
    return re.sub(r"^[. ]+", "", re.sub(r'[*|/\\:"<>?]', "", text), flags=re.MULTILINE).strip()


def _walk_notes(folder: Node, own_suffix: str) -> Iterator[Node]:
    for child in folder.sorted_children():
        if child.is_folder:
            # Up to version 6.0.1 hidden folders too, such as those in which the Text app keeps pictures.
            yield from _walk_notes(child, own_suffix)
        elif child.name.lower().endswith((*_NOTE_SUFFIXES, own_suffix)):
            yield child


def _read_cursor(text: str, now: int) -> tuple[int, tuple[int, int]]:
    match = _CURSOR.fullmatch(text)
    # A cursor that makes no sense starts from the beginning, without a word.
    return (int(match[1]), (int(match[2]), int(match[3]))) if match else (now, (-1, -1))


def _md5(*parts: bytes) -> str:
    return hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()
