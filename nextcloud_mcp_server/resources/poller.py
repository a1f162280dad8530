"""Polls Nextcloud for changes of subscribed resources: one poll for all clients of a user.

Nothing is requested while a user's clients have no subscriptions, or while none of them can receive updates: many
clients leave without notice, and return with a new session. Each poll uses the user's grants. A client without access
loses its subscriptions, and without subscriptions the polls end.
"""

import logging
import random
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from math import inf

import anyio
from anyio.abc import TaskGroup
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated

from nextcloud_mcp_server.auth.accounts import Opened
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import (
    CredentialRejected,
    NextcloudMcpError,
    StorageError,
    Throttled,
    Unavailable,
    Unreachable,
    WrongAccount,
)
from nextcloud_mcp_server.nextcloud import memory_permit
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.resources.catalogue import Catalogue
from nextcloud_mcp_server.resources.interest import MAX_ADDRESSES, MAX_INTERESTS, Interest
from nextcloud_mcp_server.resources.kind import Kind, Marks
from nextcloud_mcp_server.tools.apps import apps_of
from nextcloud_mcp_server.tools.state import State, ToolServices

logger = logging.getLogger(__name__)

#: The maximum number of users polled for; others can subscribe when one of them has left.
MAX_PEOPLE = 1000

#: The maximum number of concurrent polls, for all users together.
AT_ONCE = 8

#: The longest interval: a Nextcloud that does not answer is polled less and less often, down to this.
SLOWEST_SECONDS = 900.0

#: The minimum time between two polls, however often a client subscribes or changes something. A client's own changes
#: are reported within a second.
GAP_SECONDS = 0.5

#: Errors that affect all kinds, not one app.
_NOT_NOW = (Unavailable, Unreachable, Throttled, StorageError)


@dataclass(eq=False, slots=True)
class _Person:
    interests: list[Interest] = field(default_factory=list[Interest])
    marks: dict[str, Marks] = field(default_factory=dict[str, Marks])
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    wake: anyio.Event = field(default_factory=anyio.Event)
    # None until the first poll; "" while none of the user's clients has access.
    account: str | None = None
    called: bool = False
    # When the earliest call began of those that may have changed something since the last poll.
    wrote: float | None = None
    # When the first look at each watched resource ended, by address.
    first_looks: dict[str, float] = field(default_factory=dict[str, float])
    # No client can receive updates at present, so nothing is polled.
    idle: bool = False
    failures: int = 0


