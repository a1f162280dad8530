from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, backend_of, file_url
from nextcloud_mcp_server.storage.oauth_records import CodeGrant, Fresh, Given
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    Elicitation,
    GrantRequest,
    LoginFlow,
    PendingGrant,
    Permission,
    Principal,
    SignedIn,
    Tokens,
)
from nextcloud_mcp_server.storage.transaction import Transactions

START = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
URL = "https://cloud.example.org"
RESOURCE = "https://mcp.example.org/mcp"


@pytest.fixture
def moment() -> list[datetime]:
    return [START]


@pytest.fixture
def now(moment: list[datetime]) -> Callable[[], datetime]:
    return lambda: moment[0]


@pytest.fixture
def advance(moment: list[datetime]) -> Callable[[float], None]:
    def go(seconds: float) -> None:
        moment[0] += timedelta(seconds=seconds)

    return go


@pytest.fixture
def keys() -> KeyRing:
    return KeyRing.parse([SecretStr(new_key())])


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return file_url(tmp_path / "data" / "mcp.db")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database; the tests here run with every dialect."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
async def execute(url: str) -> AsyncGenerator[Callable[..., Awaitable[list[tuple[Any, ...]]]]]:
    """Run statements in the test's database directly; return the last one's rows."""
    engine = backend_of(url).engine()

    async def factory(*statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        async with engine.begin() as connection:
            for statement in statements:
                result = await connection.execute(text(statement))
                rows = [tuple(row) for row in result.all()] if result.returns_rows else []
        return rows

    yield factory
    await engine.dispose()


@pytest.fixture
async def open_database(
    url: str, keys: KeyRing, now: Callable[[], datetime]
) -> AsyncGenerator[Callable[..., Awaitable[Database]]]:
    """Open the test's database, repeatedly if needed: each time stands for another process."""
    opened: list[Database] = []

    async def factory(*, other_keys: KeyRing | None = None) -> Database:
        database = await Database.open(url, keys=other_keys or keys, clock=now)
        opened.append(database)
        return database

    yield factory
    for database in opened:
        await database.aclose()


@pytest.fixture
async def database(open_database: Callable[..., Awaitable[Database]]) -> Database:
    return await open_database()


@pytest.fixture
async def transactions(
    url: str, database: Database, keys: KeyRing, now: Callable[[], datetime]
) -> AsyncGenerator[Transactions]:
    """Return transactions of another process on the test's database."""
    del database  # its tables must exist
    backend = backend_of(url)
    engine = backend.engine()
    yield Transactions(engine, backend, keys=keys, clock=now)
    await engine.dispose()


@pytest.fixture
def alice() -> Principal:
    return Principal(issuer="https://issuer.example.org", subject="alice")


@pytest.fixture
def bob() -> Principal:
    return Principal(issuer="https://issuer.example.org", subject="bob")


@pytest.fixture
def ask(database: Database, alice: Principal) -> Callable[..., Awaitable[Elicitation]]:
    """Create a consent request of alice, for the client `claude`, to read notes."""

    async def factory(
        principal: Principal = alice,
        *scopes: str,
        client_id: str = "claude",
        kind: str = "provision",
        ttl: timedelta = timedelta(minutes=10),
        through: Database = database,
    ) -> Elicitation:
        found, _ = await through.elicitations.open(
            principal=principal,
            client_id=client_id,
            client_name=f"Client {client_id}",
            kind=kind,
            scopes=frozenset(scopes or ("notes:read",)),
            ttl=ttl,
            new_url=lambda elicitation_id: (
                f"https://mcp.example.org/oauth/provision?elicitationId={elicitation_id}"
            ),
        )
        return found

    return factory


@pytest.fixture
def start(database: Database, now: Callable[[], datetime]) -> Callable[..., Awaitable[LoginFlow]]:
    """Start the login flow of a consent request."""

    async def factory(
        elicitation: Elicitation, *, poll_token: str = "poll-token", uid: str | None = None
    ) -> LoginFlow:
        return await database.login_flows.create(
            elicitation_id=elicitation.id,
            principal=elicitation.principal,
            login_url=SecretStr(f"{URL}/login/v2/flow/secret"),
            poll_token=SecretStr(poll_token),
            scopes=elicitation.scopes,
            expires_at=now() + timedelta(minutes=20),
            uid=uid,
        )

    return factory


@pytest.fixture
def entry(alice: Principal, now: Callable[[], datetime]) -> Callable[..., AuditEntry]:
    def factory(
        action: str = "grant", principal: Principal = alice, detail: str = "", object_name: str = ""
    ) -> AuditEntry:
        return AuditEntry(
            at=now(),
            principal=principal,
            client_id="claude",
            action=action,
            result="ok",
            detail=detail,
            object_name=object_name,
        )

    return factory


@pytest.fixture
def complete(
    database: Database, entry: Callable[..., AuditEntry], now: Callable[[], datetime]
) -> Callable[..., Awaitable[bool]]:
    """Complete a consent request with a grant of its scopes."""

    async def factory(
        elicitation: Elicitation,
        flow: LoginFlow | None = None,
        *,
        uid: str = "alice",
        nextcloud_url: str = URL,
        storage_id: str | None = None,
        credential_id: str = "credential-1",
        secret: str = "app-password",
        created_at: datetime | None = None,
        tokens: Tokens | None = None,
        through: Database = database,
    ) -> bool:
        principal = elicitation.principal
        return await through.grants.complete(
            elicitation=elicitation,
            flow=flow,
            account=Account(
                id=f"account-of-{principal.subject}-{credential_id}",
                principal=principal,
                nextcloud_url=nextcloud_url,
                uid=uid,
                display_name=uid.title(),
                storage_id=storage_id,
                created_at=now(),
            ),
            credential=Credential(
                id=credential_id,
                account_id=f"account-of-{principal.subject}-{credential_id}",
                provider="nextcloud_oauth2" if tokens else "login_flow_v2",
                login_name=f"{uid}@example.org",
                secret=tokens.access_token if tokens else SecretStr(secret),
                needs_reauth=False,
                version=1,
                created_at=created_at or now(),
                refresh_token=tokens and tokens.refresh_token,
                expires_at=tokens and tokens.expires_at,
            ),
            permission=Permission(
                principal=principal,
                client_id=elicitation.client_id,
                client_name=elicitation.client_name,
                scopes=elicitation.scopes,
                granted_at=now(),
            ),
            audit=entry("grant", principal),
        )

    return factory


@pytest.fixture
def tokens(now: Callable[[], datetime]) -> Callable[..., Tokens]:
    """Create tokens whose access token is valid for an hour."""

    def factory(access: str = "access-1", refresh: str | None = "refresh-1") -> Tokens:
        return Tokens(
            access_token=SecretStr(access),
            refresh_token=None if refresh is None else SecretStr(refresh),
            expires_at=now() + timedelta(hours=1),
        )

    return factory


@pytest.fixture
def sign_in(
    database: Database, alice: Principal, now: Callable[[], datetime]
) -> Callable[..., Awaitable[SignedIn]]:
    """Sign a user in, in the browser whose cookie has this value."""

    async def factory(
        token: str, principal: Principal = alice, *, uid: str | None = None, place: str = ""
    ) -> SignedIn:
        signed_in = SignedIn(
            principal=principal,
            display_name=principal.subject.title(),
            uid=uid,
            created_at=now(),
            expires_at=now() + timedelta(minutes=15),
            place=place,
        )
        await database.sign_ins.create(token, signed_in)
        return signed_in

    return factory


@pytest.fixture
def depart(database: Database, now: Callable[[], datetime]) -> Callable[..., Awaitable[GrantRequest]]:
    """Send the browser with this sign-in to the grant provider."""

    async def factory(
        elicitation: Elicitation,
        *,
        state: str = "state-1",
        sign_in: str = "browser-1",
        verifier: str | None = None,
        nonce: str | None = None,
    ) -> GrantRequest:
        grant_request = GrantRequest(
            state=SecretStr(state),
            elicitation_id=elicitation.id,
            principal=elicitation.principal,
            scopes=elicitation.scopes,
            redirect_uri="https://mcp.example.org/oauth/callback/nextcloud",
            verifier=None if verifier is None else SecretStr(verifier),
            nonce=None if nonce is None else SecretStr(nonce),
            created_at=now(),
            expires_at=now() + timedelta(minutes=10),
        )
        await database.grant_requests.create(grant_request, sign_in=sign_in)
        return grant_request

    return factory


@pytest.fixture
def hold(
    database: Database, tokens: Callable[..., Tokens], now: Callable[[], datetime]
) -> Callable[..., Awaitable[PendingGrant]]:
    """Store a pending grant, in the browser with this sign-in."""

    async def factory(
        elicitation: Elicitation,
        *,
        principal: Principal | None = None,
        sign_in: str = "browser-1",
        access: str = "access-1",
        storage_id: str | None = None,
    ) -> PendingGrant:
        held = PendingGrant(
            elicitation_id=elicitation.id,
            principal=principal or elicitation.principal,
            scopes=elicitation.scopes,
            provider="nextcloud_oauth2",
            tokens=tokens(access, f"refresh of {access}"),
            uid="alice",
            display_name="Alice",
            storage_id=storage_id,
            expires_at=now() + timedelta(minutes=5),
        )
        await database.pending_grants.hold(held, sign_in=sign_in)
        return held

    return factory


@pytest.fixture
def give_tokens(database: Database, now: Callable[[], datetime]) -> Callable[..., Awaitable[str]]:
    """Give a user's client tokens, of which the refresh token lives for so many hours; return the access token."""

    async def factory(principal: Principal, client_id: str, *, hours: int = 5, family: str = "1") -> str:
        name, hour = f"{principal.subject} {client_id} {family}", timedelta(hours=1)
        grant = CodeGrant(client_id, principal, "uri", frozenset(), "challenge", RESOURCE, None)
        await database.oauth_tokens.add_code(name, grant, expires_at=now() + hour)
        fresh = Fresh(name, f"refresh of {name}", f"access of {name}", now() + hours * hour, now() + hour)
        given = await database.oauth_tokens.exchange_code(
            name, client_id=client_id, fits=lambda _: True, fresh=fresh
        )
        assert isinstance(given, Given)
        return fresh.access

    return factory
