"""Authorization transactions: sign-ins at Nextcloud that are under way, and what they gave until the user decides."""

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
from nextcloud_mcp_server.storage.models import auth_transactions
from nextcloud_mcp_server.storage.oauth_records import (
    AuthorizationTransaction,
    ClientRequest,
    CompletedTransaction,
    TransactionKey,
    storage_id_of,
)
from nextcloud_mcp_server.storage.outbox import insert_tokens, take_back
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.spent_codes import insert_spent
from nextcloud_mcp_server.storage.tokens import dump_tokens, load_tokens
from nextcloud_mcp_server.storage.transaction import Transactions


class AuthorizationTransactionRepository:
    """Keeps authorization transactions for the browser that began them; never loses a token.

    `browser` is a random value that this browser alone has; of it and of `state` hashes are stored.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(self, auth_transaction: AuthorizationTransaction, *, state: str, browser: str) -> None:
        """Store a transaction that begins. Its id and its `state` are new and random."""
        details = {"transaction": _dump(auth_transaction)}
        values = self._values(auth_transaction, details, browser, state_hash=hash_of(state))
        async with self._transactions.writing() as connection:
            await connection.execute(insert(auth_transactions).values(values))

    async def take(self, state: str, *, browser: str) -> AuthorizationTransaction | None:
        """Take the transaction of a callback; of all who try, one gets it.

        None when this browser did not begin it, when it is old or was taken before, and when its key is
        missing.
        """
        taking = (
            delete(auth_transactions)
            .where(
                auth_transactions.c.state_hash == hash_of(state),
                auth_transactions.c.browser_hash == hash_of(browser),
                auth_transactions.c.expires_at > self._transactions.now(),
            )
            .returning(auth_transactions)
        )
        async with self._transactions.writing() as connection:
            row = (await connection.execute(taking)).one_or_none()
        if row is None:
            return None
        try:
            return _load(_open(self._transactions.keys, row))
        except Unsealable:
            return None

    async def end(self, state: str, *, codes: Iterable[str]) -> bool:
        """End the sign-in that `state` belongs to, whichever browser began it, and spend the codes it brought.

        False when there is none, also when it was taken before; then nothing is written.
        """
        ending = delete(auth_transactions).where(auth_transactions.c.state_hash == hash_of(state))
        async with self._transactions.writing() as connection:
            ended = (await connection.execute(ending)).rowcount == 1
            if ended:
                await insert_spent(connection, codes, now=self._transactions.now())
        return ended

    async def knows(self, state: str) -> bool:
        """Tell whether a sign-in with this `state` waits for its answer, in any browser; nothing is written."""
        query = select(auth_transactions.c.id_hash).where(auth_transactions.c.state_hash == hash_of(state))
        async with self._transactions.reading() as connection:
            return (await connection.execute(query)).first() is not None

    async def hold(self, completed: CompletedTransaction, *, browser: str, note: str | None = None) -> bool:
        """Store who came back and what Nextcloud gave, until they decide about it in this browser.

        It takes the place of the outbox's `note` about it. False, and nothing stored, when that is being
        worked off already.
        """
        values = self._values(
            completed.auth_transaction,
            _details(completed),
            browser,
            state_hash=None,
            principal=completed.principal,
        )
        async with self._transactions.writing() as connection:
            held = await take_back(connection, note, now=self._transactions.now())
            if held:
                await connection.execute(insert(auth_transactions).values(values))
        return held

    async def find(self, auth_transaction_id: str, *, browser: str) -> CompletedTransaction | None:
        """Read who came back in this browser; None when it is old, or another's.

        Raises:
            Unsealable: Its key is missing.
        """
        query = select(auth_transactions).where(self._back(auth_transaction_id, browser))
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _completed(self._transactions.keys, row)

    async def discard(self, auth_transaction_id: str, *, browser: str, nextcloud_url: str) -> bool:
        """Have what Nextcloud gave ended there; False when there is nothing, or it is connected."""
        which = and_(self._back(auth_transaction_id, browser), auth_transactions.c.connected.is_(False))
        return await self._release(which, nextcloud_url) > 0

    async def release_due(self, *, nextcloud_url: str) -> int:
        """Forget old ones, and have everything ended at Nextcloud that no one can decide about any more.

        Tells how many of those there were. What cannot be opened stays: its key may be put back.
        """
        over = auth_transactions.c.expires_at <= self._transactions.now()
        # A transaction without a callback holds no tokens, whether it can be read or not.
        never = and_(over, auth_transactions.c.state_hash.is_not(None))
        async with self._transactions.writing() as connection:
            await connection.execute(delete(auth_transactions).where(never))
        return await self._release(and_(over, auth_transactions.c.state_hash.is_(None)), nextcloud_url)

    def _values(
        self,
        auth_transaction: AuthorizationTransaction,
        details: dict[str, Any],
        browser: str,
        *,
        state_hash: str | None,
        principal: Principal | None = None,
    ) -> dict[str, object]:
        id_hash, browser_hash = hash_of(auth_transaction.id), hash_of(browser)
        seal = _place(self._transactions.keys, id_hash, browser_hash, state_hash)
        return {
            "id_hash": id_hash,
            "state_hash": state_hash,
            "browser_hash": browser_hash,
            "issuer": None if principal is None else principal.issuer,
            "subject": None if principal is None else principal.subject,
            "client_id": None if auth_transaction.request is None else auth_transaction.request.client_id,
            "details": _sealed(seal, details),
            "connected": False,
            "expires_at": auth_transaction.expires_at,
        }

    async def _release(self, which: ColumnElement[bool], nextcloud_url: str) -> int:
        keys, released = self._transactions.keys, 0
        async with self._transactions.writing() as connection:
            for row in (await connection.execute(select(auth_transactions).where(which))).all():
                with contextlib.suppress(Unsealable):
                    completed = _completed(keys, row)
                    # The process that deletes it ends it: two processes may both have read it.
                    gone = await connection.execute(
                        delete(auth_transactions).where(auth_transactions.c.id_hash == row.id_hash)
                    )
                    if completed.tokens is not None and gone.rowcount == 1:
                        await insert_tokens(
                            connection,
                            keys,
                            principal=completed.principal,
                            nextcloud_url=nextcloud_url,
                            provider=completed.provider,
                            tokens=completed.tokens,
                            due_at=self._transactions.now(),
                        )
                        released += 1
        return released

    def _back(self, auth_transaction_id: str, browser: str) -> ColumnElement[bool]:
        return is_back(auth_transaction_id, browser, now=self._transactions.now())


def is_back(auth_transaction_id: str, browser: str, *, now: datetime) -> ColumnElement[bool]:
    """Name the row of who came back in this browser, while it counts."""
    return and_(
        auth_transactions.c.id_hash == hash_of(auth_transaction_id),
        auth_transactions.c.browser_hash == hash_of(browser),
        auth_transactions.c.state_hash.is_(None),
        auth_transactions.c.expires_at > now,
    )


async def use_completed(
    connection: AsyncConnection,
    keys: KeyRing,
    completed: CompletedTransaction,
    browser: str,
    *,
    now: datetime,
) -> bool | None:
    """Take the tokens of an authorization transaction for its user's connection, within the caller's transaction.

    True: they are the caller's to store. False: they were stored before. None: there is no such authorization
    transaction.
    """
    seal = _place(keys, hash_of(completed.auth_transaction.id), hash_of(browser), None)
    used = dataclasses.replace(completed, tokens=None, connected=True)
    which = is_back(completed.auth_transaction.id, browser, now=now)
    taken = await connection.execute(
        update(auth_transactions)
        .where(which, auth_transactions.c.connected.is_(False))
        .values(details=_sealed(seal, _details(used)), connected=True)
    )
    if taken.rowcount == 1:
        return True
    return (
        False
        if await counts(connection, TransactionKey(completed.auth_transaction.id, browser), now=now)
        else None
    )


async def counts(connection: AsyncConnection, transaction: TransactionKey, *, now: datetime) -> bool:
    """Tell whether a user who came back may still go on, within the caller's transaction."""
    which = is_back(transaction.auth_transaction_id, transaction.browser, now=now)
    return await connection.scalar(select(auth_transactions.c.id_hash).where(which)) is not None


