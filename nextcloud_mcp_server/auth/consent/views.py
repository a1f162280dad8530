"""What pages show: of a consent request, of a sign-in, of a user's connection."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.policy import LIFETIME
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import ElicitationState, PendingGrant, SignedIn


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """One consent request as its pages show it.

    `needed` are the scopes of the waiting call, `offered` those that may be ticked, `granted` those that are
    permitted already. `login_url` is Nextcloud's own page in a login flow, None until the user pressed Allow.
    `client` is what is known of the client besides its name, None if all programs on a computer share one
    permission. `failure` may be set while the consent request is open: what went wrong with the last try. `lifetime`
    is how long it is open from its beginning to `expires_at`.
    """

    id: str
    state: ElicitationState
    client_name: str
    nextcloud_host: str
    needed: frozenset[str]
    offered: frozenset[str]
    granted: frozenset[str]
    login_url: SecretStr | None
    expires_at: datetime
    account_name: str | None = None
    failure: Failure | None = None
    client: "ClientIdentity | None" = None
    lifetime: timedelta = LIFETIME


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """What is known of a client from other sources than itself.

    `host` vouches for the client: the client's id is a URL there. `leads_to` are the redirect targets of a
    client that registered itself here; `id` is the client's id at an identity provider. `imitates` names the
    known client that its name imitates.
    """

    host: str | None = None
    leads_to: tuple[str, ...] = ()
    id: str = ""
    imitates: str | None = None


@dataclass(frozen=True, slots=True)
class SignInStart:
    """The start of a sign-in: its URL, and `flow`, a sealed value for a cookie of that browser."""

    url: str
    flow: SecretStr


@dataclass(frozen=True, slots=True)
class SignInDone:
    """The result of a sign-in. `token` is the value for the cookie of the new session."""

    token: SecretStr
    signed_in: SignedIn
    target: str


@dataclass(frozen=True, slots=True)
class GrantDone:
    """The result of a grant flow; `pending_grant` waits until the user confirms its account.

    After a `cancelled` flow there is no grant, and the consent request is open as before.
    """

    elicitation_id: str
    pending_grant: PendingGrant | None
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class RecentAction:
    """One entry of the audit log: the tool's name, its result and the name of its object.

    `object_name` is empty where neither the arguments nor the result of the call name one. Any user may have chosen it.
    """

    at: datetime
    action: str
    result: str
    object_name: str = ""


@dataclass(frozen=True, slots=True)
class ClientView:
    """The scopes of one client and its recent actions; `offered` are the scopes that could be permitted.

    `logo` is the one that the client names in its metadata.
    """

    client_id: str
    name: str
    scopes: frozenset[str]
    offered: frozenset[str]
    granted_at: datetime
    last_used_at: datetime | None
    paused: bool
    recent: tuple[RecentAction, ...]
    logo: Picture | None = None


@dataclass(frozen=True, slots=True)
class SignedInClient:
    """A client that holds tokens of this server's authorization server."""

    client_id: str
    name: str
    since: datetime
    last_used_at: datetime


@dataclass(frozen=True, slots=True)
class ReusedToken:
    """A client that was signed out because its code or token was used twice: two parties may have had it."""

    client_name: str
    at: datetime


@dataclass(frozen=True, slots=True)
class AccountView:
    """A user's connection. Without `uid` there is none; `needs_reauth` waits for a new consent.

    `signed_in` are clients that hold this server's tokens; empty where an identity provider issues them.
    `alerts` are recent events about them that the user should know.
    """

    nextcloud_host: str
    uid: str | None
    display_name: str
    needs_reauth: bool
    clients: tuple[ClientView, ...]
    signed_in: tuple[SignedInClient, ...] = ()
    alerts: tuple[ReusedToken, ...] = ()
