"""Limits on a JSON text, checked while it arrives and before it is parsed.

Python creates an object for every element and blocks the event loop meanwhile: 4 MB of `{},` are 1.4 million
elements and took seconds. One scan over the bytes counts them without creating any.
"""

import re

from nextcloud_mcp_server.auth.strict_json import MAX_DEPTH

#: Members of objects and elements of arrays together. A string is one element, however long, so the arguments of
#: tools are far below.
MAX_ELEMENTS = 20_000

# Possessive quantifiers: no byte is read twice, whatever the input. An unterminated string reaches to the end of
# the chunk.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_OPENING = frozenset((b"[", b"{"))
_BRACKET = re.compile(rb"[\[\]{}]")


class JsonBounds:
    """Counts the elements and the depth of one JSON text, chunk by chunk; does not check its syntax."""

    def __init__(self, *, max_elements: int = MAX_ELEMENTS, max_depth: int = MAX_DEPTH) -> None:
        self._max_elements = max_elements
        self._max_depth = max_depth
        self.elements = 0
        self._strings = 0
        self._depth = 0
        self._in_string = False
        self._after_backslash = False

    def feed(self, chunk: bytes) -> None:
        """Count the elements of the next chunk.

        Raises:
            ValueError: The text has too many elements or is nested too deeply; the message says which.
        """
        if not chunk:
            return
        at = self._end_of_string(chunk) if self._in_string else 0
        while not self._in_string and at < len(chunk):
            found = _STRING.search(chunk, at)
            self._count(chunk, at, len(chunk) if found is None else found.start())
            if found is None:
                return
            # Between two strings there is a comma or a colon, or the text is no JSON.
            self._strings += 1
            if self._strings > 2 * self._max_elements + 1:
                raise self._too_many()
            at = self._after(chunk, found)

    def _end_of_string(self, chunk: bytes) -> int:
        start = 1 if self._after_backslash else 0
        return next(self._after(chunk, found) for found in _REST_OF_STRING.finditer(chunk, start))

    def _after(self, chunk: bytes, found: re.Match[bytes]) -> int:
        self._in_string = not found[1]
        # What the pattern leaves of an unterminated string is the first half of an escape.
        self._after_backslash = self._in_string and found.end() < len(chunk)
        return found.end()

    def _count(self, chunk: bytes, start: int, end: int) -> None:
        elements, depth = self.elements + chunk.count(b",", start, end), self._depth
        for bracket in _BRACKET.findall(chunk, start, end):
            if bracket in _OPENING:
                elements += 1
                depth += 1
                if depth > self._max_depth:
                    raise ValueError("it is nested too deeply")
            else:
                depth -= 1
                if depth < 0:
                    raise ValueError("it is not JSON")
        self.elements, self._depth = elements, depth
        if elements > self._max_elements:
            raise self._too_many()

    def _too_many(self) -> ValueError:
        return ValueError(f"it has more than {self._max_elements:,} elements")
