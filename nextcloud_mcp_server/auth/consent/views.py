"""What a page may know: of an elicitation, of a sign-in, of what a user has connected."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import SecretStr

from nextcloud_mcp_server.storage.records import ElicitationState, PendingGrant, SignedIn


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """One elicitation as its pages show it.

    `needed` is what the waiting call asks for, `offered` what may be ticked, `granted` what is
    permitted already. `login_url` is Nextcloud's own page in a login flow, None until the user
    pressed Allow. `client` is what is known of who asks beside its name, None where one permission is
    every user's on this computer. `error` may be there while the consent request is open: what went wrong with the
    last try.
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
    error: str | None = None
    client: "ClientIdentity | None" = None


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """What is known of a client that it did not make up itself.

    `host` vouches for it: its id is an address there. `leads_to` are the places that a client which registered
    itself here has its answers sent to, `id` is how an identity provider knows any other. `imitates` names the known
    client that it calls itself like and is not.
    """

    host: str | None = None
    leads_to: tuple[str, ...] = ()
    id: str = ""
    imitates: str | None = None


@dataclass(frozen=True, slots=True)
class SignInStart:
    """Where a browser goes to sign in. `flow` is sealed, and comes back in a cookie of that browser."""

    url: str
    flow: SecretStr


@dataclass(frozen=True, slots=True)
class SignInDone:
    """Who came back. `token` is for the cookie of the new session, `target` what the sign-in was for."""

    token: SecretStr
    signed_in: SignedIn
    target: str


@dataclass(frozen=True, slots=True)
class GrantDone:
    """The result of a grant flow; `pending_grant` waits until the user says whose it is.

    After a `cancelled` flow nothing was given, and the consent request is open as before.
    """

    elicitation_id: str
    pending_grant: PendingGrant | None
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class RecentAction:
    """One line of the audit: the tool's name and how it ended, never what it was about."""

    at: datetime
    action: str
    result: str


@dataclass(frozen=True, slots=True)
class ClientView:
    """What one client may do and did; `offered` is what could be permitted to it."""

    client_id: str
    name: str
    scopes: frozenset[str]
    offered: frozenset[str]
    granted_at: datetime
    last_used_at: datetime | None
    paused: bool
    recent: tuple[RecentAction, ...]


@dataclass(frozen=True, slots=True)
class SignedInClient:
    """A client that holds tokens which this server gave it."""

    client_id: str
    name: str
    since: datetime
    last_used_at: datetime


@dataclass(frozen=True, slots=True)
class ReusedToken:
    """A client that was signed out, because what it was given came a second time: two may have held it."""

    client_name: str
    at: datetime


@dataclass(frozen=True, slots=True)
class AccountView:
    """What a user has connected. Without `uid` nothing is; `needs_reauth` waits for a new consent.

    `signed_in` are clients with tokens of ours; there are none where an identity provider gives them.
    `alerts` are what happened lately to them that the user should know.
    """

    nextcloud_host: str
    uid: str | None
    display_name: str
    needs_reauth: bool
    clients: tuple[ClientView, ...]
    signed_in: tuple[SignedInClient, ...] = ()
    alerts: tuple[ReusedToken, ...] = ()
