"""The interface of a kind of resource: its URI, listing, reading, completion and requirements."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote, unquote

from nextcloud_mcp_server.errors import NotFound, TooLarge
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.sanitize import meant, quoted, shown
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.progress import Progress

JSON = "application/json"

#: For texts and pictures: about 25,000 tokens, as for the result of a tool.
MAX_BYTES = 80_000

#: The maximum that MCP allows in one response.
MAX_VALUES = 100

#: Longer than any name or path; a longer value is completed by nothing.
LONGEST_VALUE = 4_096
#: Longer than a path of 4,000 bytes in which every character is escaped twice.
_LONGEST_URI = 65_536


@dataclass(frozen=True, slots=True)
class Listed:
    """One row of a list: `name` is shown to users, sizes are bytes."""

    uri: str
    name: str
    mime_type: str
    size: int | None = None
    modified: datetime | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a resource: text, or bytes."""

    data: str | bytes
    mime_type: str


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of a list, and the cursor of the kind for the next ones."""

    rows: list[Listed]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """The state of a kind, for comparison with a later one: a difference means a change.

    `each` has a mark for each requested value, empty where nothing exists. `listing` is the mark of the list, None
    where that was not requested. `state` is private to the kind, for the next check.
    """

    each: Mapping[str, str]
    listing: str | None = None
    state: Any = None


@dataclass(frozen=True, slots=True)
class Typed:
    """The text typed for one argument of a URI, and the arguments completed before."""

    name: str
    value: str
    others: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Reader:
    """What the server provides for reading: the extraction of documents, and the progress report."""

    documents: Documents
    progress: Progress


@dataclass(frozen=True, slots=True)
class About:
    """The static description of a kind.

    `template` is an RFC 6570 template, or the whole URI of a kind with one resource; a value contains all its
    arguments with a slash between them. `action` and `listing` are the audit's names for reading and listing. `free`
    kinds require no scope, all others that for reading what the toolset reads.
    """

    toolset: str
    template: str
    name: str
    title: str
    description: str
    action: str
    listing: str
    mime_type: str | None = JSON
    free: bool = False

    @property
    def prefix(self) -> str:
        """The URI up to the argument."""
        return self.template.partition("{")[0]

    @property
    def argument(self) -> str:
        """The first argument of the template."""
        return self.template.partition("{")[2].partition("}")[0].lstrip("+")

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that it requires."""
        return frozenset() if self.free else frozenset({f"{self.toolset}:read"})

    def uri(self, value: str) -> str:
        """Return the URI of one resource."""
        parts = "{+" in self.template or self.template.count("{") > 1
        return self.prefix + quote(shown(value), safe="/" if parts else "")

    def value(self, uri: str) -> str | None:
        """Return the value in a URI; None when it is of another kind, or too long."""
        if len(uri) > _LONGEST_URI:
            return None
        if not self.argument:
            return "" if uri == self.template else None
        return meant(unquote(uri[len(self.prefix) :])) if uri.startswith(self.prefix) else None


class Kind(Protocol):
    """A kind of resource of one user."""

    about: About

    async def page(self, nc: Account, cursor: str | None) -> Page:
        """List one page.

        Raises:
          InvalidInput: The cursor is not of this kind.
        """
        ...

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:
        """Read one resource.

        Raises:
          NotFound: It does not exist.
          TooLarge: It does not fit into one response.
        """
        ...

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        """Fetch the marks of these values by their etags, and with `listing` that of the list.

        `before` is the previous result, if any: what cannot have changed is not fetched again.
        """
        ...

    async def complete(self, nc: Account, typed: Typed) -> list[str]:
        """Return values that complete the typed text."""
        ...


def whole(text: str, mime_type: str, *, too_large: str) -> Contents:
    """Return a text as the content of a resource.

    Raises:
      TooLarge: It does not fit into one response.
    """
    # A text of megabytes is not copied to be measured.
    if len(text) > MAX_BYTES or len(text.encode()) > MAX_BYTES:
        raise TooLarge(too_large)
    return Contents(text, mime_type)


def fingerprint(seen: Iterable[object]) -> str:
    """Return one short mark for many values, independent of their order."""
    return hashlib.sha256("\n".join(sorted(map(repr, seen))).encode()).hexdigest()


def no_such(uri: str) -> NotFound:
    """Return the error for a missing resource: the same for unknown ids and those of other users."""
    return NotFound(
        f"There is no resource {quoted(uri)} that you can read. Take an address from the list of resources, "
        "or make one as a template says."
    )
