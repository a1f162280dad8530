"""The tables. A change here needs a migration in `alembic/versions` and a new `recognition.SCHEMA_VERSION`.

The principal and the uid are not encrypted, because rows are found by them and a uid must stay unique across
key changes. Everything else that identifies a user or client, and every secret, is sealed.
"""

from datetime import datetime

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Named,
    String,
    Table,
    TypedColumns,
    UniqueConstraint,
    and_,
    false,
    not_,
)

from nextcloud_mcp_server.storage.columns import ScopeSet, SealedValue, UtcTime
from nextcloud_mcp_server.storage.crypto import Sealed
from nextcloud_mcp_server.storage.recognition import KEY_TABLE
from nextcloud_mcp_server.storage.records import ElicitationState, Principal

ACTIVE = (ElicitationState.PENDING.value, ElicitationState.OPENED.value)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class PersonColumns(TypedColumns):
    """The first columns of each table whose rows belong to a user."""

    issuer: Named[str]
    subject: Named[str]


class LeasedColumns(PersonColumns):
    """Due work, which one process at a time leases."""

    id: Named[str] = Column(String, primary_key=True)
    attempts: Named[int]
    due_at: Named[datetime] = Column(UtcTime, index=True)
    lease_owner: Named[str | None]
    lease_until: Named[datetime | None] = Column(UtcTime)


class ElicitationColumns(PersonColumns):
    """A row is found by the hash of its id; the id itself is sealed."""

    id_hash: Named[str] = Column(String, primary_key=True)
    client_id: Named[str]
    kind: Named[str]
    scopes: Named[frozenset[str]] = Column(ScopeSet)
    state: Named[str]
    created_at: Named[datetime] = Column(UtcTime)
    expires_at: Named[datetime] = Column(UtcTime)
    id: Named[Sealed] = Column(SealedValue)
    url: Named[Sealed] = Column(SealedValue)
    client_name: Named[Sealed] = Column(SealedValue)
    error: Named[Sealed | None] = Column(SealedValue)
    account_name: Named[Sealed | None] = Column(SealedValue)
    refusals: Named[int] = Column(Integer, server_default="0")
    completed_at: Named[datetime | None] = Column(UtcTime)


class LoginFlowColumns(LeasedColumns):
    """`result` is a sealed pair, with `discard` to be deleted at Nextcloud; `uid` is the required account."""

    elicitation_hash: Named[str] = Column(String, ForeignKey("elicitations.id_hash"))
    elicitation_id: Named[Sealed] = Column(SealedValue)
    login_url: Named[Sealed] = Column(SealedValue)
    poll_token: Named[Sealed] = Column(SealedValue)
    scopes: Named[frozenset[str]] = Column(ScopeSet)
    started_at: Named[datetime] = Column(UtcTime)
    expires_at: Named[datetime] = Column(UtcTime)
    discard: Named[bool] = Column(Boolean)
    result: Named[Sealed | None] = Column(SealedValue)
    uid: Named[Sealed | None] = Column(SealedValue)


class AccountColumns(PersonColumns):
    """Stays after a disconnect, until another account replaces it; `GrantTransaction` has the rules.

    `mapped` says that the operator's mapping, or Nextcloud itself, named the account, and not only its user.
    """

    id: Named[str] = Column(String, primary_key=True)
    nextcloud_url: Named[str]
    uid: Named[str]
    display_name: Named[Sealed] = Column(SealedValue)
    storage_id: Named[str | None]
    created_at: Named[datetime] = Column(UtcTime)
    mapped: Named[bool] = Column(Boolean, server_default=false())


class CredentialColumns(PersonColumns):
    """One per account. The lease lets one process refresh at a time; `alternate` is sealed JSON."""

    id: Named[str] = Column(String, primary_key=True)
    account_id: Named[str] = Column(String, ForeignKey("accounts.id"))
    provider: Named[str]
    login_name: Named[Sealed] = Column(SealedValue)
    secret: Named[Sealed] = Column(SealedValue)
    needs_reauth: Named[bool] = Column(Boolean)
    version: Named[int]
    created_at: Named[datetime] = Column(UtcTime)
    refresh_token: Named[Sealed | None] = Column(SealedValue)
    expires_at: Named[datetime | None] = Column(UtcTime)
    alternate: Named[Sealed | None] = Column(SealedValue)
    retry_at: Named[datetime | None] = Column(UtcTime)
    lease_owner: Named[str | None]
    lease_until: Named[datetime | None] = Column(UtcTime)


class PermissionColumns(TypedColumns):
    """One per user and client."""

    issuer: Named[str] = Column(String, primary_key=True)
    subject: Named[str] = Column(String, primary_key=True)
    client_id: Named[str] = Column(String, primary_key=True)
    client_name: Named[Sealed] = Column(SealedValue)
    scopes: Named[frozenset[str]] = Column(ScopeSet)
    granted_at: Named[datetime] = Column(UtcTime)
    last_used_at: Named[datetime | None] = Column(UtcTime)
    paused: Named[bool] = Column(Boolean, server_default=false())


