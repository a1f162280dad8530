"""Authorization transactions: sign-ins at Nextcloud, and their tokens until the user decides."""

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
    """Stores authorization transactions for the browser that began them; never loses a token.

    `browser` is a random value that only this browser has. Only hashes of it and of `state` are stored.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(self, auth_transaction: AuthorizationTransaction, *, state: str, browser: str) -> None:
        """Store a new transaction. Its id and its `state` are new and random."""
        details = {"transaction": _dump(auth_transaction)}
        values = self._values(auth_transaction, details, browser, state_hash=hash_of(state))
        async with self._transactions.writing() as connection:
            await connection.execute(insert(auth_transactions).values(values))

    async def take(self, state: str, *, browser: str) -> AuthorizationTransaction | None:
        """Take the transaction of a callback; of concurrent callers, only one gets it.

        None if another browser began it, if it has expired or was taken before, and if its key is missing.
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
        """Delete the transaction of a `state`, whichever browser began it, and mark the codes as spent.

        False if there is none, also if it was taken before; then nothing is written.
        """
        ending = delete(auth_transactions).where(auth_transactions.c.state_hash == hash_of(state))
        async with self._transactions.writing() as connection:
            ended = (await connection.execute(ending)).rowcount == 1
            if ended:
                await insert_spent(connection, codes, now=self._transactions.now())
        return ended

    async def knows(self, state: str) -> bool:
        """Tell whether a transaction with this `state` waits for its callback, in any browser; writes nothing."""
        query = select(auth_transactions.c.id_hash).where(auth_transactions.c.state_hash == hash_of(state))
        async with self._transactions.reading() as connection:
            return (await connection.execute(query)).first() is not None

    async def hold(self, completed: CompletedTransaction, *, browser: str, note: str | None = None) -> bool:
        """Store the user and the tokens of a callback, until the user decides in this browser.

        The row replaces `note`, the pending revocation in the outbox. If that is being carried out already,
        nothing is stored and the result is False.
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
        """Return the completed transaction of this browser; None if it has expired or is another browser's.

        Raises:
            Unsealable: Its key is missing.
        """
        query = select(auth_transactions).where(self._back(auth_transaction_id, browser))
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _completed(self._transactions.keys, row)

    async def discard(self, auth_transaction_id: str, *, browser: str, nextcloud_url: str) -> bool:
        """Move the tokens to the outbox, to be revoked; False if there are none, or they are connected."""
        which = and_(self._back(auth_transaction_id, browser), auth_transactions.c.connected.is_(False))
        return await self._release(which, nextcloud_url) > 0

    async def release_due(self, *, nextcloud_url: str) -> int:
        """Delete expired transactions, and move their tokens to the outbox; return how many had tokens.

        A row that cannot be decrypted stays: its key may be restored.
        """
        over = auth_transactions.c.expires_at <= self._transactions.now()
        # A transaction without a callback holds no tokens, whether it can be decrypted or not.
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
                    # Writing transactions run one at a time, so no other process has read this row.
                    await connection.execute(
                        delete(auth_transactions).where(auth_transactions.c.id_hash == row.id_hash)
                    )
                    if completed.tokens is not None:
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
    """Build the condition for the completed transaction of a browser, if it has not expired."""
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
    """Mark a transaction as connected and clear its tokens, within the caller's transaction.

    True: the caller must store the tokens. False: they were stored before. None: there is no such transaction.
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
    """Tell whether a browser's completed transaction is still valid, within the caller's transaction."""
    which = is_back(transaction.auth_transaction_id, transaction.browser, now=now)
    return await connection.scalar(select(auth_transactions.c.id_hash).where(which)) is not None


async def end_auth_transactions(
    connection: AsyncConnection, which: ColumnElement[bool], *, now: datetime
) -> None:
    """Expire transactions, so that the user cannot confirm them, nor get another code for them.

    `release_due` revokes their tokens at Nextcloud.
    """
    await connection.execute(
        update(auth_transactions).where(which, auth_transactions.c.expires_at > now).values(expires_at=now)
    )


def _place(keys: KeyRing, id_hash: str, browser_hash: str, state_hash: str | None) -> Seal:
    # Until its callback a transaction belongs to no user, but always to a browser. So an attacker who can write
    # to the database cannot move another browser's tokens to their own.
    return Seal(keys, ("authorization_transactions", id_hash, browser_hash, state_hash or ""))


def _sealed(seal: Seal, details: dict[str, Any]) -> Sealed:
    return seal.seal("details", json.dumps(details))


def auth_transaction_place(keys: KeyRing, row: Row[Any]) -> Seal:
    """Return the seal for the values of a row."""
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
    # Rows from before schema 0009 have another name for it.
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
        # Repeated here, sealed, so that a row cannot be assigned to another user.
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
