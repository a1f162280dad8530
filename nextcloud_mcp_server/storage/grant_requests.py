"""Grant requests: authorization requests to the grant provider. Each is taken once, by its browser."""

from collections.abc import Iterable
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Row, delete, insert, select

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, hash_of
from nextcloud_mcp_server.storage.models import grant_requests
from nextcloud_mcp_server.storage.records import GrantRequest, Principal
from nextcloud_mcp_server.storage.spent_codes import insert_spent
from nextcloud_mcp_server.storage.transaction import Transactions


class GrantRequestRepository:
    """Stores grant requests until their callback or expiry; `SignInRepository.purge` deletes expired ones."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(self, grant_request: GrantRequest, *, sign_in: str) -> None:
        """Store a grant request of this browser session. Its `state` is new and random, and is not stored."""
        principal, state_hash = grant_request.principal, hash_of(grant_request.state.get_secret_value())
        seal = self._transactions.keys.at("grant_requests", principal, state_hash)
        values = {
            "issuer": principal.issuer,
            "subject": principal.subject,
            "state_hash": state_hash,
            "sign_in_hash": hash_of(sign_in),
            "elicitation_id": seal.seal("elicitation_id", grant_request.elicitation_id),
            "scopes": grant_request.scopes,
            "redirect_uri": seal.seal("redirect_uri", grant_request.redirect_uri),
            "verifier": seal.seal_optional("verifier", _text(grant_request.verifier)),
            "nonce": seal.seal_optional("nonce", _text(grant_request.nonce)),
            "created_at": grant_request.created_at,
            "expires_at": grant_request.expires_at,
        }
        async with self._transactions.writing() as connection:
            await connection.execute(insert(grant_requests).values(values))

    async def take(self, state: str, *, sign_in: str) -> GrantRequest | None:
        """Take the grant request of a callback; of concurrent callers, only one gets it.

        None if another browser began it, if it has expired or was taken before, and if its key is missing: the
        user can start again.
        """
        taking = (
            delete(grant_requests)
            .where(
                grant_requests.c.state_hash == hash_of(state),
                grant_requests.c.sign_in_hash == hash_of(sign_in),
                grant_requests.c.expires_at > self._transactions.now(),
            )
            .returning(grant_requests)
        )
        async with self._transactions.writing() as connection:
            row = (await connection.execute(taking)).one_or_none()
        return None if row is None else _grant_request(self._transactions.keys, row, state)

    async def end(self, state: str, *, codes: Iterable[str]) -> GrantRequest | None:
        """Delete the grant request of a `state`, whichever browser began it, and mark the codes as spent.

        None if there is none, also if it was taken before; then nothing is written. None, too, if its key is
        missing.
        """
        ending = (
            delete(grant_requests)
            .where(grant_requests.c.state_hash == hash_of(state))
            .returning(grant_requests)
        )
        async with self._transactions.writing() as connection:
            row = (await connection.execute(ending)).one_or_none()
            if row is not None:
                await insert_spent(connection, codes, now=self._transactions.now())
        return None if row is None else _grant_request(self._transactions.keys, row, state)

    async def knows(self, state: str) -> bool:
        """Tell whether a grant request with this `state` waits for its callback, in any browser.

        Nothing is written.
        """
        query = select(grant_requests.c.state_hash).where(grant_requests.c.state_hash == hash_of(state))
        async with self._transactions.reading() as connection:
            return (await connection.execute(query)).first() is not None


def _text(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _secret(text: str | None) -> SecretStr | None:
    return None if text is None else SecretStr(text)


def _grant_request(keys: KeyRing, row: Row[Any], state: str) -> GrantRequest | None:
    principal = Principal(issuer=row.issuer, subject=row.subject)
    seal = keys.at("grant_requests", principal, row.state_hash)
    try:
        return GrantRequest(
            state=SecretStr(state),
            elicitation_id=seal.open("elicitation_id", row.elicitation_id),
            principal=principal,
            scopes=row.scopes,
            redirect_uri=seal.open("redirect_uri", row.redirect_uri),
            verifier=_secret(seal.open_optional("verifier", row.verifier)),
            nonce=_secret(seal.open_optional("nonce", row.nonce)),
            created_at=row.created_at,
            expires_at=row.expires_at,
        )
    except Unsealable:
        return None
