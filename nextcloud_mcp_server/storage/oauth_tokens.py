"""Codes and tokens that our authorization server gives; stored are their hashes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, and_, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage.clients import note_use
from nextcloud_mcp_server.storage.crypto import KeyRing, hash_of
from nextcloud_mcp_server.storage.models import access_tokens, codes, owned_by, token_families
from nextcloud_mcp_server.storage.oauth_records import (
    CodeGrant,
    Fresh,
    Given,
    LiveToken,
    Refused,
    TokenGrant,
)
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.token_families import end_families, end_tokens
from nextcloud_mcp_server.storage.token_grants import open_code, open_grant, seal_code, seal_grant
from nextcloud_mcp_server.storage.transaction import Transactions

_CODE_USED = "ended: a code was used twice"
_TOKEN_USED = "ended: an old refresh token was used"  # noqa: S105 - words for the audit


@dataclass(frozen=True, slots=True)
class _Family:
    """A family's row with what it is good for."""

    family_hash: str
    grant: TokenGrant
    generation: int
    current_hash: str
    previous_hash: str | None
    rotated_at: datetime


class OAuthTokenRepository:
    """Each method is one transaction: an answer is stored as a whole, or nothing of it is."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add_code(self, code: str, grant: CodeGrant, *, expires_at: datetime) -> None:
        """Store a code. It is new and random, and is not stored itself."""
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
            await connection.execute(insert(codes).values(values))

    async def redeem(
        self, code: str, *, client_id: str, fits: Callable[[CodeGrant], bool], fresh: Fresh
    ) -> Given | Refused:
        """Take a code and store what it gives; of all who try at once, one gets it.

        Another client's code stays as it is. One that does not fit is spent: whoever sent it does not
        have what the client has that asked for it. One that was used before ends what it gave.
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
            grant = _granted(code_grant)
            await connection.execute(
                insert(token_families).values(_family_values(keys, grant, fresh, code_hash, now))
            )
            await self._give(connection, grant, fresh)
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
        fresh: Fresh,
    ) -> Given | Refused:
        """Put the first of the successors in the place of a refresh token.

        The one that was replaced last gets the same successor within the grace, whichever key it was
        made with: answers are lost, and the processes of one client share a token. Any other token of
        the family was used long ago, so two hold it: the family ends.
        """
        async with self._transactions.writing() as connection:
            family = await self._find(connection, fresh.family)
            if family is None or (family.grant.client_id, family.grant.resource) != (client_id, resource):
                return Refused("unknown")
            successor = self._successor(family, hash_of(token), successors, grace)
            if successor is None:
                await self._end(connection, family, _TOKEN_USED)
                return Refused("used")
            allowed = family.grant.scopes if scopes is None else family.grant.scopes & scopes
            if scopes and not allowed:
                return Refused("scope")
            if hash_of(successor) != family.current_hash:
                await self._replace(connection, family, hash_of(successor), fresh.refresh_until)
            await self._give(connection, replace(family.grant, scopes=allowed), fresh)
        return Given(successor, allowed)

    async def find(self, access_token: str) -> LiveToken | None:
        """Read what an access token is good for now; None when for nothing."""
        token_hash = hash_of(access_token)
        family = and_(
            token_families.c.family_hash == access_tokens.c.family_hash,
            token_families.c.issuer == access_tokens.c.issuer,
            token_families.c.subject == access_tokens.c.subject,
        )
        query = (
            select(access_tokens)
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
        return None if grant is None else LiveToken(grant, row.issued_at, row.expires_at)

    async def revoke_access(self, access_token: str, *, client_id: str) -> None:
        """End one access token of this client, if there is such a one."""
        async with self._transactions.writing() as connection:
            await connection.execute(
                delete(access_tokens).where(
                    access_tokens.c.token_hash == hash_of(access_token),
                    access_tokens.c.client_id == client_id,
                )
            )

    async def revoke_family(self, family: str, *, client_id: str) -> None:
        """End a family of this client, if there is such a one."""
        which = and_(token_families.c.family_hash == hash_of(family), token_families.c.client_id == client_id)
        async with self._transactions.writing() as connection:
            await end_families(
                connection,
                self._transactions.keys,
                which,
                now=self._transactions.now(),
                why="ended: the client signed out",
            )

    async def end(self, principal: Principal, *, client_id: str | None = None) -> int:
        """End what one person's clients, or one of them, were given; tell how many families that were."""
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
        """Forget what is good for nothing any more."""
        now = self._transactions.now()
        over = token_families.c.expires_at <= now
        theirs = select(token_families.c.family_hash).where(over)
        async with self._transactions.writing() as connection:
            await connection.execute(delete(codes).where(codes.c.expires_at <= now))
            await connection.execute(
                delete(access_tokens).where(
                    (access_tokens.c.expires_at <= now) | access_tokens.c.family_hash.in_(theirs)
                )
            )
            await connection.execute(delete(token_families).where(over))

    async def _end_given(self, connection: AsyncConnection, code_hash: str, client_id: str) -> bool:
        which = and_(token_families.c.code_hash == code_hash, token_families.c.client_id == client_id)
        keys, now = self._transactions.keys, self._transactions.now()
        return await end_families(connection, keys, which, now=now, why=_CODE_USED) > 0

    async def _find(self, connection: AsyncConnection, family: str) -> _Family | None:
        family_hash = hash_of(family)
        query = select(token_families).where(
            token_families.c.family_hash == family_hash,
            token_families.c.expires_at > self._transactions.now(),
        )
        row = (await connection.execute(query)).one_or_none()
        return None if row is None else _family(self._transactions.keys, row)

    def _successor(
        self, family: _Family, token_hash: str, successors: Sequence[str], grace: timedelta
    ) -> str | None:
        if token_hash == family.current_hash:
            return successors[0]
        if token_hash != family.previous_hash or self._transactions.now() - family.rotated_at > grace:
            return None
        return next((one for one in successors if hash_of(one) == family.current_hash), None)

    async def _replace(
        self, connection: AsyncConnection, family: _Family, successor_hash: str, until: datetime
    ) -> None:
        await connection.execute(
            update(token_families)
            .where(
                token_families.c.family_hash == family.family_hash,
                owned_by(token_families.c, family.grant.principal),
                token_families.c.generation == family.generation,
            )
            .values(
                generation=family.generation + 1,
                previous_hash=family.current_hash,
                current_hash=successor_hash,
                rotated_at=self._transactions.now(),
                expires_at=until,
            )
        )

    async def _give(self, connection: AsyncConnection, grant: TokenGrant, fresh: Fresh) -> None:
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
                expires_at=fresh.access_until,
            )
        )
        await note_use(connection, grant.client_id, now)

    async def _end(self, connection: AsyncConnection, family: _Family, why: str) -> None:
        which = and_(
            token_families.c.family_hash == family.family_hash,
            owned_by(token_families.c, family.grant.principal),
        )
        keys, now = self._transactions.keys, self._transactions.now()
        await end_families(connection, keys, which, now=now, why=why)


def _granted(code: CodeGrant) -> TokenGrant:
    return TokenGrant(
        client_id=code.client_id,
        principal=code.principal,
        scopes=code.scopes,
        resource=code.resource,
        home_id=code.home_id,
    )


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


def _family(keys: KeyRing, row: Row[Any]) -> _Family | None:
    principal = Principal(row.issuer, row.subject)
    grant = open_grant(keys, principal, "token_families", row.family_hash, row.details)
    if grant is None:
        return None
    return _Family(
        family_hash=row.family_hash,
        grant=grant,
        generation=row.generation,
        current_hash=row.current_hash,
        previous_hash=row.previous_hash,
        rotated_at=row.rotated_at,
    )
