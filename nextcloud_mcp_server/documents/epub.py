"""Extracts text from e-books (EPUB), chapter by chapter in reading order."""

import posixpath
from typing import BinaryIO, Final
from urllib.parse import unquote

from nextcloud_mcp_server.documents import html_text
from nextcloud_mcp_server.documents.archive import Archive, Listener
from nextcloud_mcp_server.documents.output import Output, Refused

#: A chapter is held in memory; this is ten times War and Peace.
MAX_CHAPTER_BYTES: Final = 33_554_432

_CONTAINER: Final = "META-INF/container.xml"
_ENCRYPTION: Final = "META-INF/encryption.xml"


def read(file: BinaryIO, out: Output) -> None:
    """Write the chapters.

    Raises:
      Refused: It cannot be read; "password" also where the shop's rights management encrypts it.
    """
    archive = Archive(file)
    container, locked, book = _Container(), _Locked(), _Book()
    archive.xml(_CONTAINER, container)
    if _ENCRYPTION in archive:
        archive.xml(_ENCRYPTION, locked)
    archive.xml(container.package, book)
    folder = posixpath.dirname(container.package)
    chapters = [posixpath.normpath(posixpath.join(folder, unquote(each))) for each in book.chapters]
    if locked.names & set(chapters):
        raise Refused("password")
    known = [chapter for chapter in chapters if chapter in archive]
    for number, chapter in enumerate(known, 1):
        out.write(f"[Chapter {number} of {len(known)}]")
        html_text.write(html_text.decode(_whole(archive, chapter)), out)
        out.write("")
        out.progress(number, len(known))


def _whole(archive: Archive, name: str) -> bytes:
    taken = bytearray()
    for piece in archive.pieces(name):
        taken += piece
        if len(taken) > MAX_CHAPTER_BYTES:
            raise Refused("unpacks")
    return bytes(taken)


class _Container(Listener):
    """Finds the package document of the book."""

    package = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "rootfile":
            self.package = self.package or attributes.get("full-path", "")


class _Locked(Listener):
    """Lists what is encrypted; fonts often are, which does not matter."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "CipherReference":
            self.names.add(unquote(attributes.get("URI", "")))


class _Book(Listener):
    """Lists the chapters in the order of the spine."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._spine: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "item":
            self._files[attributes.get("id", "")] = attributes.get("href", "")
        elif name == "itemref":
            self._spine.append(attributes.get("idref", ""))

    @property
    def chapters(self) -> list[str]:
        """The files of the chapters, as the package document names them."""
        return [self._files[each] for each in self._spine if each in self._files]
