"""Token refresh: replaces a credential's tokens, for one lease holder at a time, and revokes them."""

from datetime import datetime, timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage.corrected_clock import is_free
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.grant_row import CREDENTIAL, open_credential, seal_alternate, token_values
from nextcloud_mcp_server.storage.models import accounts, credentials
from nextcloud_mcp_server.storage.outbox import DELETE_APP_PASSWORD, insert_item, insert_tokens
from nextcloud_mcp_server.storage.records import Account, Credential, Principal, Tokens
from nextcloud_mcp_server.storage.tokens import has_tokens, tokens_of

_FREE = {"lease_owner": None, "lease_until": None}


class CredentialRefresh:
    """Changes credentials within the caller's transaction."""

    def __init__(self, connection: AsyncConnection, keys: KeyRing, now: datetime) -> None:
        self._connection = connection
        self._keys = keys
        self._now = now

    async def lease(self, credential_id: str, *, owner: str, lease: timedelta) -> Credential | None:
        """See `GrantRepository.lease`."""
        leased = await self._connection.execute(
            update(credentials)
            .where(
                credentials.c.id == credential_id,
                or_(is_free(credentials.c.lease_until, self._now), credentials.c.lease_owner == owner),
            )
            .values(lease_owner=owner, lease_until=self._now + lease)
            .returning(credentials.c.issuer, credentials.c.subject, *CREDENTIAL)
        )
        row = leased.one_or_none()
        if row is None:
            return None
        return open_credential(self._keys, Principal(issuer=row.issuer, subject=row.subject), row)

    async def store(self, credential_id: str, *, version: int, tokens: Tokens) -> bool:
        """See `GrantRepository.store_refreshed`."""
        principal = await self._owner(credential_id)
        if principal is None:
            return False
        seal = self._keys.at("credentials", principal, credential_id)
        swapped = await self._connection.execute(
            update(credentials)
            .where(credentials.c.id == credential_id, credentials.c.version == version)
            .values(
                **token_values(seal, tokens),
                **_FREE,
                version=version + 1,
                # If the alternate worked, a credential that was given up is valid again.
                needs_reauth=False,
                alternate=None,
                retry_at=None,
            )
        )
        return swapped.rowcount == 1

    async def keep_alternate(self, credential_id: str, tokens: Tokens) -> bool:
        """See `GrantRepository.keep_alternate`."""
        principal = await self._owner(credential_id)
        if principal is None:
            return False
        sealed = seal_alternate(self._keys.at("credentials", principal, credential_id), tokens)
        await self._connection.execute(
            update(credentials).where(credentials.c.id == credential_id).values(alternate=sealed)
        )
        return True

    async def release(self, credential_id: str, *, owner: str, retry_at: datetime | None) -> None:
        """See `GrantRepository.release`."""
        await self._connection.execute(
            update(credentials)
            .where(credentials.c.id == credential_id, credentials.c.lease_owner == owner)
            .values(**_FREE, retry_at=retry_at)
        )

    async def abandon(self, credential: Credential, tokens: Tokens) -> None:
        """See `GrantRepository.abandon`."""
        query = select(accounts.c.issuer, accounts.c.subject, accounts.c.nextcloud_url).where(
            accounts.c.id == credential.account_id
        )
        row = (await self._connection.execute(query)).one()
        await insert_tokens(
            self._connection,
            self._keys,
            principal=Principal(issuer=row.issuer, subject=row.subject),
            nextcloud_url=row.nextcloud_url,
            provider=credential.provider,
            tokens=tokens,
            due_at=self._now,
        )

    async def _owner(self, credential_id: str) -> Principal | None:
        query = select(credentials.c.issuer, credentials.c.subject).where(credentials.c.id == credential_id)
        row = (await self._connection.execute(query)).one_or_none()
        return None if row is None else Principal(issuer=row.issuer, subject=row.subject)


async def revoke(
    connection: AsyncConnection, keys: KeyRing, account: Account, credential: Credential, due_at: datetime
) -> None:
    """Add the revocation of a credential to the outbox, unless it is invalid already."""
    principal, nextcloud_url = account.principal, account.nextcloud_url
    tokens = [] if credential.alternate is None else [credential.alternate]
    # Nextcloud refused a credential with `needs_reauth`; sending it again would count as one more failed login.
    if not credential.needs_reauth:
        if has_tokens(credential):
            tokens.append(tokens_of(credential))
        else:
            await insert_item(
                connection,
                keys,
                principal=principal,
                kind=DELETE_APP_PASSWORD,
                nextcloud_url=nextcloud_url,
                login_name=credential.login_name,
                secret=credential.secret,
                due_at=due_at,
            )
    for one in tokens:
        await insert_tokens(
            connection,
            keys,
            principal=principal,
            nextcloud_url=nextcloud_url,
            provider=credential.provider,
            tokens=one,
            due_at=due_at,
        )