async def end_auth_transactions(
    connection: AsyncConnection, which: ColumnElement[bool], *, now: datetime
) -> None:
    """Let no one decide any more about what was brought, nor have another code for it.

    `release_due` has it ended at Nextcloud.
    """
    await connection.execute(
        update(auth_transactions).where(which, auth_transactions.c.expires_at > now).values(expires_at=now)
    )


def _place(keys: KeyRing, id_hash: str, browser_hash: str, state_hash: str | None) -> Seal:
    # On its way an authorization transaction belongs to no user, but it always belongs to a browser: anyone who can
    # write to the database cannot bring what another's holds into their own.
    return Seal(keys, ("authorization_transactions", id_hash, browser_hash, state_hash or ""))


def _sealed(seal: Seal, details: dict[str, Any]) -> Sealed:
    return seal.seal("details", json.dumps(details))


def auth_transaction_place(keys: KeyRing, row: Row[Any]) -> Seal:
    """Name the place that the values of a row are bound to."""
    return _place(keys, row.id_hash, row.browser_hash, row.state_hash)


def _open(keys: KeyRing, row: Row[Any]) -> dict[str, Any]:
    details: dict[str, Any] = json.loads(auth_transaction_place(keys, row).open("details", row.details))
    return details


def _dump(auth_transaction: AuthorizationTransaction) -> dict[str, Any]:
    return {
        "id": auth_transaction.id,
        "target": auth_transaction.target,
        "request": None if auth_transaction.request is None else auth_transaction.request.fields(),
        "scopes": sorted(auth_transaction.scopes),
        "expires_at": auth_transaction.expires_at.isoformat(),
    }


def _load(details: dict[str, Any]) -> AuthorizationTransaction:
    # Those of before schema 0009 have it under another name.
    values = details.get("transaction") or details["arrival"]
    request = values["request"]
    return AuthorizationTransaction(
        id=values["id"],
        target=values["target"],
        request=None if request is None else ClientRequest.of(request),
        scopes=frozenset(values["scopes"]),
        expires_at=datetime.fromisoformat(values["expires_at"]),
    )


def _details(completed: CompletedTransaction) -> dict[str, Any]:
    tokens = completed.tokens
    return {
        "transaction": _dump(completed.auth_transaction),
        # Here too, so that a row cannot be made another user's.
        "issuer": completed.principal.issuer,
        "subject": completed.principal.subject,
        "display_name": completed.display_name,
        "storage_id": completed.storage_id,
        "provider": completed.provider,
        "tokens": None if tokens is None else dump_tokens(tokens).get_secret_value(),
    }


def _completed(keys: KeyRing, row: Row[Any]) -> CompletedTransaction:
    values = _open(keys, row)
    tokens = values["tokens"]
    return CompletedTransaction(
        auth_transaction=_load(values),
        principal=Principal(values["issuer"], values["subject"]),
        display_name=values["display_name"],
        storage_id=storage_id_of(values),
        provider=values["provider"],
        tokens=None if tokens is None else load_tokens(SecretStr(tokens)),
        connected=row.connected,
    )
