"""What a kind of resource is: an address, a way to list, read and complete, and what it needs."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote, unquote

from nextcloud_mcp_server.errors import NotFound
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.sanitize import meant, quoted, shown
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.progress import Progress

SCHEME = "nc://"

#: Texts and pictures alike: about 25,000 tokens, the same as for the answer of a tool.
MAX_BYTES = 80_000

#: MCP allows a hundred values in one answer.
MAX_VALUES = 100
#: A path of 4,000 bytes is shorter, also with every character of it escaped twice.
_LONGEST_URI = 65_536


@dataclass(frozen=True, slots=True)
class Listed:
    """One row of a list: `name` is what a person sees, sizes are bytes."""

    uri: str
    name: str
    mime_type: str
    size: int | None = None
    modified: datetime | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """What a resource holds: a text, or bytes."""

    data: str | bytes
    mime_type: str


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of a list, and the kind's own word for where the next ones begin."""

    rows: list[Listed]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """What a kind looked like, to compare with later: something else here means that something changed.

    `each` has a mark for each value that was asked for, empty where nothing is; `listing` is the mark
    of what is listed, None where that was not looked at. `state` is the kind's own, for its next look.
    """

    each: Mapping[str, str]
    listing: str | None = None
    state: Any = None


@dataclass(frozen=True, slots=True)
class Typed:
    """What a user has typed of one argument of an address, and the other arguments they have filled in."""

    name: str
    value: str
    others: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Reader:
    """What the server has for reading: the way to the text of documents, and whom to tell how far it is."""

    documents: Documents
    progress: Progress


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a kind before anyone is connected.

    `template` is an RFC 6570 template, or the whole address where there is but one resource of the
    kind; with two arguments, `argument` is the first, and a value has both with a slash between.
    `action` and `listing` are how the audit names reading one and listing them.
    """

    toolset: str
    scopes: frozenset[str]
    template: str
    argument: str
    name: str
    title: str
    description: str
    mime_type: str | None
    action: str
    listing: str

    @property
    def prefix(self) -> str:
        """The address up to the argument."""
        return self.template.partition("{")[0]

    def uri(self, value: str) -> str:
        """Write the address of one resource."""
        parts = "{+" in self.template or self.template.count("{") > 1
        return self.prefix + quote(shown(value), safe="/" if parts else "")

    def value(self, uri: str) -> str | None:
        """Read the argument out of an address; None when it is none of this kind, or longer than any."""
        if len(uri) > _LONGEST_URI:
            return None
        if not self.argument:
            return "" if uri == self.template else None
        return meant(unquote(uri[len(self.prefix) :])) if uri.startswith(self.prefix) else None


class Kind(Protocol):
    """A kind of resource of one person."""

    about: About

    async def page(self, nc: Account, cursor: str | None) -> Page:
        """List some.

        Raises:
            InvalidInput: The cursor is none of this kind.
        """
        ...

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:
        """Read one.

        Raises:
            NotFound: There is none.
            TooLarge: It does not fit into one answer.
        """
        ...

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        """Look at etags: those of these values, and at what is listed where that is wanted too.

        `before` is the last look, if there was one: what cannot have changed is not looked at again.
        """
        ...

    async def complete(self, nc: Account, typed: Typed) -> list[str]:
        """Find values that go on from what a user has typed."""
        ...


def fingerprint(seen: Iterable[object]) -> str:
    """Make one short mark out of many things, in whatever order they come."""
    return hashlib.sha256("\n".join(sorted(map(repr, seen))).encode()).hexdigest()


def no_such(uri: str) -> NotFound:
    """Say that nothing is there: the id of another user and an unknown one look the same."""
    return NotFound(
        f"There is no resource {quoted(uri)} that you can read. Take an address from the list of resources, "
        "or make one as a template says."
    )
