"""Tasks: long calls that a client asks about later, with their results.

A row is found by the hash of its id, and only by its owner. The call, its progress and its result are sealed, each
bound to the user, the client and the row.
"""

import contextlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Index,
    Integer,
    Named,
    Row,
    String,
    Table,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    not_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import MissingScope, Unsealable
from nextcloud_mcp_server.storage.columns import SealedValue, UtcTime
from nextcloud_mcp_server.storage.corrected_clock import is_free
from nextcloud_mcp_server.storage.crypto import KeyRing, Seal, Sealed, hash_of
from nextcloud_mcp_server.storage.models import (
    PersonColumns,
    credentials,
    metadata,
    owned_by,
    permissions,
    token_families,
)
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.task_records import (
    MOST_BYTES,
    MOST_KEPT,
    MOST_RUNNING,
    NO_LONGER_PERMITTED,
    SIGN_IN_ENDED,
    Began,
    Lease,
    Task,
    TaskOwner,
    TaskStatus,
)
from nextcloud_mcp_server.storage.transaction import Transactions

_ACTIVE = (TaskStatus.WORKING.value, TaskStatus.INPUT_REQUIRED.value)


class TaskColumns(PersonColumns):
    """A call of a client that runs, or has ended, apart from its request.

    `request` is sealed JSON: the tool, its arguments where the call may be started again, and how often it was,
    once it was. `outcome` is the sealed
    result, error or input request, `answers` the client's sealed answers to the last. `size` is that of the outcome.
    """

    id_hash: Named[str] = Column(String, primary_key=True)
    client_id: Named[str]
    status: Named[str]
    created_at: Named[datetime] = Column(UtcTime)
    updated_at: Named[datetime] = Column(UtcTime)
    expires_at: Named[datetime] = Column(UtcTime, index=True)
    lease_owner: Named[str] = Column(String, index=True)
    lease_until: Named[datetime] = Column(UtcTime)
    size: Named[int] = Column(Integer)
    request: Named[Sealed] = Column(SealedValue)
    message: Named[Sealed | None] = Column(SealedValue)
    outcome: Named[Sealed | None] = Column(SealedValue)
    answers: Named[Sealed | None] = Column(SealedValue)


tasks = Table("tasks", metadata, TaskColumns, Index(None, "issuer", "subject", "client_id"))
_active = tasks.c.status.in_(_ACTIVE)


