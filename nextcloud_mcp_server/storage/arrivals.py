"""Arrivals: people on their way to Nextcloud and back, and what they bring until it is decided about."""

import contextlib
import dataclasses
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import SecretStr
from sqlalchemy import ColumnElement, Row, and_, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, Seal, Sealed, hash_of
from nextcloud_mcp_server.storage.models import arrivals
from nextcloud_mcp_server.storage.oauth_records import Arrival, Arrived, CameBack, ClientRequest
from nextcloud_mcp_server.storage.outbox import insert_tokens, take_back
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.spent_codes import insert_spent
from nextcloud_mcp_server.storage.tokens import dump_tokens, load_tokens
from nextcloud_mcp_server.storage.transaction import Transactions


class ArrivalRepository:
    """Keeps arrivals for the browser that began them; never loses a token.

    `browser` is a random value that this browser alone has; of it and of `state` hashes are stored.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(self, arrival: Arrival, *, state: str, browser: str) -> None:
        """Store a trip that begins. Its id and its `state` are new and random."""
        details = {"arrival": _dump(arrival)}
        values = self._values(arrival, details, browser, state_hash=hash_of(state))
        async with self._transactions.writing() as connection:
            await connection.execute(insert(arrivals).values(values))

    async def take(self, state: str, *, browser: str) -> Arrival | None:
        """Take the trip that comes back; of all who try, one gets it.

        None when this browser did not begin it, when it is old or was taken before, and when its key is
        missing.
        """
        taking = (
            delete(arrivals)
            .where(
                arrivals.c.state_hash == hash_of(state),
                arrivals.c.browser_hash == hash_of(browser),
                arrivals.c.expires_at > self._transactions.now(),
            )
            .returning(arrivals)
        )
        async with self._transactions.writing() as connection:
            row = (await connection.execute(taking)).one_or_none()
        if row is None:
            return None
        try:
            return _load(_open(self._transactions.keys, row)["arrival"])
        except Unsealable:
            return None

    async def end(self, state: str, *, codes: Iterable[str]) -> bool:
        """End the sign-in that `state` belongs to, whichever browser began it, and spend the codes it brought.

        False when there is none, also when it was taken before; then nothing is written.
        """
        ending = delete(arrivals).where(arrivals.c.state_hash == hash_of(state))
        async with self._transactions.writing() as connection:
            ended = (await connection.execute(ending)).rowcount == 1
            if ended:
                await insert_spent(connection, codes, now=self._transactions.now())
        return ended

    async def hold(self, arrived: Arrived, *, browser: str, note: str | None = None) -> bool:
        """Store who came back and what Nextcloud gave, until they decide about it in this browser.

        It takes the place of the outbox's `note` about it. False, and nothing stored, when that is being
        worked off already.
        """
        values = self._values(
            arrived.arrival, _details(arrived), browser, state_hash=None, principal=arrived.principal
        )
        async with self._transactions.writing() as connection:
            held = await take_back(connection, note, now=self._transactions.now())
            if held:
                await connection.execute(insert(arrivals).values(values))
        return held

    async def find(self, arrival_id: str, *, browser: str) -> Arrived | None:
        """Read who came back in this browser; None when it is old, or another's.

        Raises:
            Unsealable: Its key is missing.
        """
        query = select(arrivals).where(self._back(arrival_id, browser))
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _arrived(self._transactions.keys, row)

    async def discard(self, arrival_id: str, *, browser: str, nextcloud_url: str) -> bool:
        """Have what Nextcloud gave ended there; False when there is nothing, or it is connected."""
        which = and_(self._back(arrival_id, browser), arrivals.c.connected.is_(False))
        return await self._release(which, nextcloud_url) > 0

    async def release_due(self, *, nextcloud_url: str) -> int:
        """Forget old ones, and have everything ended at Nextcloud that nobody can decide about any more.

        Tells how many of those there were. What cannot be opened stays: its key may be put back.
        """
        over = arrivals.c.expires_at <= self._transactions.now()
        # What never came back holds nothing, whoever could read it.
        never = and_(over, arrivals.c.state_hash.is_not(None))
        async with self._transactions.writing() as connection:
            await connection.execute(delete(arrivals).where(never))
        return await self._release(and_(over, arrivals.c.state_hash.is_(None)), nextcloud_url)

    def _values(
        self,
        arrival: Arrival,
        details: dict[str, Any],
        browser: str,
        *,
        state_hash: str | None,
        principal: Principal | None = None,
    ) -> dict[str, object]:
        id_hash, browser_hash = hash_of(arrival.id), hash_of(browser)
        seal = _place(self._transactions.keys, id_hash, browser_hash, state_hash)
        return {
            "id_hash": id_hash,
            "state_hash": state_hash,
            "browser_hash": browser_hash,
            "issuer": None if principal is None else principal.issuer,
            "subject": None if principal is None else principal.subject,
            "client_id": None if arrival.request is None else arrival.request.client_id,
            "details": _sealed(seal, details),
            "connected": False,
            "expires_at": arrival.expires_at,
        }

    async def _release(self, which: ColumnElement[bool], nextcloud_url: str) -> int:
        keys, released = self._transactions.keys, 0
        async with self._transactions.writing() as connection:
            for row in (await connection.execute(select(arrivals).where(which))).all():
                with contextlib.suppress(Unsealable):
                    arrived = _arrived(keys, row)
                    # Whoever deletes it ends it: two processes may both have read it.
                    gone = await connection.execute(delete(arrivals).where(arrivals.c.id_hash == row.id_hash))
                    if arrived.tokens is not None and gone.rowcount == 1:
                        await insert_tokens(
                            connection,
                            keys,
                            principal=arrived.principal,
                            nextcloud_url=nextcloud_url,
                            provider=arrived.provider,
                            tokens=arrived.tokens,
                            due_at=self._transactions.now(),
                        )
                        released += 1
        return released

    def _back(self, arrival_id: str, browser: str) -> ColumnElement[bool]:
        return is_back(arrival_id, browser, now=self._transactions.now())


def is_back(arrival_id: str, browser: str, *, now: datetime) -> ColumnElement[bool]:
    """Name the row of who came back in this browser, while it counts."""
    return and_(
        arrivals.c.id_hash == hash_of(arrival_id),
        arrivals.c.browser_hash == hash_of(browser),
        arrivals.c.state_hash.is_(None),
        arrivals.c.expires_at > now,
    )


async def use_arrived(
    connection: AsyncConnection, keys: KeyRing, arrived: Arrived, browser: str, *, now: datetime
) -> bool | None:
    """Take the tokens of an arrival for its person's connection, within the caller's transaction.

    True: they are the caller's to store. False: they were stored before. None: there is no such arrival.
    """
    seal = _place(keys, hash_of(arrived.arrival.id), hash_of(browser), None)
    used = dataclasses.replace(arrived, tokens=None, connected=True)
    which = is_back(arrived.arrival.id, browser, now=now)
    taken = await connection.execute(
        update(arrivals)
        .where(which, arrivals.c.connected.is_(False))
        .values(details=_sealed(seal, _details(used)), connected=True)
    )
    if taken.rowcount == 1:
        return True
    return False if await counts(connection, CameBack(arrived.arrival.id, browser), now=now) else None


async def counts(connection: AsyncConnection, came: CameBack, *, now: datetime) -> bool:
    """Tell whether somebody who came back may still go on, within the caller's transaction."""
    which = is_back(came.arrival_id, came.browser, now=now)
    return await connection.scalar(select(arrivals.c.id_hash).where(which)) is not None


