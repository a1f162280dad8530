"""What files can be searched by."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav

Kind = Literal["file", "folder", "image", "video", "audio", "text", "pdf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Conditions that must all hold; None asks for nothing."""

    folder: str = "/"
    name: str | None = None
    kind: Kind | None = None
    min_size: int | None = None
    max_size: int | None = None
    modified_after: datetime | None = None
    modified_before: datetime | None = None
    favourite: bool = False

    def conditions(self) -> list[str]:
        """Write them for a SEARCH body.

        Raises:
            InvalidInput: There is none, which would list everything there is.
        """
        found: list[str] = []
        if self.name and any(ord(character) < dav.FIRST_PRINTABLE for character in self.name):
            raise errors.InvalidInput("No name holds control characters such as line breaks.")
        if self.name:
            found.append(dav.like("d:displayname", self.name))
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
        if not found:
            raise errors.InvalidInput("Say what to search for: a part of the name, a kind, a size or a date.")
        return found


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
    # Nextcloud reads DateTimeInterface::ATOM and takes anything else for 1970.
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")
