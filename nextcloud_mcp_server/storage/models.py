"""The tables. A change here needs a migration in `alembic/versions` and a new `SCHEMA_VERSION`.

Who is meant (issuer, subject, uid) stands in clear because rows are found by it and a uid stays
unique across key changes; everything else that names a user or client, and every secret, is sealed.
"""

from datetime import datetime

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
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
from nextcloud_mcp_server.storage.records import ElicitationState, Principal

#: The newest migration. Start-up compares it with the database before it loads alembic.
SCHEMA_VERSION = "0009"
#: Not alembic's default name: another program in the same database would be taken for us.
VERSION_TABLE = "nextcloud_mcp_version"
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
    """What each row that belongs to a user starts with."""

    issuer: Named[str]
    subject: Named[str]


class LeasedColumns(PersonColumns):
    """Work that one process at a time takes, when it is due."""

    id: Named[str] = Column(String, primary_key=True)
    attempts: Named[int]
    due_at: Named[datetime] = Column(UtcTime, index=True)
    lease_owner: Named[str | None]
    lease_until: Named[datetime | None] = Column(UtcTime)


class ElicitationColumns(PersonColumns):
    """The id's hash finds the row; the id itself is sealed."""

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


class LoginFlowColumns(LeasedColumns):
    """`result` is a sealed pair; `discard` says that it must be deleted at Nextcloud; `uid` is whose it must be."""

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
    """Stays when a user disconnects, and then gives way to another one; see `SingleUserConsent` for who may change it.

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
    """One per account. The lease keeps all but one process from refreshing; `alternate` is sealed JSON."""

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
    """Append-only. `number` keeps the order of entries of one moment, `id` binds the sealed detail."""

    number: Named[int] = Column(Integer, primary_key=True)
    id: Named[str]
    at: Named[datetime] = Column(UtcTime)
    client_id: Named[str]
    action: Named[str]
    result: Named[str]
    detail: Named[Sealed] = Column(SealedValue)
    request_id: Named[str]


class OutboxColumns(LeasedColumns):
    """Work to be done at Nextcloud even after a crash."""

    kind: Named[str]
    nextcloud_url: Named[str]
    login_name: Named[Sealed] = Column(SealedValue)
    secret: Named[Sealed] = Column(SealedValue)


class SignInColumns(PersonColumns):
    """A browser in which a user signed in. Its cookie's value is not stored, only the hash of it.

    `sub_hash` and `sid_hash` are of what the issuer's ID token called the user and their session there.
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
    """An authorization request to the grant provider. `state` is not stored, only the hash of it."""

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
    """`tokens` is sealed JSON; `discard` says that they must be ended at Nextcloud."""

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
    """One code that the provider did not accept; they are counted for some time."""

    id: Named[str] = Column(String, primary_key=True)
    sign_in_hash: Named[str]
    at: Named[datetime] = Column(UtcTime, index=True)
    source: Named[str | None]


class AuthorizationTransactionColumns(TypedColumns):
    """A sign-in at Nextcloud, for a client or for our pages.

    Until its callback it has a `state_hash` and no user, then a user and no `state_hash`.
    `details` is sealed JSON; `connected` says that its tokens have become the user's connection.
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
    """A client of our authorization server. `details` is sealed JSON, and so bound to the client's id."""

    client_id: Named[str] = Column(String, primary_key=True)
    details: Named[Sealed] = Column(SealedValue)
    created_at: Named[datetime] = Column(UtcTime)
    last_used_at: Named[datetime | None] = Column(UtcTime)


class CodeColumns(PersonColumns):
    """A code that was not used yet; `details` is sealed JSON."""

    code_hash: Named[str] = Column(String, primary_key=True)
    client_id: Named[str]
    details: Named[Sealed] = Column(SealedValue)
    expires_at: Named[datetime] = Column(UtcTime, index=True)


class AnsweredRequestColumns(TypedColumns):
    """An authorization request that has its code, and the authorization transaction that got it."""

    request_hash: Named[str] = Column(String, primary_key=True)
    transaction_hash: Named[str]
    expires_at: Named[datetime] = Column(UtcTime, index=True)


class LogoutColumns(TypedColumns):
    """A logout that the issuer told us of (OpenID Connect Back-Channel Logout 1.0): of a user, or of one session."""

    jti_hash: Named[str] = Column(String, primary_key=True)
    issuer: Named[str]
    sub_hash: Named[str | None]
    sid_hash: Named[str | None]
    issued_at: Named[datetime] = Column(UtcTime)
    received_at: Named[datetime] = Column(UtcTime, index=True)
    expires_at: Named[datetime] = Column(UtcTime, index=True)


class TokenFamilyColumns(PersonColumns):
    """The refresh tokens that came of one code. `generation` counts them, the hashes are the last two's.

    `previous_hash` is empty once the successor was used: the token before it is good for nothing then.
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
    """An access token of a family; `details` is sealed JSON, `generation` that of the family when it was given."""

    token_hash: Named[str] = Column(String, primary_key=True)
    family_hash: Named[str] = Column(String, ForeignKey("token_families.family_hash"), index=True)
    client_id: Named[str]
    details: Named[Sealed] = Column(SealedValue)
    issued_at: Named[datetime] = Column(UtcTime)
    expires_at: Named[datetime] = Column(UtcTime, index=True)
    generation: Named[int] = Column(Integer, server_default="0")


class SpentCodeColumns(TypedColumns):
    """A code that is exchanged for no one. It belongs to no user: whose it is was never asked."""

    code_hash: Named[str] = Column(String, primary_key=True)
    expires_at: Named[datetime] = Column(UtcTime, index=True)


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

active = elicitations.c.state.in_(ACTIVE)
# The database itself keeps to one open request per user, client and kind, however many processes race.
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
# One grant at a time waits for the user's word; the ones before it are to be ended.
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
    """Say whose rows are meant; part of every WHERE that reads a user's row."""
    return and_(columns.issuer == principal.issuer, columns.subject == principal.subject)
