"""The values that repositories take and return: frozen, with secrets decrypted."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import Final

from pydantic import SecretStr

from nextcloud_mcp_server.storage.failure import Failure

#: How long a client's session can be taken up again. Clients keep a session for as long as they run.
SESSION_LIFETIME: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Principal:
    """One user, as the issuer of their identity names them (RFC 7519 `iss` and `sub`).

    Single-user mode has one: issuer `personal`, subject the normalised Nextcloud URL.
    """

    issuer: str
    subject: str


class ElicitationState(StrEnum):
    """`pending → opened → complete | declined | failed | expired`; the last four are final."""

    PENDING = "pending"
    OPENED = "opened"
    COMPLETE = "complete"
    DECLINED = "declined"
    FAILED = "failed"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        """Whether the state cannot change any more."""
        return self not in (ElicitationState.PENDING, ElicitationState.OPENED)


@dataclass(frozen=True, slots=True)
class Elicitation:
    """One stored consent request. `id` is a UUID, sealed in the database and found by its hash.

    `url` is what the client was given. `failure` is why the request failed, or what went wrong so far while it is
    open. `account_name` is the name, as people see it, of the Nextcloud account that a complete one
    connected, `completed_at` when.
    """

    id: str
    principal: Principal
    client_id: str
    client_name: str
    kind: str
    scopes: frozenset[str]
    url: str
    state: ElicitationState
    created_at: datetime
    expires_at: datetime
    failure: Failure | None = None
    account_name: str | None = None
    completed_at: datetime | None = None

    @property
    def error(self) -> str | None:
        """Why the request failed, in English, for clients and the log."""
        return None if self.failure is None else str(self.failure)


@dataclass(frozen=True, slots=True)
class LoginFlow:
    """One Login Flow v2 at Nextcloud, polled to its end even if no call waits for it.

    `result` is set as soon as Nextcloud has answered, before it is used. With `discard`, whatever Nextcloud
    gives must be deleted there. `scopes` are those the user ticked (all offered ones if this server has no
    page). `uid` is the account that the operator's mapping gives the user; None on a single-user server.
    """

    id: str
    elicitation_id: str
    principal: Principal
    login_url: SecretStr
    poll_token: SecretStr
    scopes: frozenset[str]
    started_at: datetime
    expires_at: datetime
    discard: bool = False
    attempts: int = 0
    result: "LoginResult | None" = None
    uid: str | None = None


@dataclass(frozen=True, slots=True)
class LoginResult:
    """The answer of Login Flow v2, which Nextcloud gives once."""

    login_name: str
    app_password: SecretStr


@dataclass(frozen=True, slots=True)
class Account:
    """The Nextcloud account of one principal; UNIQUE(principal), UNIQUE(nextcloud_url, uid).

    `storage_id` is the `oc:id` of the home folder: a deleted and re-created user has another one. `mapped` says
    that the operator's mapping, or Nextcloud itself, named the account, and not only its user.
    """

    id: str
    principal: Principal
    nextcloud_url: str
    uid: str
    display_name: str
    storage_id: str | None
    created_at: datetime
    mapped: bool = False


@dataclass(frozen=True, slots=True)
class Holding:
    """A principal's account, without sealed values; while `connected`, no other principal can get it."""

    principal: Principal
    nextcloud_url: str
    uid: str
    mapped: bool
    connected: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Tokens:
    """The answer of a token endpoint (RFC 6749 §5.1); `expires_at` is the access token's expiry, if known."""

    access_token: SecretStr
    refresh_token: SecretStr | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of an account at Nextcloud. `version` counts every change, for compare-and-swap.

    `secret` is an app password, which does not expire, or an access token with its refresh token. `alternate`
    is a late answer to a refresh, tried once before the credential counts as invalid. After a temporary failure
    nothing is refreshed before `retry_at`.
    """

    id: str
    account_id: str
    provider: str
    login_name: str
    secret: SecretStr
    needs_reauth: bool
    version: int
    created_at: datetime
    refresh_token: SecretStr | None = None
    expires_at: datetime | None = None
    alternate: Tokens | None = None
    retry_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Permission:
    """What one client may do in one user's name. A paused one allows nothing until it is resumed."""

    principal: Principal
    client_id: str
    client_name: str
    scopes: frozenset[str]
    granted_at: datetime
    last_used_at: datetime | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """Account, credential and one client's permission, read together."""

    account: Account
    credential: Credential
    permission: Permission | None


@dataclass(frozen=True, slots=True)
class Logout:
    """A logout at the issuer: of all sessions of a user, or of one session; the ids are hashed."""

    issuer: str
    sub_hash: str | None
    sid_hash: str | None
    issued_at: datetime
    received_at: datetime


#: Audit results for cases in which two parties may have had a client's code or token.
CODE_USED = "ended: a code was used twice"
TOKEN_USED = "ended: an old refresh token was used"  # noqa: S105 - words for the audit


#: Results of the audit action `account` for the principal that lost the account.
RELEASED: Final = "released by the operator"
DISPLACED: Final = "ended: another person's now"
MADE_ANEW: Final = "ended: made anew at Nextcloud"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the append-only audit log.

    `detail` and `object_name` are sealed; they may name files, never contents. `object_name` is what the user calls the
    object, perhaps known from the result alone; only that user sees it.
    """

    at: datetime
    principal: Principal
    client_id: str
    action: str
    result: str
    detail: str = ""
    request_id: str = ""
    object_name: str = ""


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """Work that must be done at Nextcloud even after a crash, such as deleting an app password.

    `secret` is what the work needs, sealed in the database.
    """

    id: str
    principal: Principal
    kind: str
    nextcloud_url: str
    login_name: str
    secret: SecretStr
    attempts: int
    next_try_at: datetime
    lease_id: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """One browser session of a signed-in user; found by the hash of the random value in its cookie.

    `uid` is the Nextcloud account that the operator's mapping gives this user, None without one. `place` is the
    network of the browser, in the form that the user sees.
    """

    principal: Principal
    display_name: str
    uid: str | None
    created_at: datetime
    expires_at: datetime
    place: str = ""


@dataclass(frozen=True, slots=True)
class OpenSignIn:
    """A browser session as its user sees it in a list.

    `id` gives no access; only its user can end the session by it.
    """

    id: str
    place: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class GrantRequest:
    """One authorization request to the grant provider; its callback brings `state` back, once.

    The row is found by the hash of `state`, together with the hash of the browser's sign-in.
    """

    state: SecretStr
    elicitation_id: str
    principal: Principal
    scopes: frozenset[str]
    redirect_uri: str
    verifier: SecretStr | None
    nonce: SecretStr | None
    created_at: datetime
    expires_at: datetime


class PendingGrantState(Enum):
    """Whether a pending grant waits for its user, is discarded already, or was not stored."""

    WAITS = auto()
    DISCARDED = auto()
    NOT_STORED = auto()


@dataclass(frozen=True, slots=True)
class PendingGrant:
    """Access that Nextcloud gave, and that waits for the user to confirm the account."""

    elicitation_id: str
    principal: Principal
    scopes: frozenset[str]
    provider: str
    tokens: Tokens
    uid: str
    display_name: str
    storage_id: str | None
    expires_at: datetime
