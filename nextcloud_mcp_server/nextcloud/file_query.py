"""Search conditions for files."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.spelling import composed, folded

_IS_FOLDER: Final = "<d:is-collection/>"

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
        found = [_named(self.name)] if self.name else []
        if self.any_word:
            found.append(f"<d:or>{''.join(map(_named, self.any_word))}</d:or>")
        if self.kind:
            found.append(_of_kind(self.kind))
        compared = (
            ("gte", "oc:size", self.min_size),
            ("lte", "oc:size", self.max_size),
            ("gte", "d:getlastmodified", self.modified_after),
            ("lte", "d:getlastmodified", self.modified_before),
            ("eq", "oc:favorite", "yes" if self.favourite else None),
        )
        found += [dav.compare(how, what, _value(value)) for how, what, value in compared if value is not None]
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
            return _IS_FOLDER
        case "file":
            return f"<d:not>{_IS_FOLDER}</d:not>"
        case "pdf":
            return dav.compare("eq", "d:getcontenttype", "application/pdf")
        case _:
            return dav.compare("like", "d:getcontenttype", f"{kind}/%")


def _value(value: str | int | datetime) -> str:
    # Nextcloud reads DateTimeInterface::ATOM and takes any other form for 1970.
    is_moment = isinstance(value, datetime)
    return value.astimezone(UTC).replace(microsecond=0).isoformat() if is_moment else str(value)
