"""The audit log: entries are appended, read by the user they are about, and never changed."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, false, func, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, Seal, Sealed
from nextcloud_mcp_server.storage.models import audit, owned_by
from nextcloud_mcp_server.storage.records import DISPLACED, MADE_ANEW, RELEASED, AuditEntry, Principal
from nextcloud_mcp_server.storage.transaction import Transactions

UNREADABLE = "(sealed with a key that is no longer configured)"

#: So many rows are deleted in one transaction, so that others can write in between.
_PURGED_AT_ONCE = 1_000

#: Results have no index: so many of a user's entries are looked at for one, the latest.
_LOOKED_AT = 20_000


@dataclass(frozen=True, slots=True)
class NumberedEntry:
    """An audit entry, and its number: a later entry has a greater one."""

    number: int
    entry: AuditEntry


@dataclass(frozen=True, slots=True)
class EndedAccount:
    """A principal that lost an account, and the number of the audit entry about it."""

    number: int
    principal: Principal


class AuditRepository:
    """Appends audit entries and reads a user's latest ones."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        """Insert entries in one transaction."""
        if not entries:
            return
        async with self._transactions.writing() as connection:
            await insert_entries(connection, self._transactions.keys, entries)

    async def recent(self, principal: Principal, limit: int) -> list[AuditEntry]:
        """Return a user's latest entries, the newest first.

        The detail of an entry that cannot be decrypted is replaced by a note, and its object's name left out: the entry
        itself must not be lost with a key.
        """
        query = select(audit).where(owned_by(audit.c, principal)).order_by(audit.c.number.desc()).limit(limit)
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [_entry(self._transactions.keys, row) for row in rows]

    async def recent_with(
        self, principal: Principal, results: Sequence[str], *, since: datetime, limit: int
    ) -> list[AuditEntry]:
        """Return the entries with these results, from `since` on, of a user's latest 20,000 entries; see `recent`."""
        own = owned_by(audit.c, principal)
        newest = select(audit.c.number).where(own).order_by(audit.c.number.desc())
        before_them = newest.offset(_LOOKED_AT).limit(1).scalar_subquery()
        query = (
            select(audit)
            .where(own, audit.c.number > func.coalesce(before_them, 0))
            .where(audit.c.result.in_(results), audit.c.at >= since)
            .order_by(audit.c.number.desc())
            .limit(limit)
        )
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [_entry(self._transactions.keys, row) for row in rows]

    async def latest(
        self,
        *,
        limit: int,
        before: int | None = None,
        since: datetime | None = None,
        people: Sequence[Principal] | None = None,
    ) -> list[NumberedEntry]:
        """Return the latest entries for the operator, the newest first, at most `limit`.

        Only those with a smaller number than `before`, from `since` on, and about `people`; each of these may be None.
        Details that cannot be decrypted are replaced, as in `recent`.
        """
        query = select(audit).order_by(audit.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.number < before)
        if since is not None:
            query = query.where(audit.c.at >= since)
        if people is not None:
            query = query.where(or_(false(), *(owned_by(audit.c, each) for each in people)))
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [NumberedEntry(row.number, _entry(self._transactions.keys, row)) for row in rows]

    async def with_subject(self, subject: str) -> list[Principal]:
        """Return the principals with this subject that an entry is about, whether or not they hold an account."""
        query = select(audit.c.issuer).where(audit.c.subject == subject).distinct().order_by(audit.c.issuer)
        async with self._transactions.reading() as connection:
            issuers = (await connection.execute(query)).scalars().all()
        return [Principal(issuer, subject) for issuer in issuers]

    async def purge(self, *, before: datetime) -> int:
        """Delete the entries from before a time, and return their number.

        They are found from the oldest on, because numbers grow with time and times have no index. The newest entry
        stays: SQLite would give its number again, and `ended_accounts` looks for greater ones.
        """
        total = 0
        while True:
            newest = await self.last_number()
            oldest = select(audit.c.number, audit.c.at).order_by(audit.c.number).limit(_PURGED_AT_ONCE)
            async with self._transactions.writing() as connection:
                rows = (await connection.execute(oldest)).all()
                old = [row.number for row in rows if row.at < before and row.number < newest]
                if old:
                    await connection.execute(delete(audit).where(audit.c.number.in_(old)))
            total += len(old)
            if len(old) < _PURGED_AT_ONCE:
                return total

    async def last_number(self) -> int:
        """Return the number of the newest entry; 0 where there is none."""
        async with self._transactions.reading() as connection:
            return await connection.scalar(select(func.max(audit.c.number))) or 0

    async def ended_accounts(self, *, after: int) -> list[EndedAccount]:
        """Return the principals that lost an account by an entry with a greater number; nothing is decrypted."""
        results = (RELEASED, DISPLACED, MADE_ANEW)
        query = select(audit.c.number, audit.c.issuer, audit.c.subject).where(
            audit.c.number > after, audit.c.action == "account", audit.c.result.in_(results)
        )
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [EndedAccount(row.number, Principal(row.issuer, row.subject)) for row in rows]


async def insert_entries(connection: AsyncConnection, keys: KeyRing, entries: Sequence[AuditEntry]) -> None:
    """Insert entries within the caller's transaction."""
    await connection.execute(insert(audit), [_values(keys, entry) for entry in entries])


def _values(keys: KeyRing, entry: AuditEntry) -> dict[str, object]:
    row_id = uuid.uuid4().hex
    seal = keys.at("audit", entry.principal, row_id)
    return {
        "id": row_id,
        "issuer": entry.principal.issuer,
        "subject": entry.principal.subject,
        "at": entry.at,
        "client_id": entry.client_id,
        "action": entry.action,
        "result": entry.result,
        "detail": seal.seal("detail", entry.detail),
        "request_id": entry.request_id,
        "object_name": seal.seal("object_name", entry.object_name) if entry.object_name else None,
    }


def _entry(keys: KeyRing, row: Row[Any]) -> AuditEntry:
    principal = Principal(row.issuer, row.subject)
    seal = keys.at("audit", principal, row.id)
    return AuditEntry(
        at=row.at,
        principal=principal,
        client_id=row.client_id,
        action=row.action,
        result=row.result,
        detail=_detail(seal, row.detail),
        request_id=row.request_id,
        object_name=_object_name(seal, row.object_name),
    )


def _detail(seal: Seal, sealed: Sealed) -> str:
    try:
        return seal.open("detail", sealed)
    except Unsealable:
        return UNREADABLE


def _object_name(seal: Seal, sealed: Sealed | None) -> str:
    try:
        return "" if sealed is None else seal.open("object_name", sealed)
    except Unsealable:
        return ""
