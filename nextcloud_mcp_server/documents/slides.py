"""Extracts text from PowerPoint presentations (.pptx), slide by slide, with the speaker's notes."""

from typing import BinaryIO

from nextcloud_mcp_server.documents.archive import Archive, Listener
from nextcloud_mcp_server.documents.flow import Flow
from nextcloud_mcp_server.documents.output import Output


def read(file: BinaryIO, out: Output) -> None:
    """Write the text of each slide.

    Raises:
        Refused: It cannot be read.
    """
    archive = Archive(file)
    main = archive.relations("").get("/officeDocument", "ppt/presentation.xml")
    parts, order = archive.relations(main), _Order()
    archive.xml(main, order)
    slides = [parts[each] for each in order.ids if parts.get(each) in archive.names]
    for number, slide in enumerate(slides, 1):
        out.write(f"[Slide {number} of {len(slides)}]")
        archive.xml(slide, _Text(out))
        notes = archive.relations(slide).get("/notesSlide")
        if notes in archive.names:
            archive.xml(notes, _Text(out, "Notes: "))
        comments = archive.relations(slide).get("/comments")
        if comments in archive.names:
            archive.xml(comments, _Comments(out))
        out.write("")
        out.progress(number, len(slides))


class _Order(Listener):
    """Lists the slides in presentation order."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "sldId":
            self.ids.append(attributes.get("r:id", ""))


class _Text(Flow):
    """Parses one slide. Fields, such as the slide's number in its notes, are left out."""

    def __init__(self, out: Output, prefix: str = "") -> None:
        super().__init__(out)
        self._prefix = prefix
        self._shown = False
        self._field = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "sld" if attributes.get("show") in {"0", "false"}:
                self.out.write("[This slide is hidden]")
            case "p":
                self.begin(self._prefix)
            case "t":
                self._shown = not self._field
            case "fld":
                self._field = attributes.get("type", "").startswith("slidenum")
            case "br":
                self.add("\n")
            case "tr":
                self.begin_row()
            case "tc":
                self.begin_cell()
            case _:
                pass

    def end(self, name: str) -> None:
        match name:
            case "p":
                self.finish()
            case "t":
                self._shown = False
            case "fld":
                self._field = False
            case "tc":
                self.finish_cell()
            case "tr":
                self.finish_row()
            case _:
                pass

    def text(self, text: str) -> None:
        if self._shown:
            self.add(text)


class _Comments(Flow):
    """Parses the comments on a slide."""

    def __init__(self, out: Output) -> None:
        super().__init__(out)
        self._shown = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        del attributes
        if name in {"cm", "reply"}:
            self.begin("[Comment] ")
        self._shown = name in {"text", "t"}

    def end(self, name: str) -> None:
        self._shown = False
        if name in {"cm", "reply"}:
            self.finish()

    def text(self, text: str) -> None:
        if self._shown:
            self.add(text)
