"""Replaces exact text in a file's text; line ends and a byte order mark stay what they are."""

import re

from nextcloud_mcp_server.errors import InvalidInput


def replace(text: str, old: str, new: str, *, every: bool) -> tuple[str, int]:
    """Replace the one passage that is exactly `old`, or every one; tells how many.

    Raises:
        InvalidInput: It is not there, or more than once without `every`, or nothing would change.
    """
    if not old:
        raise InvalidInput("'old_text' is empty: send the text to replace.")
    if old not in text:
        # Models write \n whatever they read.
        old = _with_line_ends_of(text, old)
    new = _with_line_ends_of(text, new)
    count = text.count(old)
    if not count:
        raise InvalidInput(
            "The file does not hold 'old_text' (0 matches); it is compared character by character. Read the "
            "file again and copy the passage from it."
        )
    # From the next character on, so that overlapping passages count as well.
    overlapping = len(re.findall(f"(?={re.escape(old)})", text))
    if overlapping > 1 and not every:
        raise InvalidInput(
            f"The file holds 'old_text' {overlapping} times. Send more of what stands around the one you "
            "mean, or set replace_all."
        )
    if old == new:
        raise InvalidInput("'new_text' equals 'old_text', so there is nothing to change.")
    return text.replace(old, new), count


def _with_line_ends_of(text: str, passage: str) -> str:
    windows = text.count("\r\n") * 2 > text.count("\n")
    return re.sub(r"\r?\n", "\r\n", passage) if windows else passage
