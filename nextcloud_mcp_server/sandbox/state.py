"""What the sandbox remembers: people, app passwords, login flows, sessions and settings."""

import itertools
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nextcloud_mcp_server.sandbox.files import FileTree

Clock = Callable[[], datetime]

_SESSIONS_KEPT = 2_000


def system_clock() -> datetime:
    """Tell the time of the machine."""
    return datetime.now(UTC)


@dataclass(slots=True)
class User:
    """One person. The login name they type need not be their uid."""

    uid: str
    display_name: str
    password: str
    email: str = ""
    login_names: tuple[str, ...] = ()
    enabled: bool = True
    quota_bytes: int | None = None
    groups: tuple[str, ...] = ()
    notes_path: str = "Notes"
    notes_suffix: str = ".md"
    notes_mode: str = "rich"
    # When each note was last seen to change: note id → (etag, Unix time).
    note_syncs: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]], repr=False)
    files_factory: Callable[["User"], FileTree] | None = field(default=None, repr=False)
    _files: FileTree | None = field(default=None, init=False, repr=False)

    @property
    def files(self) -> FileTree:
        """Give this person's file tree, made at first use."""
        if self._files is None:
            if self.files_factory is None:
                raise ValueError(f"{self.uid} was not added to a State")
            self._files = self.files_factory(self)
        return self._files

    def answers_to(self, login_name: str) -> bool:
        """Say whether this person signs in with that name."""
        names = {self.uid.casefold(), self.email.casefold(), *(name.casefold() for name in self.login_names)}
        return bool(login_name) and login_name.casefold() in names


@dataclass(frozen=True, slots=True)
class AppPassword:
    """A device password; `name` is the User-Agent that started the login flow."""

    uid: str
    login_name: str
    name: str
    secret: str
    created_at: datetime


@dataclass(slots=True)
class LoginFlow:
    """One Login Flow v2: the URL alone lets anybody finish it, with any account."""

    poll_token: str
    login_token: str
    client_name: str
    started_at: datetime
    granted: AppPassword | None = None


@dataclass(slots=True)
class Session:
    """A browser session or the one that every API answer opens by its cookies.

    `cors` marks a session that a plain app request opened: DAV refuses it as a CSRF risk.
    """

    id: str
    uid: str | None = None
    login_name: str | None = None
    app_password: str | None = None
    cors: bool = False
    flow_token: str | None = None
    state_token: str | None = None


@dataclass(slots=True)
class State:
    """All of it. Tests may read and change anything here."""

    clock: Clock = system_clock
    one_second_etags: bool = True
    users: dict[str, User] = field(default_factory=dict[str, User])
    app_passwords: dict[str, AppPassword] = field(default_factory=dict[str, AppPassword])
    login_flows: list[LoginFlow] = field(default_factory=list[LoginFlow])
    sessions: dict[str, Session] = field(default_factory=dict[str, Session])
    maintenance: bool = False
    needs_db_upgrade: bool = False
    # What Nextcloud believes to be its own address, such as "https://cloud.example.org";
    # None follows the Host header.
    overwrite_host: str | None = None
    # None accepts every Host; otherwise an unknown one gets 400.
    trusted_domains: frozenset[str] | None = None
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(101), repr=False)

    def next_file_id(self) -> int:
        """Hand out the next id; it is unique over all people."""
        return next(self._ids)

    def add_user(self, user: User) -> User:
        """Take a person in and give them an empty home."""
        user.files_factory = user.files_factory or self._new_files
        self.users[user.uid] = user
        return user

    def find_user(self, login_name: str) -> User | None:
        """Find who signs in with that name: uid, e-mail address or an alias."""
        return next((user for user in self.users.values() if user.answers_to(login_name)), None)

    def new_app_password(
        self, user: User, *, login_name: str | None = None, name: str = "test"
    ) -> AppPassword:
        """Make an app password of 72 characters."""
        made = AppPassword(
            uid=user.uid,
            login_name=login_name or user.uid,
            name=name,
            secret=secrets.token_hex(36),
            created_at=self.clock(),
        )
        self.app_passwords[made.secret] = made
        return made

    def new_session(self) -> Session:
        """Open a session; the oldest ones are forgotten."""
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