async def end_arrivals(connection: AsyncConnection, which: ColumnElement[bool], *, now: datetime) -> None:
    """Let nobody decide any more about what was brought, nor have another code for it.

    `release_due` has it ended at Nextcloud.
    """
    await connection.execute(
        update(arrivals).where(which, arrivals.c.expires_at > now).values(expires_at=now)
    )


def _place(keys: KeyRing, id_hash: str, browser_hash: str, state_hash: str | None) -> Seal:
    # On its way an arrival belongs to no person, but it always belongs to a browser: whoever can write to
    # the database cannot bring what another's holds into their own.
    return Seal(keys, ("arrivals", id_hash, browser_hash, state_hash or ""))


def _sealed(seal: Seal, details: dict[str, Any]) -> Sealed:
    return seal.seal("details", json.dumps(details))


def arrival_place(keys: KeyRing, row: Row[Any]) -> Seal:
    """Name the place that the values of a row are bound to."""
    return _place(keys, row.id_hash, row.browser_hash, row.state_hash)


def _open(keys: KeyRing, row: Row[Any]) -> dict[str, Any]:
    details: dict[str, Any] = json.loads(arrival_place(keys, row).open("details", row.details))
    return details


def _dump(arrival: Arrival) -> dict[str, Any]:
    return {
        "id": arrival.id,
        "target": arrival.target,
        "request": None if arrival.request is None else arrival.request.fields(),
        "scopes": sorted(arrival.scopes),
        "expires_at": arrival.expires_at.isoformat(),
    }


def _load(values: dict[str, Any]) -> Arrival:
    request = values["request"]
    return Arrival(
        id=values["id"],
        target=values["target"],
        request=None if request is None else ClientRequest.of(request),
        scopes=frozenset(values["scopes"]),
        expires_at=datetime.fromisoformat(values["expires_at"]),
    )


def _details(arrived: Arrived) -> dict[str, Any]:
    tokens = arrived.tokens
    return {
        "arrival": _dump(arrived.arrival),
        # Here too, so that a row cannot be made another person's.
        "issuer": arrived.principal.issuer,
        "subject": arrived.principal.subject,
        "display_name": arrived.display_name,
        "home_id": arrived.home_id,
        "provider": arrived.provider,
        "tokens": None if tokens is None else dump_tokens(tokens).get_secret_value(),
    }


def _arrived(keys: KeyRing, row: Row[Any]) -> Arrived:
    values = _open(keys, row)
    tokens = values["tokens"]
    return Arrived(
        arrival=_load(values["arrival"]),
        principal=Principal(values["issuer"], values["subject"]),
        display_name=values["display_name"],
        home_id=values["home_id"],
        provider=values["provider"],
        tokens=None if tokens is None else load_tokens(SecretStr(tokens)),
        connected=row.connected,
    )
