"""The state of the sandbox: users, app passwords, OAuth clients and grants, login flows, sessions."""

import itertools
import secrets
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TypeVar, cast

from nextcloud_mcp_server.sandbox.address_book import StoredBook, new_books
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar, new_calendars
from nextcloud_mcp_server.sandbox.files import FileTree
from nextcloud_mcp_server.sandbox.node import Node, Tag

S = TypeVar("S")

Clock = Callable[[], datetime]

_SESSIONS_KEPT = 2_000
_ALPHANUMERIC = string.ascii_letters + string.digits


def random_text(length: int) -> str:
    """Return a secret of letters and digits, as Nextcloud creates it."""
    return "".join(secrets.choice(_ALPHANUMERIC) for _ in range(length))


def system_clock() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Upload:
    """A chunked upload: the chunks by name, each with its bytes, etag and time."""

    started_at: int
    etag: str
    chunks: dict[str, tuple[bytes, str, int]] = field(default_factory=dict[str, tuple[bytes, str, int]])

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(len(data) for data, _, _ in self.chunks.values())

    @property
    def data(self) -> bytes:
        """The bytes of all chunks, in the order of the numbers in their names."""
        names = sorted(self.chunks, key=lambda name: (int(name) if name.isdigit() else 0, name))
        return b"".join(self.chunks[name][0] for name in names)


@dataclass(slots=True)
class User:
    """One user. Their login name may differ from the uid."""

    uid: str
    display_name: str
    password: str
    email: str = ""
    timezone: str = "UTC"
    login_names: tuple[str, ...] = ()
    enabled: bool = True
    quota_bytes: int | None = None
    groups: tuple[str, ...] = ()
    admin: bool = False
    # Apps that only groups may use in which this person is not.
    denied_apps: frozenset[str] = frozenset()
    notes_path: str = "Notes"
    notes_suffix: str = ".md"
    notes_mode: str = "rich"
    # When each note was last seen to change: note id → (etag, Unix time).
    note_syncs: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]], repr=False)
    calendars: dict[str, StoredCalendar] = field(default_factory=new_calendars, repr=False)
    address_books: dict[str, StoredBook] = field(default_factory=new_books, repr=False)
    uploads: dict[str, Upload] = field(default_factory=dict[str, Upload], repr=False)
    files_factory: Callable[["User"], FileTree] | None = field(default=None, repr=False)
    _files: FileTree | None = field(default=None, init=False, repr=False)

    @property
    def files(self) -> FileTree:
        """The user's file tree, created at first use."""
        if self._files is None:
            if self.files_factory is None:
                raise ValueError(f"{self.uid} was not added to a State")
            self._files = self.files_factory(self)
        return self._files

    def answers_to(self, login_name: str) -> bool:
        """Return whether the user signs in with that name."""
        names = {self.uid.casefold(), self.email.casefold(), *(name.casefold() for name in self.login_names)}
        return bool(login_name) and login_name.casefold() in names