class AuditColumns(PersonColumns):
    """Append-only. `number` orders entries of one moment; the sealed detail is bound to `id`."""

    number: Named[int] = Column(Integer, primary_key=True)
    id: Named[str]
    at: Named[datetime] = Column(UtcTime)
    client_id: Named[str]
    action: Named[str]
    result: Named[str]
    detail: Named[Sealed] = Column(SealedValue)
    request_id: Named[str]
    object_name: Named[Sealed | None] = Column(SealedValue)


class OutboxColumns(LeasedColumns):
    """Work to be done at Nextcloud even after a crash."""

    kind: Named[str]
    nextcloud_url: Named[str]
    login_name: Named[Sealed] = Column(SealedValue)
    secret: Named[Sealed] = Column(SealedValue)


class SignInColumns(PersonColumns):
    """A browser session. Only the hash of its cookie's value is stored.

    `sub_hash` and `sid_hash` are hashes of the issuer's ids of the user and of their session there; in `builtin` of
    the browser's own value and of the `state` of the sign-in.
    """

    token_hash: Named[str] = Column(String, primary_key=True)
    display_name: Named[Sealed] = Column(SealedValue)
    uid: Named[Sealed | None] = Column(SealedValue)
    sub_hash: Named[str | None]
    sid_hash: Named[str | None]
    created_at: Named[datetime] = Column(UtcTime)
    expires_at: Named[datetime] = Column(UtcTime, index=True)
    place: Named[Sealed | None] = Column(SealedValue)
    last_used_at: Named[datetime | None] = Column(UtcTime)


class GrantRequestColumns(PersonColumns):
    """An authorization request to the grant provider. Only the hash of `state` is stored."""

    state_hash: Named[str] = Column(String, primary_key=True)
    sign_in_hash: Named[str]
    elicitation_id: Named[Sealed] = Column(SealedValue)
    scopes: Named[frozenset[str]] = Column(ScopeSet)
    redirect_uri: Named[Sealed] = Column(SealedValue)
    verifier: Named[Sealed | None] = Column(SealedValue)
    nonce: Named[Sealed | None] = Column(SealedValue)
    created_at: Named[datetime] = Column(UtcTime)
    expires_at: Named[datetime] = Column(UtcTime, index=True)


class PendingGrantColumns(PersonColumns):
    """`tokens` is sealed JSON; with `discard` they must be revoked at Nextcloud."""

    id: Named[str] = Column(String, primary_key=True)
    elicitation_hash: Named[str]
    sign_in_hash: Named[str]
    elicitation_id: Named[Sealed] = Column(SealedValue)
    scopes: Named[frozenset[str]] = Column(ScopeSet)
    provider: Named[str]
    tokens: Named[Sealed] = Column(SealedValue)
    uid: Named[Sealed] = Column(SealedValue)
    display_name: Named[Sealed] = Column(SealedValue)
    storage_id: Named[Sealed | None] = Column(SealedValue)
    expires_at: Named[datetime] = Column(UtcTime, index=True)
    discard: Named[bool] = Column(Boolean)


class FailedExchangeColumns(PersonColumns):
    """One code that the provider refused; it is counted for some time."""

    id: Named[str] = Column(String, primary_key=True)
    sign_in_hash: Named[str]
    at: Named[datetime] = Column(UtcTime, index=True)
    source: Named[str | None]


class AuthorizationTransactionColumns(TypedColumns):
    """A sign-in at Nextcloud, for a client or for this server's pages.

    Until its callback it has a `state_hash` and no user, then a user and no `state_hash`. `details` is sealed
    JSON; `connected` says that its tokens have become the user's grant.
    """

    id_hash: Named[str] = Column(String, primary_key=True)
    state_hash: Named[str | None] = Column(String, unique=True)
    browser_hash: Named[str]
    issuer: Named[str | None]
    subject: Named[str | None]
    client_id: Named[str | None]
    details: Named[Sealed] = Column(SealedValue)
    connected: Named[bool] = Column(Boolean)
    expires_at: Named[datetime] = Column(UtcTime, index=True)


class ClientColumns(TypedColumns):
    """A client of the built-in authorization server. `details` is sealed JSON, bound to the client's id."""

    client_id: Named[str] = Column(String, primary_key=True)
    details: Named[Sealed] = Column(SealedValue)
    created_at: Named[datetime] = Column(UtcTime)
    last_used_at: Named[datetime | None] = Column(UtcTime)


class CodeColumns(PersonColumns):
    """An unused authorization code; `details` is sealed JSON."""

    code_hash: Named[str] = Column(String, primary_key=True)
    client_id: Named[str]
    details: Named[Sealed] = Column(SealedValue)
    expires_at: Named[datetime] = Column(UtcTime, index=True)


class AnsweredRequestColumns(TypedColumns):
    """An authorization request that has its code, and the transaction that got the code."""

    request_hash: Named[str] = Column(String, primary_key=True)
    transaction_hash: Named[str]
    expires_at: Named[datetime] = Column(UtcTime, index=True)