class Poller:
    """Polls for every user whose clients have subscriptions."""

    def __init__(
        self,
        catalogue: Catalogue,
        state: State,
        *,
        seconds: float,
        gap_seconds: float = GAP_SECONDS,
        max_people: int = MAX_PEOPLE,
    ) -> None:
        self._catalogue = catalogue
        self._state = state
        self._seconds = seconds
        self._gap_seconds = gap_seconds
        self._max_people = max_people
        self._people: dict[Hashable, _Person] = {}
        self._limit = anyio.CapacityLimiter(AT_ONCE)
        self._group: TaskGroup | None = None
        state.availability.on_call = self._called
        state.availability.on_write = self._wrote
        state.availability.change_notifier.on_stream = self._stream_opened

    def takes(self, interest: Interest) -> bool:
        """Tell whether one more URI of this session or stream can be watched."""
        person = self._people.get(interest.caller.principal)
        if person is None:
            return len(self._people) < self._max_people
        others = [each for each in person.interests if each is not interest]
        addresses = sum(len(each.wants) for each in (*others, interest))
        return addresses < MAX_ADDRESSES and len(others) < MAX_INTERESTS

    def add(self, interest: Interest) -> None:
        """Add a session or stream, or update it after its subscriptions have grown."""
        owner = interest.caller.principal
        person = self._people.get(owner)
        if person is None:
            person = self._people[owner] = _Person()
            if self._group is not None:
                self._group.start_soon(self._follow, owner, person)
        if interest not in person.interests:
            person.interests.append(interest)
        person.wake.set()

    def remove(self, interest: Interest) -> None:
        """Remove a session or stream; after the last of a user's the polls end at once."""
        owner = interest.caller.principal
        person = self._people.get(owner)
        if person is None or interest not in person.interests:
            return
        person.interests.remove(interest)
        if not person.interests:
            del self._people[owner]
            person.scope.cancel()

    async def run(self) -> None:
        """Poll for as long as the server runs."""
        async with anyio.create_task_group() as group:
            self._group = group
            for owner, person in self._people.items():
                group.start_soon(self._follow, owner, person)
            await anyio.sleep_forever()

    def _called(self, owner: Hashable) -> None:
        """Poll again, after a call of this user has succeeded."""
        person = self._people.get(owner)
        if person is not None and not person.account:
            person.called = True
            person.wake.set()

    def _wrote(self, owner: Hashable, began: float) -> None:
        """Poll at once after a call that may have changed something, for all clients of the user."""
        person = self._people.get(owner)
        if person is not None:
            person.wrote = _earliest(person.wrote, began)
            if _attended(person):
                person.wake.set()

    def _stream_opened(self) -> None:
        """Poll again for clients with a reopened stream, and send them what changed meanwhile."""
        for person in self._people.values():
            if person.idle and _attended(person):
                person.wake.set()

    async def _follow(self, owner: Hashable, person: _Person) -> None:
        with person.scope:
            while True:
                person.wake = anyio.Event()
                await self._pause(person, await self._turn(owner, person))

    async def _pause(self, person: _Person, seconds: float) -> None:
        # Random, so that the polls of many users do not coincide.
        seconds *= random.uniform(0.8, 1.2)  # noqa: S311 - not a secret
        # While Nextcloud has errors, no action of a client brings the next poll forward.
        woken = anyio.Event() if person.failures else person.wake
        await anyio.sleep(min(self._gap_seconds, seconds))
        with anyio.move_on_after(max(0.0, seconds - self._gap_seconds)):
            await woken.wait()

    async def _turn(self, owner: Hashable, person: _Person) -> float:
        """Poll once; return the seconds until the next poll."""
        try:
            async with self._limit:
                seconds = await self._look(owner, person)
        except Throttled as error:
            logger.info("a look for changes was refused: %s", error)
            return max(self._later(person), error.retry_after_seconds or 0.0)
        except NextcloudMcpError as error:
            logger.info("a look for changes failed: %s", error)
            return self._later(person)
        except Exception:  # a supervisor: the polls for this user must survive an unexpected error
            logger.exception("a look for changes failed")
            return self._later(person)
        person.failures = 0
        return seconds

    def _later(self, person: _Person) -> float:
        person.failures += 1
        return min(self._seconds * 2**person.failures, SLOWEST_SECONDS)

    async def _look(self, owner: Hashable, person: _Person) -> float:
        known = person.called or self._state.availability.knows(owner)
        if not known and not any(each.wants for each in person.interests):
            # Before the first call of a user there is nothing to poll, and no database is opened for it.
            return inf
        services = await self._state.services()
        opened = await self._opened(services, person)
        caller, first = next(iter(opened.items()), (None, None))
        await self._tell_about_access(owner, person, first.account.uid if first else "")
        if caller is None or first is None:
            return inf
        try:
            updates, lists = await self._changes(person, first, opened)
        except CredentialRejected:
            await services.accounts.reject(caller, first)
            # The credential was refreshed or removed; the next poll uses what there is.
            return 0.0
        except WrongAccount:
            await services.audit.record(
                caller, action="look for changes", result="WrongAccount", detail="", request_id="", now=True
            )
            for each in list(person.interests):
                await each.lose(list(each.wants))
            return inf
        availability = self._state.availability
        await availability.change_notifier.tell(owner, *updates)
        if lists:
            # Another client of this user may know less than the one for which the list was looked at.
            hearing = await self._readers(services, owner, lists)
            await availability.change_notifier.tell(owner, ResourcesListChanged(), to=hearing.__contains__)
        apps = apps_of(services, caller, first, in_menu=availability.in_menu)
        availability.learn(owner, apps, account=first.account.uid)
        person.idle = not _attended(person)
        return inf if person.idle else self._seconds

    async def _opened(self, services: ToolServices, person: _Person) -> dict[Caller, Opened]:
        """Open the account of each client, and remove the subscriptions that it may no longer have."""
        opened: dict[Caller, Opened] = {}
        for interest in list(person.interests):
            caller = interest.caller
            found = opened.get(caller) or await services.accounts.find(caller)
            if found is not None:
                opened[caller] = found
            lost = [uri for uri, (kind, _) in interest.wants.items() if not self._may(caller, kind, found)]
            if lost:
                await interest.lose(lost)
        return opened

    async def _readers(
        self, services: ToolServices, owner: Hashable, kinds: Collection[Kind]
    ) -> frozenset[Caller | None]:
        """Return the callers with a session or stream that may read some of these kinds."""
        found: set[Caller] = set()
        for caller in self._state.availability.change_notifier.callers(owner):
            try:
                opened = await services.accounts.find(caller)
            except NextcloudMcpError as error:
                # The others are told all the same: the change is not seen again.
                logger.info("a client does not hear of a changed list: %s", error)
                continue
            if any(self._may(caller, kind, opened) for kind in kinds):
                found.add(caller)
        return frozenset(found)

    def _may(self, caller: Caller, kind: Kind, opened: Opened | None) -> bool:
        return (
            opened is not None
            and kind.about.scopes <= opened.scopes
            and not self._state.availability.lacks(caller.principal, self._catalogue.app_of(kind))
        )

    async def _tell_about_access(self, owner: Hashable, person: _Person, account: str) -> None:
        """Report changed lists when access begins, ends, or is to another account."""
        before, person.account = person.account, account
        if before is not None and before != account:
            # Equal marks of two accounts can stand for different things.
            person.marks.clear()
            changed = {ResourceUpdated(uri) for one in person.interests for uri in one.wants}
            await self._state.availability.change_notifier.tell(owner, ResourcesListChanged(), *changed)

    async def _changes(
        self, person: _Person, first: Opened, opened: dict[Caller, Opened]
    ) -> tuple[list[ResourceUpdated], list[Kind]]:
        """Compare the watched resources with the last poll; return those that changed, and the kinds whose list did.

        All clients of a user share one account.

        A poll that fails changes nothing, so that the next one reports what it would have reported.
        """
        wrote, person.wrote = person.wrote, None
        try:
            updates, changed, marks, first_looks = await self._compare(person, first, opened, wrote)
        except BaseException:  # raised again: also a cancelled poll has told nothing
            person.wrote = _earliest(wrote, person.wrote)
            raise
        person.marks |= marks
        person.first_looks = first_looks
        return sorted(set(updates), key=repr), changed

    async def _compare(
        self, person: _Person, first: Opened, opened: dict[Caller, Opened], wrote: float | None
    ) -> tuple[list[ResourceUpdated], list[Kind], dict[str, Marks], dict[str, float]]:
        """Return what changed (as `_changes`), the new marks by kind, and when the first look at each address ended."""
        wanted: dict[str, dict[str, str]] = {}
        for interest in person.interests:
            for uri, (kind, value) in interest.wants.items():
                wanted.setdefault(kind.about.name, {})[uri] = value
        updates: list[ResourceUpdated] = []
        changed: list[Kind] = []
        marks: dict[str, Marks] = {}
        first_looks: dict[str, float] = {}
        for kind in self._catalogue.kinds:
            name = kind.about.name
            lists = any(
                one.hears_of(kind) and self._may(one.caller, kind, opened.get(one.caller))
                for one in person.interests
            )
            if name in wanted or lists:
                before = person.marks.get(name)
                uris = wanted.get(name, {})
                now = marks[name] = await self._marks(
                    kind, first.account, uris.values(), before, listing=lists
                )
                ended = anyio.current_time()
                first_looks.update({uri: person.first_looks.get(uri, ended) for uri in uris})
                updates += _updated(uris, before, now, wrote=wrote is not None)
                changed += [kind] if _list_changed(before, now) else []
                # The first look may have seen what a call changed that had not ended yet.
                updates += [
                    ResourceUpdated(uri)
                    for uri in uris
                    if wrote is not None and wrote <= person.first_looks.get(uri, -inf)
                ]
        return updates, changed, marks, first_looks

    async def _marks(
        self, kind: Kind, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        try:
            async with memory_permit.of_call():
                return await kind.look(nc, set(values), before, listing=listing)
        except (CredentialRejected, WrongAccount, *_NOT_NOW):
            raise
        except NextcloudMcpError as error:
            # An app that fails must not hide changes in the others.
            logger.info("a look at the resources of one kind failed: %s", error)
            return before or Marks({})


def _earliest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)


def _attended(person: _Person) -> bool:
    return any(interest.attended() for interest in person.interests)


def _updated(uris: dict[str, str], before: Marks | None, now: Marks, *, wrote: bool) -> list[ResourceUpdated]:
    """Return the differences; with `wrote`, values without an earlier mark count as changed."""
    if before is None:
        return [ResourceUpdated(uri) for uri in uris if wrote]
    return [
        ResourceUpdated(uri)
        for uri, value in uris.items()
        if (before.each[value] != now.each.get(value, before.each[value]) if value in before.each else wrote)
    ]


def _list_changed(before: Marks | None, now: Marks) -> bool:
    return before is not None and None not in (before.listing, now.listing) and before.listing != now.listing
