"""Codes and tokens of the built-in authorization server; only their hashes are stored."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, and_, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage.answered_requests import REMEMBERED, answer
from nextcloud_mcp_server.storage.authorization_transactions import counts
from nextcloud_mcp_server.storage.crypto import KeyRing, hash_of
from nextcloud_mcp_server.storage.models import (
    access_tokens,
    answered_requests,
    codes,
    owned_by,
    token_families,
)
from nextcloud_mcp_server.storage.oauth_records import (
    CodeGrant,
    Fresh,
    Given,
    LiveToken,
    Reason,
    Refused,
    Stored,
    TokenGrant,
    TransactionKey,
)
from nextcloud_mcp_server.storage.records import CODE_USED, TOKEN_USED, Principal
from nextcloud_mcp_server.storage.token_families import end_families, end_tokens
from nextcloud_mcp_server.storage.token_grants import granted_by, open_code, open_grant, seal_code, seal_grant
from nextcloud_mcp_server.storage.token_holders import TokenHolders


class _Undone(Exception):
    """Rolls the transaction back."""

    def __init__(self, reason: Reason) -> None:
        super().__init__()
        self.reason: Reason = reason


class OAuthTokenRepository(TokenHolders):
    """Each method is one transaction: an answer is stored completely or not at all."""

    async def add_code(
        self,
        code: str,
        grant: CodeGrant,
        *,
        expires_at: datetime,
        transaction: TransactionKey | None = None,
        request: str = "",
    ) -> Stored:
        """Store the hash of a code.

        Nothing is stored for a transaction that is over, since its clients may have been ended a moment ago,
        nor for a `request` that has its code: of two answers to one page, one counts. The same authorization
        transaction may store its code again while that is valid and unused.
        """
        code_hash = hash_of(code)
        values = {
            "issuer": grant.principal.issuer,
            "subject": grant.principal.subject,
            "code_hash": code_hash,
            "client_id": grant.client_id,
            "details": seal_code(self._transactions.keys, grant, code_hash),
            "expires_at": expires_at,
        }
        async with self._transactions.writing() as connection:
            now = self._transactions.now()
            if transaction is not None:
                if not await counts(connection, transaction, now=now):
                    return "over"
                if request and not await answer(
                    connection, request, transaction.auth_transaction_id, until=now + REMEMBERED
                ):
                    waiting = select(codes.c.code_hash).where(
                        codes.c.code_hash == code_hash, codes.c.expires_at > now
                    )
                    return "answered" if await connection.scalar(waiting) is None else "same"
            await connection.execute(insert(codes).values(values))
        return "stored"

    async def answered(self, request: str, *, by_other_than: str) -> bool:
        """Tell whether a request got its code by another transaction than `by_other_than`."""
        query = select(answered_requests.c.request_hash).where(
            answered_requests.c.request_hash == hash_of(request),
            answered_requests.c.transaction_hash != hash_of(by_other_than),
        )
        async with self._transactions.reading() as connection:
            return await connection.scalar(query) is not None

    async def exchange_code(
        self, code: str, *, client_id: str, fits: Callable[[CodeGrant], bool], fresh: Fresh
    ) -> Given | Refused:
        """Take a code and store its tokens; of concurrent callers, only one gets it.

        Another client's code is not touched. A code for which `fits` is false is spent: its sender lacks what
        the real client has. If a code was used before, the tokens issued for it end.
        """
        code_hash, keys, now = hash_of(code), self._transactions.keys, self._transactions.now()
        async with self._transactions.writing() as connection:
            taken = await connection.execute(
                delete(codes)
                .where(codes.c.code_hash == code_hash, codes.c.client_id == client_id)
                .returning(codes)
            )
            row = taken.one_or_none()
            if row is None:
                used = await self._end_given(connection, code_hash, client_id)
                return Refused("used" if used else "unknown")
            code_grant = open_code(keys, Principal(row.issuer, row.subject), code_hash, row.details)
            if code_grant is None or code_grant.client_id != client_id or row.expires_at <= now:
                return Refused("unknown")
            if not fits(code_grant):
                return Refused("unfit")
            grant = granted_by(code_grant)
            await connection.execute(
                insert(token_families).values(_family_values(keys, grant, fresh, code_hash, now))
            )
            await self._give(connection, grant, fresh, generation=1)
        return Given(fresh.refresh, grant.scopes)

    async def rotate(
        self,
        token: str,
        *,
        client_id: str,
        resource: str,
        scopes: frozenset[str] | None,
        successors: Sequence[str],
        grace: timedelta,
        lifetime: timedelta,
        fresh: Fresh,
    ) -> Given | Refused:
        """Replace a refresh token by the first of the successors.

        The previous token gets the same successor within the grace, whichever key derived it: answers get lost,
        and the processes of one client share a token. The grace ends when the successor is used, itself or by
        an access token issued with it. Any other token of the family was used before, so two parties have it:
        the family ends. It ends after its `lifetime` in any case.
        """
        try:
            async with self._transactions.writing() as connection:
                advanced = await self._advance(connection, token, successors[0], client_id, fresh)
                row = advanced or await self._find(connection, fresh.family, client_id)
                grant = self._open(row, client_id, resource, lifetime)
                successor = successors[0] if advanced else self._repeated(row, token, successors, grace)
                if successor is None:
                    await self._end(connection, row)
                    return Refused("used")
                narrowed = _narrowed(grant, scopes)
                until = min(row.expires_at, row.created_at + lifetime)
                await self._give(connection, narrowed, fresh, generation=row.generation, until=until)
        except _Undone as undone:
            return Refused(undone.reason)
        return Given(successor, narrowed.scopes)

    async def whose(self, token: str, *, family: str, client_id: str) -> Principal | None:
        """Return the user of a refresh token, if it is the family's newest or the previous one."""
        token_hash, families = hash_of(token), token_families.c
        query = select(families.issuer, families.subject).where(
            families.family_hash == hash_of(family),
            families.client_id == client_id,
            or_(families.current_hash == token_hash, families.previous_hash == token_hash),
            families.expires_at > self._transactions.now(),
        )
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else Principal(row.issuer, row.subject)

    async def use(self, access_token: str) -> LiveToken | None:
        """Return a valid access token as `find` does, for a request that carries it.

        If it was issued with the family's newest refresh token, the client has that one, so the previous one is
        not accepted again.
        """
        live = await self.find(access_token)
        if live is not None and live.in_grace:
            ending = (
                update(token_families)
                .where(
                    token_families.c.family_hash == live.family_hash,
                    token_families.c.generation == live.generation,
                )
                .values(previous_hash=None)
            )
            async with self._transactions.writing() as connection:
                await connection.execute(ending)
        return live

    async def find(self, access_token: str) -> LiveToken | None:
        """Return a valid access token; None if it is not valid. Changes nothing."""
        token_hash = hash_of(access_token)
        family = and_(
            token_families.c.family_hash == access_tokens.c.family_hash,
            token_families.c.issuer == access_tokens.c.issuer,
            token_families.c.subject == access_tokens.c.subject,
        )
        query = (
            select(
                access_tokens,
                token_families.c.generation.label("newest"),
                token_families.c.previous_hash,
            )
            .join(token_families, family)
            .where(
                access_tokens.c.token_hash == token_hash,
                access_tokens.c.expires_at > self._transactions.now(),
            )
        )
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            return None
        principal = Principal(row.issuer, row.subject)
        grant = open_grant(self._transactions.keys, principal, "access_tokens", token_hash, row.details)
        if grant is None:
            return None
        in_grace = row.previous_hash is not None and row.generation == row.newest
        return LiveToken(
            grant,
            row.issued_at,
            row.expires_at,
            family_hash=row.family_hash,
            generation=row.generation,
            in_grace=in_grace,
        )

    async def revoke_access(self, access_token: str, *, client_id: str) -> None:
        """Delete one access token of this client, if it exists."""
        async with self._transactions.writing() as connection:
            await connection.execute(
                delete(access_tokens).where(
                    access_tokens.c.token_hash == hash_of(access_token),
                    access_tokens.c.client_id == client_id,
                )
            )

    async def revoke_family(self, family: str, *, client_id: str, why: str | None = None) -> None:
        """End a family of this client, if it exists; if the client itself signs out, its tasks go on.

        `why` is written to the audit log.
        """
        which = and_(token_families.c.family_hash == hash_of(family), token_families.c.client_id == client_id)
        async with self._transactions.writing() as connection:
            await end_families(
                connection,
                self._transactions.keys,
                which,
                now=self._transactions.now(),
                why=why or "ended: the client signed out",
                ends_tasks=why is not None,
            )

    async def end(self, principal: Principal, *, client_id: str | None = None) -> int:
        """End the tokens of all clients of a user, or of one client; return how many families that were."""
        async with self._transactions.writing() as connection:
            return await end_tokens(
                connection,
                self._transactions.keys,
                principal,
                client_id=client_id,
                now=self._transactions.now(),
                why="ended",
            )

    async def purge(self) -> None:
        """Delete what has expired."""
        now = self._transactions.now()
        over = token_families.c.expires_at <= now
        theirs = select(token_families.c.family_hash).where(over)
        async with self._transactions.writing() as connection:
            await connection.execute(delete(codes).where(codes.c.expires_at <= now))
            await connection.execute(delete(answered_requests).where(answered_requests.c.expires_at <= now))
            await connection.execute(
                delete(access_tokens).where(
                    (access_tokens.c.expires_at <= now) | access_tokens.c.family_hash.in_(theirs)
                )
            )
            await connection.execute(delete(token_families).where(over))

    async def _end_given(self, connection: AsyncConnection, code_hash: str, client_id: str) -> bool:
        which = and_(token_families.c.code_hash == code_hash, token_families.c.client_id == client_id)
        keys, now = self._transactions.keys, self._transactions.now()
        return await end_families(connection, keys, which, now=now, why=CODE_USED) > 0

    async def _advance(
        self, connection: AsyncConnection, token: str, successor: str, client_id: str, fresh: Fresh
    ) -> Row[Any] | None:
        """Replace the token by the successor if it is the family's newest, and return the family."""
        now, token_hash = self._transactions.now(), hash_of(token)
        advanced = await connection.execute(
            update(token_families)
            .where(
                token_families.c.family_hash == hash_of(fresh.family),
                token_families.c.current_hash == token_hash,
                token_families.c.client_id == client_id,
                token_families.c.expires_at > now,
            )
            .values(
                generation=token_families.c.generation + 1,
                previous_hash=token_hash,
                current_hash=hash_of(successor),
                rotated_at=now,
            )
            .returning(token_families)
        )
        return advanced.one_or_none()

    async def _find(self, connection: AsyncConnection, family: str, client_id: str) -> Row[Any]:
        query = select(token_families).where(
            token_families.c.family_hash == hash_of(family),
            token_families.c.client_id == client_id,
            token_families.c.expires_at > self._transactions.now(),
        )
        row = (await connection.execute(query)).one_or_none()
        if row is None:
            raise _Undone("unknown")
        return row

    def _open(self, row: Row[Any], client_id: str, resource: str, lifetime: timedelta) -> TokenGrant:
        if row.created_at + lifetime <= self._transactions.now():
            raise _Undone("unknown")
        principal = Principal(row.issuer, row.subject)
        grant = open_grant(self._transactions.keys, principal, "token_families", row.family_hash, row.details)
        if grant is None or (grant.client_id, grant.resource) != (client_id, resource):
            raise _Undone("unknown")
        return grant

    def _repeated(self, row: Row[Any], token: str, successors: Sequence[str], grace: timedelta) -> str | None:
        """Return the successor that a token got already; None for a token that is not accepted any more."""
        if hash_of(token) != row.previous_hash or self._transactions.now() - row.rotated_at > grace:
            return None
        return next((one for one in successors if hash_of(one) == row.current_hash), None)

    async def _give(
        self,
        connection: AsyncConnection,
        grant: TokenGrant,
        fresh: Fresh,
        *,
        generation: int,
        until: datetime | None = None,
    ) -> None:
        """Store an access token; with `until` it expires then at the latest, as its family does."""
        keys, now, token_hash = self._transactions.keys, self._transactions.now(), hash_of(fresh.access)
        await connection.execute(
            insert(access_tokens).values(
                issuer=grant.principal.issuer,
                subject=grant.principal.subject,
                token_hash=token_hash,
                family_hash=hash_of(fresh.family),
                client_id=grant.client_id,
                details=seal_grant(keys, grant, "access_tokens", token_hash),
                issued_at=now,
                expires_at=min(fresh.access_until, until or fresh.access_until),
                generation=generation,
            )
        )

    async def _end(self, connection: AsyncConnection, row: Row[Any]) -> None:
        which = and_(
            token_families.c.family_hash == row.family_hash,
            owned_by(token_families.c, Principal(row.issuer, row.subject)),
        )
        keys, now = self._transactions.keys, self._transactions.now()
        await end_families(connection, keys, which, now=now, why=TOKEN_USED)


def _narrowed(grant: TokenGrant, scopes: frozenset[str] | None) -> TokenGrant:
    if scopes is None:
        return grant
    if scopes.isdisjoint(grant.scopes):
        raise _Undone("scope")
    return replace(grant, scopes=grant.scopes & scopes)


def _family_values(
    keys: KeyRing, grant: TokenGrant, fresh: Fresh, code_hash: str, now: datetime
) -> dict[str, object]:
    family_hash = hash_of(fresh.family)
    return {
        "issuer": grant.principal.issuer,
        "subject": grant.principal.subject,
        "family_hash": family_hash,
        "code_hash": code_hash,
        "client_id": grant.client_id,
        "details": seal_grant(keys, grant, "token_families", family_hash),
        "generation": 1,
        "current_hash": hash_of(fresh.refresh),
        "previous_hash": None,
        "rotated_at": now,
        "created_at": now,
        "expires_at": fresh.refresh_until,
    }
