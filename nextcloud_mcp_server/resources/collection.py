"""The skeleton of kinds whose resources are members of collections: events of calendars, contacts of address books."""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol

from pydantic import ConfigDict, TypeAdapter, ValidationError

from nextcloud_mcp_server.errors import InvalidInput, NotFound
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.watch import Place
from nextcloud_mcp_server.resources import kind
from nextcloud_mcp_server.resources.kind import About, Contents, Listed, Marks, Page, Reader, Typed
from nextcloud_mcp_server.tools.result import Result

#: The collection of a page, and where in it the page begins.
_CURSOR = TypeAdapter(tuple[str, str | None], config=ConfigDict(defer_build=True))
_NOT_OF_THIS_LIST: Final = "That cursor does not belong to this list; list again without one."


class Named(Protocol):
    """A collection, such as a calendar; its members have its id in their URIs."""

    @property
    def id(self) -> str: ...  # noqa: D102 - a field
    @property
    def name(self) -> str: ...  # noqa: D102 - a field


class Member(NamedTuple):
    """A member: its value in a URI, and its title."""

    value: str
    title: str


class Collections(ABC):
    """A kind of members: an app says what collections and members there are."""

    about: About
    place: Place
    too_large: str

    @abstractmethod
    async def collections(self, nc: Account) -> Sequence[Named]:
        """Fetch the collections."""

    @abstractmethod
    async def rows(self, nc: Account, name: str, cursor: str | None) -> tuple[list[Member], str | None]:
        """Fetch a page of a collection, with the titles of a list, and the cursor of what follows in it."""

    @abstractmethod
    def members(self, nc: Account, name: str) -> AsyncGenerator[Member]:
        """Fetch the members of a collection that a completion offers.

        Raises:
          NotFound: There is no such collection.
        """

    @abstractmethod
    async def details(self, nc: Account, value: str) -> Result:
        """Fetch one member, as the tool that reads it does."""

    async def page(self, nc: Account, cursor: str | None) -> Page:
        """List a page of one collection, one collection after another."""
        wanted, inner = _read(cursor)
        names = [each.id for each in await self.collections(nc)]
        if not names:
            return Page([])
        if wanted is not None and wanted not in names:
            raise InvalidInput(_NOT_OF_THIS_LIST)
        here = 0 if wanted is None else names.index(wanted)
        found, more = await self.rows(nc, names[here], inner)
        rows = [Listed(self.about.uri(value), title, kind.JSON) for value, title in found]
        if more is not None:
            return Page(rows, json.dumps([names[here], more]))
        return Page(rows, json.dumps([names[here + 1], None]) if here + 1 < len(names) else None)

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:  # noqa: ARG002 - the form of a kind
        """Return all details of a member."""
        text = (await self.details(nc, value)).model_dump_json(exclude_none=True)
        return kind.whole(text, kind.JSON, too_large=self.too_large)

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        """Fetch the states of all collections, and the etags of members only where the state has changed."""
        states = await nc.watch.states(self.place)
        old: Mapping[str, str] = before.state if before else {}
        known: Mapping[str, str] = before.each if before else {}
        each: dict[str, str] = {}
        for value in values:
            state = states.get(value.partition("/")[0])
            if value in known and state is not None and state == old.get(value.partition("/")[0]):
                each[value] = known[value]
        each |= await nc.watch.etags(self.place, [value for value in values if value not in each])
        return Marks(each, kind.fingerprint(states.items()) if listing else None, states)

    async def complete(self, nc: Account, typed: Typed) -> list[str]:
        """Find collections by name, and members of one collection by title."""
        if typed.name == self.about.argument:
            found = await self.collections(nc)
            return [each.id for each in found if _begins(typed.value, each.id, each.name)]
        try:
            async with aclosing(self.members(nc, typed.others.get(self.about.argument, ""))) as members:
                named = [(value.partition("/")[2], title) async for value, title in members]
        except (NotFound, InvalidInput):
            return []
        return [name for name, title in named if _begins(typed.value, name, title)]


def _read(cursor: str | None) -> tuple[str | None, str | None]:
    if cursor is None:
        return None, None
    try:
        return _CURSOR.validate_json(cursor)
    except ValidationError:
        raise InvalidInput(_NOT_OF_THIS_LIST) from None


def _begins(value: str, name: str, title: str) -> bool:
    """Tell whether typed text matches: the beginning of a name, or words of a title."""
    return name.casefold().startswith(value.casefold()) or all(
        word in title.casefold() for word in value.casefold().split()
    )