class TaskRepository:
    """Stores the tasks of every user; each method finds the rows of one owner, or of one process."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(
        self,
        owner: TaskOwner,
        task_id: str,
        *,
        began: Began | None,
        tool: str,
        arguments: str | None,
        lifetime: timedelta,
        lease: Lease,
    ) -> Task | None:
        """Store a new task that this process runs; None if the user has as many running ones as are allowed.

        Beyond the number that is stored, the user's task that ended first is deleted; a running one never is. One
        whose process is gone does not run, though nobody may have asked for it yet.

        In the same transaction the user's permission for the client must cover what the call `began` with, and its
        credential must still be the user's: what ended them deleted only the tasks that were stored by then, and
        the user may have connected another account since. None where the operator's settings are the permission. The
        same holds for the client's sign-in.

        Raises:
            MissingScope: The user paused or ended the permission, it covers less by now, the credential was replaced,
                or the sign-in has ended.
        """
        now = self._transactions.now()
        mine, runs = owned_by(tasks.c, owner.principal), _runs(now)
        working, until = TaskStatus.WORKING, now + lifetime
        task = Task(task_id, owner, working, now, now, until, is_lost=False, tool=tool, arguments=arguments)
        async with self._transactions.writing() as connection:
            if began is not None and not await _is_permitted(connection, owner, began):
                raise MissingScope(NO_LONGER_PERMITTED)
            if began is not None and not await _is_signed_in(connection, owner, began):
                raise MissingScope(SIGN_IN_ENDED)
            await connection.execute(delete(tasks).where(mine, tasks.c.expires_at <= now))
            if await _count(connection, mine, runs) >= MOST_RUNNING:
                return None
            await _make_room(connection, mine, runs)
            await connection.execute(insert(tasks).values(_values(self._transactions.keys, task, lease)))
        return task

    async def find(self, owner: TaskOwner, task_id: str) -> Task | None:
        """Return an owner's task; None for one that is unknown, expired, another's, or cannot be decrypted."""
        id_hash = hash_of(task_id)
        async with self._transactions.reading() as connection:
            row = (await connection.execute(select(tasks).where(self._one(owner, id_hash)))).one_or_none()
        with contextlib.suppress(Unsealable):
            return None if row is None else self._opened(row, owner, task_id)
        return None

    async def renew(
        self, lease: Lease, running: Mapping[str, tuple[TaskOwner, str | None]]
    ) -> dict[str, str | None]:
        """Renew the lease of the tasks that a process runs; return those that it holds, with the client's answers.

        Those that are missing are not to be run any more: cancelled, expired, deleted, or taken over. `running` has
        their owners by task id, and the progress messages that are new.
        """
        now, keys = self._transactions.now(), self._transactions.keys
        ids = {hash_of(task_id): task_id for task_id in running}
        held = and_(_active, tasks.c.lease_owner == lease.holder, tasks.c.expires_at > now)
        async with self._transactions.writing() as connection:
            for id_hash, task_id in ids.items():
                owner, message = running[task_id]
                if message is not None:
                    sealed = _seal(keys, owner, id_hash).seal("message", message)
                    mine = and_(held, tasks.c.id_hash == id_hash)
                    await connection.execute(update(tasks).where(mine).values(message=sealed, updated_at=now))
            done = await connection.execute(
                update(tasks)
                .where(held, tasks.c.id_hash.in_(ids))
                .values(lease_until=now + lease.duration)
                .returning(tasks)
            )
            rows = done.all()
        return {ids[row.id_hash]: _answers(keys, row) for row in rows}

    async def ask(self, task: Task, lease: Lease, requests: str) -> bool:
        """Store input requests, which the client must answer before the task goes on; see `finish`."""
        return await self._change(task, lease, TaskStatus.INPUT_REQUIRED, outcome=requests)

    async def go_on(self, task: Task, lease: Lease, message: str) -> bool:
        """Let a task work again, after its input requests were answered; see `finish`."""
        return await self._change(task, lease, TaskStatus.WORKING, message=message)

    async def finish(
        self, task: Task, lease: Lease, status: TaskStatus, *, outcome: str, message: str | None = None
    ) -> bool:
        """Store how a task ended; False if it is not this process's task any more.

        Beyond the bytes that are stored, the user's other tasks are deleted, those that ended first before others.
        """
        return await self._change(task, lease, status, outcome=outcome, message=message)

    async def answer(self, owner: TaskOwner, task_id: str, answers: str) -> bool:
        """Store the client's answers for the process that runs the task; False if it waits for none."""
        id_hash, now = hash_of(task_id), self._transactions.now()
        sealed = _seal(self._transactions.keys, owner, id_hash).seal("answers", answers)
        waiting = and_(self._one(owner, id_hash), tasks.c.status == TaskStatus.INPUT_REQUIRED.value)
        async with self._transactions.writing() as connection:
            done = await connection.execute(
                update(tasks).where(waiting).values(answers=sealed, updated_at=now)
            )
        return done.rowcount == 1

    async def cancel(self, owner: TaskOwner, task_id: str) -> bool:
        """Set an owner's task to cancelled, so that its process stops; False if it has ended."""
        now = self._transactions.now()
        values = {"status": TaskStatus.CANCELLED.value, "updated_at": now, "outcome": None, "answers": None}
        mine = and_(self._one(owner, hash_of(task_id)), _active)
        async with self._transactions.writing() as connection:
            done = await connection.execute(update(tasks).where(mine).values(values))
        return done.rowcount == 1

    async def take(self, task: Task, lease: Lease) -> bool:
        """Take over a task whose process has not renewed its lease, and count it; False if another was first."""
        now = self._transactions.now()
        lost = and_(self._one(task.owner, hash_of(task.id)), _active, tasks.c.lease_until <= now)
        request = json.dumps([task.tool, task.arguments, task.restarts + 1])
        values = {
            "request": _seal(self._transactions.keys, task.owner, hash_of(task.id)).seal("request", request),
            "status": TaskStatus.WORKING.value,
            "updated_at": now,
            "lease_owner": lease.holder,
            "lease_until": now + lease.duration,
            "outcome": None,
            "answers": None,
        }
        async with self._transactions.writing() as connection:
            done = await connection.execute(update(tasks).where(lost).values(values))
        return done.rowcount == 1

    async def release(self, lease: Lease) -> None:
        """End the lease of all tasks of a process that stops, so that another one need not wait for its end."""
        held = and_(_active, tasks.c.lease_owner == lease.holder)
        async with self._transactions.writing() as connection:
            await connection.execute(update(tasks).where(held).values(lease_until=self._transactions.now()))

    async def purge(self) -> None:
        """Delete the expired tasks of all users."""
        async with self._transactions.writing() as connection:
            await connection.execute(delete(tasks).where(tasks.c.expires_at <= self._transactions.now()))

    async def _change(
        self,
        task: Task,
        lease: Lease,
        status: TaskStatus,
        *,
        outcome: str | None = None,
        message: str | None = None,
    ) -> bool:
        id_hash, now = hash_of(task.id), self._transactions.now()
        seal = _seal(self._transactions.keys, task.owner, id_hash)
        sealed = seal.seal_optional("outcome", outcome)
        values: dict[str, object] = {
            "status": status.value,
            "updated_at": now,
            "answers": None,
            "outcome": sealed,
        }
        values["size"] = 0 if sealed is None else len(sealed.value)
        if message is not None:
            values["message"] = seal.seal("message", message)
        held = and_(self._one(task.owner, id_hash), _active, tasks.c.lease_owner == lease.holder)
        async with self._transactions.writing() as connection:
            done = await connection.execute(update(tasks).where(held).values(values))
            await _evict(connection, task.owner.principal, spared=id_hash)
        return done.rowcount == 1

    def _one(self, owner: TaskOwner, id_hash: str) -> ColumnElement[bool]:
        return and_(
            tasks.c.id_hash == id_hash,
            owned_by(tasks.c, owner.principal),
            tasks.c.client_id == owner.client_id,
            tasks.c.expires_at > self._transactions.now(),
        )

    def _opened(self, row: Row[Any], owner: TaskOwner, task_id: str) -> Task:
        seal = task_place(self._transactions.keys, row)
        tool, arguments, *restarts = json.loads(seal.open("request", row.request))
        return Task(
            id=task_id,
            owner=owner,
            status=TaskStatus(row.status),
            created_at=row.created_at,
            updated_at=row.updated_at,
            expires_at=row.expires_at,
            is_lost=row.status in _ACTIVE and row.lease_until <= self._transactions.now(),
            tool=tool,
            arguments=arguments,
            restarts=sum(restarts),
            message=seal.open_optional("message", row.message),
            outcome=seal.open_optional("outcome", row.outcome),
        )