class LogoutColumns(TypedColumns):
    """A reported logout of a user or session (OpenID Connect Back-Channel Logout 1.0)."""

    jti_hash: Named[str] = Column(String, primary_key=True)
    issuer: Named[str]
    sub_hash: Named[str | None]
    sid_hash: Named[str | None]
    issued_at: Named[datetime] = Column(UtcTime)
    received_at: Named[datetime] = Column(UtcTime, index=True)
    expires_at: Named[datetime] = Column(UtcTime, index=True)


class TokenFamilyColumns(PersonColumns):
    """The refresh tokens of one code. `generation` counts them, the hashes are those of the last two.

    `previous_hash` is empty once the successor was used: the previous token is not accepted any more.
    """

    family_hash: Named[str] = Column(String, primary_key=True)
    code_hash: Named[str]
    client_id: Named[str]
    details: Named[Sealed] = Column(SealedValue)
    generation: Named[int]
    current_hash: Named[str]
    previous_hash: Named[str | None]
    rotated_at: Named[datetime] = Column(UtcTime)
    created_at: Named[datetime] = Column(UtcTime)
    expires_at: Named[datetime] = Column(UtcTime, index=True)


class AccessTokenColumns(PersonColumns):
    """An access token; `details` is sealed JSON, `generation` the family's when it was issued."""

    token_hash: Named[str] = Column(String, primary_key=True)
    family_hash: Named[str] = Column(String, ForeignKey("token_families.family_hash"), index=True)
    client_id: Named[str]
    details: Named[Sealed] = Column(SealedValue)
    issued_at: Named[datetime] = Column(UtcTime)
    expires_at: Named[datetime] = Column(UtcTime, index=True)
    generation: Named[int] = Column(Integer, server_default="0")


class SpentCodeColumns(TypedColumns):
    """A code that is not exchanged any more. It belongs to no user: its account was never determined."""

    code_hash: Named[str] = Column(String, primary_key=True)
    expires_at: Named[datetime] = Column(UtcTime, index=True)


class SealingKeyColumns(TypedColumns):
    """A key that seals or sealed values of this database, by its id."""

    key_id: Named[bytes] = Column(LargeBinary, primary_key=True)
    noted_at: Named[datetime] = Column(UtcTime)


elicitations = Table("elicitations", metadata, ElicitationColumns)
login_flows = Table("login_flows", metadata, LoginFlowColumns, UniqueConstraint("elicitation_hash"))
accounts = Table(
    "accounts",
    metadata,
    AccountColumns,
    UniqueConstraint("issuer", "subject"),
    UniqueConstraint("nextcloud_url", "uid"),
)
credentials = Table(
    "credentials",
    metadata,
    CredentialColumns,
    UniqueConstraint("account_id"),
    UniqueConstraint("issuer", "subject"),
)
permissions = Table("permissions", metadata, PermissionColumns)
audit = Table("audit", metadata, AuditColumns, Index(None, "issuer", "subject", "number"))
outbox = Table("outbox", metadata, OutboxColumns)
sign_ins = Table("sign_ins", metadata, SignInColumns)
grant_requests = Table("grant_requests", metadata, GrantRequestColumns)
pending_grants = Table("pending_grants", metadata, PendingGrantColumns)
failed_exchanges = Table("failed_code_exchanges", metadata, FailedExchangeColumns)
auth_transactions = Table(
    "authorization_transactions", metadata, AuthorizationTransactionColumns, Index(None, "issuer", "subject")
)
clients = Table("clients", metadata, ClientColumns)
codes = Table("codes", metadata, CodeColumns)
answered_requests = Table("answered_requests", metadata, AnsweredRequestColumns)
logouts = Table("logouts", metadata, LogoutColumns)
token_families = Table(
    "token_families",
    metadata,
    TokenFamilyColumns,
    UniqueConstraint("code_hash"),
    Index(None, "issuer", "subject", "client_id"),
)
access_tokens = Table("access_tokens", metadata, AccessTokenColumns)
spent_codes = Table("spent_codes", metadata, SpentCodeColumns)
sealing_keys = Table(KEY_TABLE, metadata, SealingKeyColumns)

active = elicitations.c.state.in_(ACTIVE)
# The database itself ensures one open request per user, client and kind, for concurrent processes too.
Index(
    "uq_elicitations_active",
    elicitations.c.issuer,
    elicitations.c.subject,
    elicitations.c.client_id,
    elicitations.c.kind,
    unique=True,
    sqlite_where=active,
    postgresql_where=active,
)
Index(
    "ix_elicitations_active_expires_at",
    elicitations.c.expires_at,
    sqlite_where=active,
    postgresql_where=active,
)

kept = not_(pending_grants.c.discard)
# One pending grant at a time waits for its user; earlier ones must be revoked.
Index(
    "uq_pending_grants_active",
    pending_grants.c.elicitation_hash,
    unique=True,
    sqlite_where=kept,
    postgresql_where=kept,
)


def owned_by(
    columns: PersonColumns | PermissionColumns | AuthorizationTransactionColumns, principal: Principal
) -> ColumnElement[bool]:
    """Build the condition for a principal's rows; it is part of every WHERE that reads a user's row."""
    return and_(columns.issuer == principal.issuer, columns.subject == principal.subject)
