"""The headers and footers of pages: a document holds several of each, often equal ones."""

from typing import Final

from nextcloud_mcp_server.documents.output import Output


class PageHeaders:
    """Writes each header and footer that differs from the others once, after a mark that says what it is."""

    def __init__(self, out: Output) -> None:
        self._out: Final = out
        self._written: set[tuple[str, str]] = set()
        self._pieces: list[bytes] = []

    def begin(self) -> Output:
        """Begin one; its text goes to the output that is returned."""
        self._pieces = []
        return Output(self._pieces.append, tell=self._out.tell, room=self._out.room)

    def finish(self, title: str) -> None:
        """Write the one that was begun, unless it is empty or was written before.

        Raises:
            Refused: There is no room left.
        """
        text = b"".join(self._pieces).decode().strip("\n")
        if text and (title, text) not in self._written:
            self._written.add((title, text))
            self._out.write(f"\n[{title}]")
            self._out.body(text)
