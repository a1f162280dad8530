"""Search conditions for files."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.spelling import composed, folded

Kind = Literal["file", "folder", "image", "video", "audio", "text", "pdf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Conditions that must all hold; None is no condition."""

    folder: str = "/"
    name: str | None = None
    any_word: tuple[str, ...] = ()
    kind: Kind | None = None
    min_size: int | None = None
    max_size: int | None = None
    modified_after: datetime | None = None
    modified_before: datetime | None = None
    favourite: bool = False
    tag: str | None = None
    content: str | None = None

    def check(self) -> None:
        """Check that the conditions can be searched.

        Raises:
          InvalidInput: There is no condition, which would list everything; or two that Nextcloud cannot combine.
        """
        if self.tag and self.content:
            raise errors.InvalidInput("Search by tag or by content, not by both at once.")
        if self.name and any(ord(character) < dav.FIRST_PRINTABLE for character in self.name):
            raise errors.InvalidInput("No name holds control characters such as line breaks.")
        if not self.tag and not self.content and not self.conditions():
            raise errors.InvalidInput(
                "Say what to search for: a part of the name, a kind, a size, a date or a tag."
            )

    def matches(self, entry: Entry) -> bool:
        """Tell whether an entry fits, for conditions that Nextcloud cannot combine."""
        inside, modified = dav.split(self.folder), entry.modified_at
        return (
            len(entry.segments) > len(inside)
            and dav.same(entry.segments[: len(inside)], inside)
            and (not self.name or folded(self.name) in folded(entry.name))
            and (not self.any_word or any(folded(word) in folded(entry.name) for word in self.any_word))
            and (self.kind is None or _is_of_kind(entry, self.kind))
            and (self.min_size is None or (entry.size or 0) >= self.min_size)
            and (self.max_size is None or (entry.size or 0) <= self.max_size)
            and (self.modified_after is None or (modified is not None and modified >= self.modified_after))
            and (self.modified_before is None or (modified is not None and modified <= self.modified_before))
            and (entry.favourite or not self.favourite)
        )

    def conditions(self) -> list[str]:
        """Return the conditions for a SEARCH body."""
        found: list[str] = []
        if self.name:
            found.append(_named(self.name))
        if self.any_word:
            found.append(dav.any_of(_named(word) for word in self.any_word))
        if self.kind:
            found.append(_of_kind(self.kind))
        if self.min_size is not None:
            found.append(dav.at_least("oc:size", str(self.min_size)))
        if self.max_size is not None:
            found.append(dav.at_most("oc:size", str(self.max_size)))
        if self.modified_after:
            found.append(dav.at_least("d:getlastmodified", _moment(self.modified_after)))
        if self.modified_before:
            found.append(dav.at_most("d:getlastmodified", _moment(self.modified_before)))
        if self.favourite:
            found.append(dav.equals("oc:favorite", "yes"))
        return found


def _named(text: str) -> str:
    # Nextcloud stores names in NFC; a keyboard may send an accent as a separate character.
    return dav.like("d:displayname", composed(text))


def _is_of_kind(entry: Entry, kind: Kind) -> bool:
    if kind in ("folder", "file"):
        return entry.is_folder == (kind == "folder")
    wanted = "application/pdf" if kind == "pdf" else f"{kind}/"
    return entry.content_type.startswith(wanted)


def _of_kind(kind: Kind) -> str:
    match kind:
        case "folder":
            return dav.is_folder()
        case "file":
            return dav.negate(dav.is_folder())
        case "pdf":
            return dav.equals("d:getcontenttype", "application/pdf")
        case _:
            return dav.starts_with("d:getcontenttype", f"{kind}/")


def _moment(at: datetime) -> str:
    # Nextcloud reads DateTimeInterface::ATOM and takes any other form for 1970.
    return at.astimezone(UTC).replace(microsecond=0).isoformat()
