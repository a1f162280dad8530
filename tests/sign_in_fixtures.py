"""Authorization transactions of users at Nextcloud, and processes that share their results."""

from collections.abc import Callable
from datetime import datetime, timedelta

from pydantic import SecretStr

from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import (
    AuthorizationTransaction,
    ClientRequest,
    CompletedTransaction,
)
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    Permission,
    Principal,
    Tokens,
)
from nextcloud_mcp_server.storage.tokens import load_tokens

URL = "https://cloud.example.org"
BROWSER, STATE = "browser-of-alice", "c-state"
CLIENT = "mcp-claude"
NOTES = frozenset({"notes:read"})
REQUEST = ClientRequest(
    client_id=CLIENT,
    redirect_uri="https://claude.ai/api/mcp/auth_callback",
    state="state-of-claude",
    code_challenge="c" * 43,
    resource="https://mcp.example.org/mcp",
    scopes=frozenset({"notes:read", "notes:write"}),
)

Now = Callable[[], datetime]


def leaving(
    now: Now, auth_transaction_id: str = "transaction-1", *, request: ClientRequest = REQUEST
) -> AuthorizationTransaction:
    """Return the transaction of a user who is sent to Nextcloud for a client, valid for ten minutes."""
    return AuthorizationTransaction(
        auth_transaction_id, "client", request, NOTES, now() + timedelta(minutes=10)
    )


def back(
    auth_transaction: AuthorizationTransaction, principal: Principal, now: Now, *, name: str = "1"
) -> CompletedTransaction:
    """Complete a transaction as a user, with tokens of this name."""
    given = Tokens(SecretStr(f"access-{name}"), SecretStr(f"refresh-{name}"), now() + timedelta(hours=1))
    return CompletedTransaction(auth_transaction, principal, "Alice", "00000007oc", "nextcloud_oauth2", given)


async def connect(
    database: Database,
    completed: CompletedTransaction,
    now: Now,
    *,
    browser: str = BROWSER,
    uid: str = "alice",
    row: str = "1",
) -> bool:
    """Connect a completed transaction, as after confirmation; new rows have `row` in their ids."""
    principal, given = completed.principal, completed.tokens
    assert given
    return await database.grants.connect(
        completed,
        account=Account(
            f"account-{row}", principal, URL, uid, completed.display_name, completed.storage_id, now()
        ),
        credential=Credential(
            id=f"credential-{row}",
            account_id=f"account-{row}",
            provider=completed.provider,
            login_name=uid,
            secret=given.access_token,
            needs_reauth=False,
            version=1,
            created_at=now(),
            refresh_token=given.refresh_token,
            expires_at=given.expires_at,
        ),
        permission=Permission(principal, CLIENT, "Claude", completed.auth_transaction.scopes, now()),
        audit=AuditEntry(now(), principal, CLIENT, "consent", "granted"),
        browser=browser,
    )


async def outbox(database: Database) -> list[str]:
    """List the access tokens that are to be revoked at Nextcloud."""
    items = await database.outbox.lease_due(owner="test", lease=timedelta(seconds=1))
    return [load_tokens(item.secret).access_token.get_secret_value() for item in items]
