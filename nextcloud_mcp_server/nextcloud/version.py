"""The version of a file as tools show it: etag, size and time in one opaque string.

WebDAV etags have one-second resolution on local storage: two writes in the same second share one, and a stale
`If-Match` then succeeds. So the etag that tools return also contains size and time, and a write compares them all.
Storages without etags are compared by size and time alone.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud import etag as etags

_WORD: Final = re.compile(r"(?P<etag>.*)~(?P<size>\d{0,20})~(?P<time>\d{0,20})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Version:
    """The state of a file; None where a value is unknown."""

    etag: str | None
    size: int | None = None
    seconds: int | None = None

    @classmethod
    def of(cls, etag: str | None, size: int | None, modified_at: datetime | None) -> "Version":
        """Build from the values of a response."""
        return cls(etag, size, int(modified_at.timestamp()) if modified_at else None)

    @classmethod
    def parse(cls, word: str) -> "Version":
        """Parse a version that a client sent; a bare etag is accepted too."""
        found = _WORD.fullmatch(word.strip())
        if found is None:
            return cls(etags.normalise(word) or None)
        size, seconds = found["size"], found["time"]
        return cls(
            etags.normalise(found["etag"]) or None,
            int(size) if size else None,
            int(seconds) if seconds else None,
        )

    def __str__(self) -> str:
        size = "" if self.size is None else self.size
        return f"{self.etag or ''}~{size}~{'' if self.seconds is None else self.seconds}"

    def agrees_with(self, current: "Version") -> bool:
        """Tell whether no known value differs, and at least one could be compared."""
        pairs = ((self.etag, current.etag), (self.size, current.size), (self.seconds, current.seconds))
        compared = [mine == theirs for mine, theirs in pairs if mine is not None and theirs is not None]
        return bool(compared) and all(compared)

    @property
    def modified_at(self) -> datetime | None:
        """The time of the last change."""
        return None if self.seconds is None else timestamp.moment(self.seconds)
