"""Sign-ins: browser sessions of signed-in users, and the flows begun in them."""

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, hash_of
from nextcloud_mcp_server.storage.models import grant_requests, owned_by, sign_ins
from nextcloud_mcp_server.storage.pending_grants import (
    discard_pending_grants_of_sign_in,
    discard_pending_grants_of_user,
)
from nextcloud_mcp_server.storage.records import OpenSignIn, Principal, SignedIn
from nextcloud_mcp_server.storage.transaction import Transactions

#: Precision of the last use: otherwise each page would cause a write.
_EXACT_TO: Final = timedelta(minutes=1)


class SignInRepository:
    """Stores browser sessions by the hash of the random value in their cookie, for a short time."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(
        self, token: str, signed_in: SignedIn, *, sub: str | None = None, sid: str | None = None
    ) -> None:
        """Store a browser session. `token` is new and random; only its hash is stored.

        `sub` and `sid` are the issuer's ids of the user and their session, for its logouts. In `builtin` there are
        none, and they are the values of `end_of_other_browser`.
        """
        principal, token_hash = signed_in.principal, hash_of(token)
        seal = self._transactions.keys.at("sign_ins", principal, token_hash)
        values = {
            "issuer": principal.issuer,
            "subject": principal.subject,
            "token_hash": token_hash,
            "display_name": seal.seal("display_name", signed_in.display_name),
            "uid": seal.seal_optional("uid", signed_in.uid),
            "created_at": signed_in.created_at,
            "expires_at": signed_in.expires_at,
            "sub_hash": None if sub is None else hash_of(sub),
            "sid_hash": None if sid is None else hash_of(sid),
            "place": seal.seal("place", signed_in.place),
            "last_used_at": signed_in.created_at,
        }
        async with self._transactions.writing() as connection:
            await connection.execute(insert(sign_ins).values(values))

    async def find(self, token: str) -> SignedIn | None:
        """Return the signed-in user; None if the session has ended or its key is missing.

        The user can then sign in again.
        """
        query = select(sign_ins).where(
            sign_ins.c.token_hash == hash_of(token), sign_ins.c.expires_at > self._transactions.now()
        )
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _signed_in(self._transactions.keys, row)

    async def used(self, token: str) -> None:
        """Record the last use of a browser session, to the minute."""
        now = self._transactions.now()
        seen = sign_ins.c.token_hash == hash_of(token), sign_ins.c.last_used_at <= now - _EXACT_TO
        async with self._transactions.reading() as connection:
            if (await connection.execute(select(sign_ins.c.token_hash).where(*seen))).first() is None:
                return
        async with self._transactions.writing() as connection:
            await connection.execute(update(sign_ins).where(*seen).values(last_used_at=now))

    async def open(self, principal: Principal) -> list[OpenSignIn]:
        """Return a user's browser sessions, the last used first."""
        query = select(sign_ins).where(
            owned_by(sign_ins.c, principal), sign_ins.c.expires_at > self._transactions.now()
        )
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        found = [_open(self._transactions.keys, row) for row in rows]
        return sorted(found, key=lambda one: one.last_used_at, reverse=True)

    async def end(self, principal: Principal, sign_in_id: str) -> bool:
        """End one of a user's browser sessions, by its id in the list; return whether it existed."""
        own = owned_by(sign_ins.c, principal), sign_ins.c.token_hash == sign_in_id
        async with self._transactions.writing() as connection:
            if not (await connection.execute(delete(sign_ins).where(*own))).rowcount:
                return False
            await connection.execute(
                delete(grant_requests).where(grant_requests.c.sign_in_hash == sign_in_id)
            )
            await discard_pending_grants_of_sign_in(connection, sign_in_id)
        return True

    async def delete(self, token: str) -> None:
        """End one browser session, and the flows begun in it."""
        await self.delete_by_id(hash_of(token))

    async def end_of_other_browser(self, state: str, *, flow: str) -> bool:
        """End the session that the sign-in of a `state` gave to another browser; return whether there was one.

        Such a session was stored with `flow` as `sub` and `state` as `sid`, where no issuer has ids of its own.
        """
        other = sign_ins.c.sid_hash == hash_of(state), sign_ins.c.sub_hash != hash_of(flow)
        async with self._transactions.reading() as connection:
            found = (await connection.execute(select(sign_ins.c.token_hash).where(*other))).scalars().all()
        for token_hash in found:
            await self.delete_by_id(token_hash)
        return bool(found)

    async def delete_by_id(self, token_hash: str) -> None:
        """End the browser session with this id, of any user, and the flows begun in it."""
        async with self._transactions.writing() as connection:
            await connection.execute(delete(sign_ins).where(sign_ins.c.token_hash == token_hash))
            await connection.execute(
                delete(grant_requests).where(grant_requests.c.sign_in_hash == token_hash)
            )
            await discard_pending_grants_of_sign_in(connection, token_hash)

    async def delete_all(self, principal: Principal) -> int:
        """End all browser sessions of a user, and the flows begun in them; return how many sessions that were."""
        async with self._transactions.writing() as connection:
            return await sign_out_everywhere(connection, principal)

    async def purge(self) -> None:
        """Delete expired browser sessions and grant requests."""
        now = self._transactions.now()
        async with self._transactions.writing() as connection:
            await connection.execute(delete(sign_ins).where(sign_ins.c.expires_at <= now))
            await connection.execute(delete(grant_requests).where(grant_requests.c.expires_at <= now))


async def sign_out_everywhere(connection: AsyncConnection, principal: Principal) -> int:
    """End a user's browser sessions, and the flows begun in them, within the caller's transaction."""
    gone = await connection.execute(delete(sign_ins).where(owned_by(sign_ins.c, principal)))
    await end_started(connection, principal)
    return gone.rowcount


async def end_started(connection: AsyncConnection, principal: Principal) -> None:
    """Delete the grant requests of a user, and discard their pending grants."""
    await connection.execute(delete(grant_requests).where(owned_by(grant_requests.c, principal)))
    await discard_pending_grants_of_user(connection, principal)


def _open(keys: KeyRing, row: Row[Any]) -> OpenSignIn:
    seal = keys.at("sign_ins", Principal(issuer=row.issuer, subject=row.subject), row.token_hash)
    try:
        place = seal.open_optional("place", row.place) or ""
    except Unsealable:
        place = ""
    return OpenSignIn(
        row.token_hash, place, row.created_at, row.last_used_at or row.created_at, row.expires_at
    )


def _signed_in(keys: KeyRing, row: Row[Any]) -> SignedIn | None:
    principal = Principal(issuer=row.issuer, subject=row.subject)
    seal = keys.at("sign_ins", principal, row.token_hash)
    try:
        return SignedIn(
            principal=principal,
            display_name=seal.open("display_name", row.display_name),
            uid=seal.open_optional("uid", row.uid),
            created_at=row.created_at,
            expires_at=row.expires_at,
            place=seal.open_optional("place", row.place) or "",
        )
    except Unsealable:
        return None