async def end_tasks(connection: AsyncConnection, principal: Principal, client_id: str | None = None) -> None:
    """Delete a user's tasks, or those of one client, with their results; the process that runs one stops it."""
    ended = delete(tasks).where(owned_by(tasks.c, principal))
    await connection.execute(ended if client_id is None else ended.where(tasks.c.client_id == client_id))


def task_place(keys: KeyRing, row: Row[Any]) -> Seal:
    """Return the seal for the values of a row: bound to the client, too."""
    return _seal(keys, TaskOwner(Principal(row.issuer, row.subject), row.client_id), row.id_hash)


def _seal(keys: KeyRing, owner: TaskOwner, id_hash: str) -> Seal:
    return Seal(keys, ("tasks", owner.principal.issuer, owner.principal.subject, owner.client_id, id_hash))


def _answers(keys: KeyRing, row: Row[Any]) -> str | None:
    with contextlib.suppress(Unsealable):
        return task_place(keys, row).open_optional("answers", row.answers)
    return None


def _runs(now: datetime) -> ColumnElement[bool]:
    return and_(_active, not_(is_free(tasks.c.lease_until, now)))


def _values(keys: KeyRing, task: Task, lease: Lease) -> dict[str, object]:
    """Return the values of the row of a new task."""
    id_hash = hash_of(task.id)
    request = json.dumps([task.tool, task.arguments])
    return {
        "issuer": task.owner.principal.issuer,
        "subject": task.owner.principal.subject,
        "id_hash": id_hash,
        "client_id": task.owner.client_id,
        "status": task.status.value,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
        "expires_at": task.expires_at,
        "lease_owner": lease.holder,
        "lease_until": task.created_at + lease.duration,
        "size": 0,
        "request": _seal(keys, task.owner, id_hash).seal("request", request),
    }


