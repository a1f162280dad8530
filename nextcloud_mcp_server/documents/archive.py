"""Opens a zip file and the XML in it, after checking its unpacked size."""

import posixpath
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from nextcloud_mcp_server.documents.output import Refused

MAX_MEMBERS: Final = 10_000
#: The maximum unpacked size in total, and its maximum ratio to the size of the file.
MAX_UNPACKED_BYTES: Final = 268_435_456
MAX_RATIO: Final = 200
#: Below this size a high ratio is accepted: small spreadsheets have one.
HARMLESS_BYTES: Final = 16_777_216
MAX_DEPTH: Final = 200

_PIECE_BYTES: Final = 65_536
#: Office puts a document with a password into the container of its older formats.
_LOCKED: Final = b"\xd0\xcf\x11\xe0"
_ENCRYPTED: Final = 0x1
#: The methods that these formats allow. Other methods can unpack to any size before returning the first byte.
_METHODS: Final = (ZIP_STORED, ZIP_DEFLATED)


class Archive:
    """A zip file that is safe to unpack. A member never unpacks to more than its entry declares."""

    def __init__(self, file: BinaryIO) -> None:
        start = file.read(len(_LOCKED))
        if start == _LOCKED:
            raise Refused("password")
        size = file.seek(0, 2)
        try:
            self._zip = ZipFile(file)
        except (BadZipFile, ValueError, OSError):
            raise Refused("broken") from None
        members = self._zip.infolist()
        unpacked = sum(member.file_size for member in members)
        if len(members) > MAX_MEMBERS or unpacked > MAX_UNPACKED_BYTES:
            raise Refused("unpacks")
        if unpacked > HARMLESS_BYTES and unpacked > size * MAX_RATIO:
            raise Refused("unpacks")
        self._members: dict[str, ZipInfo] = {member.filename: member for member in members}

    @property
    def names(self) -> list[str]:
        """The names of the members."""
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def pieces(self, name: str) -> Iterator[bytes]:
        """Unpack one member piece by piece.

        Raises:
          Refused: It is missing, damaged or encrypted.
        """
        member = self._members.get(name)
        if member is None or member.compress_type not in _METHODS:
            raise Refused("broken")
        if member.flag_bits & _ENCRYPTED:
            raise Refused("password")
        try:
            with self._zip.open(member) as opened:
                while piece := opened.read(_PIECE_BYTES):
                    yield piece
        except (BadZipFile, zlib.error, EOFError, ValueError, OSError):
            raise Refused("broken") from None

    def xml(self, name: str, listener: "Listener") -> None:
        """Parse one member.

        Raises:
          Refused: It is not well-formed XML, or declares entities, which no such document does.
        """
        parse(self.pieces(name), listener)

    def relations(self, name: str) -> "Relations":
        """Read the relationships of a part of an Office document: target names by id, and by type."""
        folder, base = posixpath.split(name)
        found = _Relations(folder)
        beside = posixpath.join(folder, "_rels", f"{base}.rels")
        if beside in self:
            self.xml(beside, found)
        return found.relations


class Listener:
    """Receives the events of an XML parser.

    Names come without their namespaces, except for attributes that refer to a relationship: `r:id`.
    """

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle the start of an element."""

    def end(self, name: str) -> None:
        """Handle the end of an element."""

    def text(self, text: str) -> None:
        """Handle text."""


class Relations(dict[str, str]):
    """The targets of relationships by id, and (`/notesSlide`) the last one of each type."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[str, list[str]] = {}

    def keep(self, id_: str, kind: str, target: str) -> None:
        """Add one relationship."""
        self[id_] = self[kind] = target
        self._kinds.setdefault(kind, []).append(target)

    def every(self, kind: str) -> list[str]:
        """Return each target of a type once, in the order of the relationships."""
        return list(dict.fromkeys(self._kinds.get(kind, ())))


class _Relations(Listener):
    """Collects the relationships of a part; the last segment of their type is the key."""

    def __init__(self, folder: str) -> None:
        self.relations = Relations()
        self._folder = folder

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Add a relationship to a part of the same document."""
        if name == "Relationship" and attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", self._folder, attributes.get("Target", "")))
            kind = "/" + attributes.get("Type", "").rpartition("/")[2]
            self.relations.keep(attributes.get("Id", ""), kind, target.lstrip("/"))


def parse(pieces: Iterator[bytes], listener: Listener) -> None:
    """Parse XML; see `Archive.xml`."""
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise Refused("broken")
        listener.start(_local(name), {_attribute(key): value for key, value in attributes.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        listener.end(_local(name))

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = listener.text
    parser.StartDoctypeDeclHandler = _refuse_declarations
    parser.buffer_text = True
    try:
        for piece in pieces:
            parser.Parse(piece, False)
        parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError):
        raise Refused("broken") from None


def _refuse_declarations(_name: str, _system: str | None, _public: str | None, has_subset: bool) -> None:  # noqa: FBT001 - the signature is expat's
    # Entities serve only attacks: expansion bombs, or reading a local file. An external DTD is never fetched.
    if has_subset:
        raise Refused("broken")


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _attribute(name: str) -> str:
    namespace, _, local = name.rpartition(" ")
    return f"r:{local}" if namespace.endswith("/relationships") else local
