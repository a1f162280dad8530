"""Comments on the cells of a workbook: notes with an author, and threaded comments of newer versions."""

from nextcloud_mcp_server.documents.archive import Archive, Listener
from nextcloud_mcp_server.documents.output import Output


def people(archive: Archive, parts: dict[str, str]) -> dict[str, str]:
    """Read the names of the authors of threaded comments."""
    found = _People()
    if parts.get("/person") in archive.names:
        archive.xml(parts["/person"], found)
    return found.names


def write(archive: Archive, sheet: str, names: dict[str, str], out: Output) -> None:
    """Write the comments of one sheet, each with its cell and its author."""
    parts = archive.relations(sheet)
    talk, notes = _Conversations(names), _Notes()
    for kind, listener in (("/threadedComment", talk), ("/comments", notes)):
        if parts.get(kind) in archive.names:
            archive.xml(parts[kind], listener)
    # For older versions of Excel a threaded comment is stored as a note as well.
    talked = {place for place, _, _ in talk.found}
    found = [*talk.found, *(each for each in notes.found if each[0] not in talked)]
    if found:
        out.write("[Comments]")
    for place, author, text in found:
        out.body(f"[{place}, {author}] {text}" if author else f"[{place}] {text}")


class _People(Listener):
    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "person":
            self.names[attributes.get("id", "")] = attributes.get("displayName", "")


class _Found(Listener):
    """Collects texts with their cells and authors."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str, str]] = []
        self._place = ""
        self._author = ""
        self._parts: list[str] = []
        self._shown = False

    def text(self, text: str) -> None:
        if self._shown:
            self._parts.append(text)

    def _keep(self) -> None:
        self.found.append((self._place, self._author, " ".join("".join(self._parts).split())))


class _Conversations(_Found):
    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self._names = names

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "threadedComment":
            self._place, self._parts = attributes.get("ref", ""), []
            self._author = self._names.get(attributes.get("personId", ""), "")
        self._shown = name == "text"

    def end(self, name: str) -> None:
        self._shown = False
        if name == "threadedComment":
            self._keep()


class _Notes(_Found):
    def __init__(self) -> None:
        super().__init__()
        self._authors: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "author":
            self._parts = []
        elif name == "comment":
            self._place, self._parts = attributes.get("ref", ""), []
            number = attributes.get("authorId", "")
            known = number.isascii() and number.isdigit() and int(number) < len(self._authors)
            self._author = self._authors[int(number)] if known else ""
        self._shown = name in {"author", "t"}

    def end(self, name: str) -> None:
        self._shown = False
        if name == "author":
            self._authors.append("".join(self._parts).strip())
        elif name == "comment":
            self._keep()
