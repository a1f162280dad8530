"""Page headers and footers: a document contains several of each, often equal ones."""

from typing import Final

from nextcloud_mcp_server.documents.output import Output


class PageHeaders:
    """Writes each different header and footer once, after a mark with its kind."""

    def __init__(self, out: Output) -> None:
        self._out: Final = out
        self._written: set[tuple[str, str]] = set()
        self._pieces: list[bytes] = []

    def begin(self) -> Output:
        """Begin one; its text goes to the returned output."""
        self._pieces = []
        return Output(self._pieces.append, tell=self._out.tell, room=self._out.room)

    def finish(self, title: str) -> None:
        """Write the current one, unless it is empty or was written before.

        Raises:
          Refused: The limit is reached.
        """
        text = b"".join(self._pieces).decode().strip("\n")
        if text and (title, text) not in self._written:
            self._written.add((title, text))
            self._out.write(f"\n[{title}]")
            self._out.body(text)