async def _is_permitted(connection: AsyncConnection, owner: TaskOwner, began: Began) -> bool:
    """Tell whether what a call began with holds now; a disconnect deletes the permission and the credential."""
    mine = and_(owned_by(permissions.c, owner.principal), permissions.c.client_id == owner.client_id)
    same = and_(owned_by(credentials.c, owner.principal), credentials.c.id == began.credential_id)
    query = select(permissions.c.scopes).where(mine, not_(permissions.c.paused), exists().where(same))
    granted = await connection.scalar(query)
    return granted is not None and began.scopes <= granted


async def _is_signed_in(connection: AsyncConnection, owner: TaskOwner, began: Began) -> bool:
    """Tell whether the sign-in of a call's token has not ended; true where this server issues no tokens."""
    if began.sign_in is None:
        return True
    mine = owned_by(token_families.c, owner.principal)
    query = select(token_families.c.family_hash).where(mine, token_families.c.family_hash == began.sign_in)
    return await connection.scalar(query) is not None


async def _count(connection: AsyncConnection, *conditions: ColumnElement[bool]) -> int:
    return await connection.scalar(select(func.count()).select_from(tasks).where(*conditions)) or 0


async def _make_room(
    connection: AsyncConnection, mine: ColumnElement[bool], runs: ColumnElement[bool]
) -> None:
    """Delete ended and lost tasks of a user, the oldest first, until there is room for one more."""
    surplus = await _count(connection, mine) - MOST_KEPT + 1
    if surplus > 0:
        ended = select(tasks.c.id_hash).where(mine, not_(runs)).order_by(tasks.c.updated_at).limit(surplus)
        await connection.execute(delete(tasks).where(tasks.c.id_hash.in_(ended.scalar_subquery())))


async def _evict(connection: AsyncConnection, principal: Principal, *, spared: str) -> None:
    """Delete ended tasks of a user, the oldest first, until the others have no more bytes than are stored."""
    mine = owned_by(tasks.c, principal)
    spared_first = case((tasks.c.id_hash == spared, 0), (_active, 1), else_=2)
    query = select(tasks.c.id_hash, tasks.c.size, tasks.c.status).where(mine)
    rows = (await connection.execute(query.order_by(spared_first, tasks.c.updated_at.desc()))).all()
    total, gone = 0, list[str]()
    for row in rows:
        total += row.size
        if total > MOST_BYTES and row.id_hash != spared and row.status not in _ACTIVE:
            total -= row.size
            gone.append(row.id_hash)
    if gone:
        await connection.execute(delete(tasks).where(tasks.c.id_hash.in_(gone)))
