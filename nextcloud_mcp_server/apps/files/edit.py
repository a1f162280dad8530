"""Replaces exact text in a file; encoding, line ends and byte order mark are kept."""

from dataclasses import dataclass

from nextcloud_mcp_server.documents import charset
from nextcloud_mcp_server.documents.charset import Charset
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import line_ends, passage


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a file, with its encoding."""

    text: str
    charset: Charset

    @classmethod
    def of(cls, data: bytes) -> "Text":
        """Decode the content of a file.

        Raises:
          InvalidInput: It is not text, or contains bytes that could not be written back unchanged.
        """
        found = charset.of_file(data)
        if found is None:
            raise InvalidInput("The file is not text, so it cannot be edited here.")
        try:
            return cls(found.open(data), found)
        except UnicodeError:
            raise InvalidInput(
                f"The file holds bytes that are not {found.label}, which editing would lose. Write it as a whole "
                "with nc_files_write_file."
            ) from None

    def replace(self, old: str, new: str, *, every: bool) -> tuple[bytes, int]:
        """Replace text as `replace` does, and return the new bytes and the number of replacements.

        Raises:
          InvalidInput: As `replace`; or the file's encoding lacks a character of `new`.
        """
        edited, count = replace(self.text, old, new, every=every)
        try:
            new.encode(self.charset.codec)
        except UnicodeEncodeError as error:
            lacking = new[error.start]
            raise InvalidInput(
                f"The file is encoded as {self.charset.label}, which has no '{lacking}' (U+{ord(lacking):04X}, "
                f"character {error.start + 1} of 'new_text'), so nothing was changed. Leave it out, or write the "
                "whole file with nc_files_write_file, which makes it UTF-8."
            ) from None
        return self.charset.close(edited), count


def replace(text: str, old: str, new: str, *, every: bool) -> tuple[str, int]:
    """Replace the single occurrence of `old`, or with `every` all of them; return also their number.

    Raises:
      InvalidInput: There is none, or several without `every`, nothing would change, or the new text would be too
        long.
    """
    if not old:
        raise InvalidInput("'old_text' is empty: send the text to replace.")
    if old not in text:
        # Models write \n, whatever line ends they have read.
        old = _with_line_ends_of(text, old)
    new = _with_line_ends_of(text, new)
    found = passage.times(text, old)
    if not found:
        raise InvalidInput(
            "The file does not hold 'old_text' (0 matches); it is compared character by character. Read the "
            "file again and copy the passage from it."
        )
    if found > 1 and not every:
        raise InvalidInput(
            f"The file holds 'old_text' {passage.in_words(found)}. Send more of what stands around the one you "
            "mean, or set replace_all."
        )
    if old == new:
        raise InvalidInput("'new_text' equals 'old_text', so there is nothing to change.")
    return passage.replace_every(text, old, new)


def _with_line_ends_of(text: str, part: str) -> str:
    newlines, windows = text.count("\n"), text.count("\r\n")
    if not newlines and "\r" in text:
        # The line end of Macs before 2001.
        return line_ends.written(part, "\r")
    return line_ends.written(part, "\r\n") if windows * 2 > newlines else part