@dataclass(frozen=True, slots=True)
class AppPassword:
    """A device password; `name` is the User-Agent that started the login flow.

    An access token of the `oauth2` app is one too: it expires, and names the grant it belongs to.
    """

    uid: str
    login_name: str
    name: str
    secret: str
    created_at: datetime
    expires_at: datetime | None = None
    grant_id: int | None = None


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client of the `oauth2` app, as an administrator registered it."""

    id: int
    name: str
    redirect_uri: str
    client_id: str
    client_secret: str


@dataclass(slots=True)
class OAuthGrant:
    """The result of one consent. `code` is first the authorization code, then the newest refresh token."""

    id: int
    client_row: int
    code: str
    access_token: str
    created_at: datetime
    delivered: int = 0
    last_code: str = ""


@dataclass(slots=True)
class LoginFlow:
    """One Login Flow v2: the URL alone suffices to finish it, with any account."""

    poll_token: str
    login_token: str
    client_name: str
    started_at: datetime
    granted: AppPassword | None = None


@dataclass(slots=True)
class Share:
    """A share with a user (0), a group (1) or a public link (3)."""

    id: int
    kind: int
    owner: str
    node: Node
    receiver: str | None
    permissions: int
    shared_at: int
    token: str | None = None
    note: str = ""
    label: str = ""
    expires: date | None = None
    password: str | None = None
    # Members of the group who left the share.
    left_by: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Session:
    """A browser session or the one that every API answer opens by its cookies.

    `cors` marks a session that a bearer or a plain app request opened: as a CSRF risk, DAV lets it only read.
    """

    id: str
    uid: str | None = None
    login_name: str | None = None
    app_password: str | None = None
    cors: bool = False
    flow_token: str | None = None
    state_token: str | None = None
    # The oauth2 app keeps one of each per session: a second tab overwrites those of the first.
    oauth_state: str | None = None
    oauth_state_token: str | None = None


#: Three rings, white: Nextcloud shows its logo before a colour.
_LOGO = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="113" height="60" viewBox="0 0 113 60" fill="none" stroke="#fff" '
    b'stroke-width="8"><circle cx="56.5" cy="30" r="25"/><circle cx="17" cy="30" r="12"/>'
    b'<circle cx="96" cy="30" r="12"/></svg>'
)


@dataclass(slots=True)
class State:
    """The whole state; tests may read and change it."""

    clock: Clock = system_clock
    one_second_etags: bool = True
    # What the administrator chose in the settings of the app `theming`; the logo with its media type.
    name: str = "Nextcloud"
    logo: tuple[str, bytes] = ("image/svg+xml", _LOGO)
    users: dict[str, User] = field(default_factory=dict[str, User])
    app_passwords: dict[str, AppPassword] = field(default_factory=dict[str, AppPassword])
    login_flows: list[LoginFlow] = field(default_factory=list[LoginFlow])
    #: `core.login_flow_v2.allowed_user_agents`: patterns without PHP's delimiters; empty for every program.
    allowed_user_agents: list[str] = field(default_factory=list[str])
    oauth_clients: list[OAuthClient] = field(default_factory=list[OAuthClient])
    oauth_grants: list[OAuthGrant] = field(default_factory=list[OAuthGrant])
    # How many refreshes with a token that was just used still get 200, as parallel ones on a real
    # Nextcloud do; what the earlier of them was given is worthless.
    oauth_races: int = 0
    # How long an access token of the `oauth2` app lasts.
    oauth_token_seconds: int = 3600
    # How a bearer that is no app password is checked: user_oidc answers with a uid or None.
    check_bearer: Callable[[str], str | None] | None = None
    # Addresses whose bad logins are not counted, each as one that is written in full.
    allow_listed: set[str] = field(default_factory=set[str])
    sessions: dict[str, Session] = field(default_factory=dict[str, Session])
    tags: dict[int, Tag] = field(default_factory=dict[int, Tag])
    shares: list[Share] = field(default_factory=list[Share])
    tags_by_admins_only: bool = False
    # The addresses that got mail about a meeting, each with the iTIP method; whether mail is sent; and whether a UID
    # that is in the trash is answered with 400, as old versions do, instead of 500.
    invitations: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    sends_mail: bool = True
    refuses_deleted_uids: bool = False
    maintenance: bool = False
    needs_db_upgrade: bool = False
    # What Nextcloud believes to be its own address, such as "https://cloud.example.org";
    # None follows the Host header.
    overwrite_host: str | None = None
    # None accepts every Host; otherwise an unknown one gets 400.
    trusted_domains: frozenset[str] | None = None
    _stores: dict[type[object], object] = field(default_factory=dict[type[object], object], repr=False)
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(101), repr=False)
    _shares: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)
    _comments: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)
    _rows: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)

    def store(self, kind: type[S]) -> S:
        """Give what an app remembers, made at its first use."""
        found = self._stores.get(kind)
        if found is None:
            found = self._stores[kind] = kind()
        return cast("S", found)

    def next_file_id(self) -> int:
        """Return the next id; it is unique over all users."""
        return next(self._ids)

    def next_share_id(self) -> int:
        """Return the next id of a share."""
        return next(self._shares)

    def next_comment_id(self) -> int:
        """Return the next id of a comment."""
        return next(self._comments)

    def add_tag(self, name: str, *, assignable: bool = True) -> Tag:
        """Create a tag."""
        tag = Tag(max(self.tags, default=0) + 1, name, assignable)
        self.tags[tag.id] = tag
        return tag

    def add_user(self, user: User) -> User:
        """Add a user with an empty home."""
        user.files_factory = user.files_factory or self._new_files
        self.users[user.uid] = user
        return user

    def find_user(self, login_name: str) -> User | None:
        """Return the user who signs in with that name: uid, e-mail address or an alias."""
        return next((user for user in self.users.values() if user.answers_to(login_name)), None)

    def accounts_book(self) -> StoredBook:
        """Return the address book of all users, as Nextcloud fills it."""
        now = self.clock().timestamp()
        book = StoredBook("Accounts", "System address book which holds all accounts", "system")
        for user in self.users.values():
            if not user.admin:
                email = f"EMAIL;TYPE=OTHER:{user.email}\r\n" if user.email else ""
                card = f"BEGIN:VCARD\r\nVERSION:3.0\r\nUID:{user.uid}\r\nFN:{user.display_name}\r\n"
                book.put(f"Database:{user.uid}.vcf", f"{card}{email}END:VCARD\r\n", now)
        return book

    def new_app_password(
        self, user: User, *, login_name: str | None = None, name: str = "test"
    ) -> AppPassword:
        """Create an app password of 72 characters."""
        made = AppPassword(
            uid=user.uid,
            login_name=login_name or user.uid,
            name=name,
            secret=secrets.token_hex(36),
            created_at=self.clock(),
        )
        self.app_passwords[made.secret] = made
        return made

    def find_app_password(self, secret: str) -> AppPassword | None:
        """Find an app password or access token that has not expired."""
        found = self.app_passwords.get(secret)
        if found is None or (found.expires_at is not None and found.expires_at <= self.clock()):
            return None
        return found

    def remove_app_password(self, app_password: AppPassword) -> None:
        """Delete it; with an access token, delete all tokens of its grant, so that no refresh works any more."""
        family = {
            secret
            for secret, one in self.app_passwords.items()
            if one.grant_id is not None and one.grant_id == app_password.grant_id
        }
        for secret in family | {app_password.secret}:
            self.app_passwords.pop(secret, None)

    def new_oauth_client(self, name: str, redirect_uri: str) -> OAuthClient:
        """Register a client of the `oauth2` app; it may use this one redirect URI."""
        made = OAuthClient(next(self._rows), name, redirect_uri, random_text(64), random_text(64))
        self.oauth_clients.append(made)
        return made

    def new_oauth_grant(self, user: User, client: OAuthClient, *, login_name: str | None) -> OAuthGrant:
        """Create a grant: an access token, and the code for which it is issued."""
        made = OAuthGrant(
            id=next(self._rows),
            client_row=client.id,
            code=random_text(128),
            access_token=random_text(72),
            created_at=self.clock(),
        )
        self.app_passwords[made.access_token] = AppPassword(
            uid=user.uid,
            login_name=login_name or user.uid,
            name=client.name,
            secret=made.access_token,
            created_at=made.created_at,
            grant_id=made.id,
        )
        self.oauth_grants.append(made)
        return made

    def new_session(self) -> Session:
        """Open a session; the oldest ones are deleted."""
        session = Session(id=secrets.token_hex(16))
        self.sessions[session.id] = session
        if len(self.sessions) > _SESSIONS_KEPT:
            del self.sessions[next(iter(self.sessions))]
        return session

    def _new_files(self, user: User) -> FileTree:
        return FileTree(
            user.uid,
            clock=lambda: self.clock().timestamp(),
            next_id=self.next_file_id,
            quota_bytes=user.quota_bytes,
            coarse_etags=self.one_second_etags,
        )
