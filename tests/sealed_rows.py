"""One row for every table with sealed values, with all columns filled, and the reading of it."""

from collections.abc import Callable
from datetime import datetime, timedelta

from pydantic import SecretStr
from sqlalchemy import select

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, Sealed
from nextcloud_mcp_server.storage.engine import Database, backend_of
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.key_rotation import place_of, sealed_columns, sealed_tables
from nextcloud_mcp_server.storage.oauth_records import (
    AuthorizationTransaction,
    Client,
    CodeGrant,
    CompletedTransaction,
    Fresh,
)
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    GrantRequest,
    LoginResult,
    PendingGrant,
    Permission,
    Principal,
    SignedIn,
    Tokens,
)
from nextcloud_mcp_server.storage.task_records import Lease, TaskOwner

URL = "https://cloud.example.org"
RESOURCE = "https://mcp.example.org/mcp"
READ = frozenset({"notes:read"})
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
ALICE = Principal("https://issuer.example.org", "alice")

Now = Callable[[], datetime]


def tokens(name: str, now: Now) -> Tokens:
    """Return tokens with this name."""
    return Tokens(SecretStr(f"access-{name}"), SecretStr(f"refresh-{name}"), now() + HOUR)


class Rows:
    """Stores the rows of one user in a database, and reads them as the server does.

    `read` returns every sealed text. It consumes rows that can be read once, so it is called once.
    """

    def __init__(
        self, database: Database, now: Now, *, principal: Principal = ALICE, name: str = "1"
    ) -> None:
        self._database = database
        self._now = now
        self._principal = principal
        self._name = name
        self._elicitations: list[str] = []

    async def fill(self) -> None:
        """Store a row in each table, with every sealed column filled."""
        await self._fill_requests()
        await self._fill_grant()
        await self._fill_browsers()
        await self._fill_auth_transactions()
        await self._fill_tokens()
        await self._fill_task()

    async def _ask(self, client: str) -> str:
        asked, _ = await self._database.elicitations.open(
            principal=self._principal,
            client_id=client,
            client_name=f"{client} {self._name}",
            kind="provision",
            scopes=READ,
            ttl=10 * MINUTE,
            new_url=lambda elicitation_id: f"https://mcp.example.org/{elicitation_id}",
        )
        self._elicitations.append(asked.id)
        return asked.id

    async def _fill_requests(self) -> None:
        asked = await self._ask("codex")
        flow = await self._database.login_flows.create(
            elicitation_id=asked,
            principal=self._principal,
            login_url=SecretStr(f"{URL}/login/v2/flow/{self._name}"),
            poll_token=SecretStr(f"poll {self._name}"),
            scopes=READ,
            expires_at=self._now() + HOUR,
            uid=f"uid {self._name}",
        )
        given = LoginResult(f"login {self._name}", SecretStr(f"app password {self._name}"))
        await self._database.login_flows.save_result(flow.id, given)
        await self._database.elicitations.set_failure(
            asked, Failure("not_accepted", {"name": f"error {self._name}"})
        )

    async def _fill_grant(self) -> None:
        asked = await self._database.elicitations.find(await self._ask("claude"))
        assert asked
        given = tokens(self._name, self._now)
        account_id, name, now = f"account-{self._name}", self._name, self._now()
        assert await self._database.grants.complete(
            elicitation=asked,
            flow=None,
            account=Account(account_id, self._principal, URL, f"uid-{name}", f"Name {name}", None, now),
            credential=Credential(
                f"credential-{name}",
                account_id,
                "nextcloud_oauth2",
                f"login {name}",
                given.access_token,
                needs_reauth=False,
                version=1,
                created_at=now,
                refresh_token=given.refresh_token,
                expires_at=given.expires_at,
            ),
            permission=Permission(self._principal, "claude", f"Claude {name}", READ, now),
            audit=AuditEntry(
                now, self._principal, "claude", "grant", "ok", f"detail {name}", object_name=f"object {name}"
            ),
        )
        assert await self._database.grants.keep_alternate(
            f"credential-{name}", tokens(f"late-{name}", self._now)
        )
        await self._database.outbox.add_tokens(
            principal=self._principal,
            nextcloud_url=URL,
            provider="nextcloud_oauth2",
            tokens=tokens(f"orphaned-{name}", self._now),
        )

    async def _fill_browsers(self) -> None:
        now, name = self._now(), self._name
        signed_in = SignedIn(self._principal, f"Name {name}", f"uid {name}", now, now + HOUR, f"place {name}")
        await self._database.sign_ins.create(f"browser-{name}", signed_in)
        asked = await self._ask("cursor")
        await self._database.grant_requests.create(
            GrantRequest(
                SecretStr(f"state-{name}"),
                asked,
                self._principal,
                READ,
                f"https://mcp.example.org/{name}",
                SecretStr(f"verifier {name}"),
                SecretStr(f"nonce {name}"),
                now,
                now + HOUR,
            ),
            sign_in=f"browser-{name}",
        )
        pending_grant = PendingGrant(
            asked,
            self._principal,
            READ,
            "nextcloud_oauth2",
            tokens(f"held-{name}", self._now),
            f"uid {name}",
            f"Name {name}",
            f"home {name}",
            now + HOUR,
        )
        assert await self._database.pending_grants.hold(pending_grant, sign_in=f"browser-{name}")

    async def _fill_auth_transactions(self) -> None:
        left = AuthorizationTransaction(
            f"left-{self._name}", f"target {self._name}", None, READ, self._now() + HOUR
        )
        await self._database.auth_transactions.create(
            left, state=f"s-{self._name}", browser=f"browser-{self._name}"
        )
        back = AuthorizationTransaction(f"back-{self._name}", "account", None, READ, self._now() + HOUR)
        given = tokens(f"back-{self._name}", self._now)
        completed = CompletedTransaction(
            back, self._principal, f"Name {self._name}", "home", "nextcloud_oauth2", given
        )
        assert await self._database.auth_transactions.hold(completed, browser=f"browser-{self._name}")

    async def _fill_tokens(self) -> None:
        now, name = self._now(), self._name
        await self._database.clients.save(
            Client(
                f"mcp-{name}",
                "registered",
                f"Client {name}",
                ("http://127.0.0.1/",),
                "none",
                None,
                READ,
                now,
                None,
                native=True,
            )
        )
        grant = CodeGrant(
            f"mcp-{name}", self._principal, "http://127.0.0.1/", READ, "c" * 43, RESOURCE, f"home {name}"
        )
        for code in (f"used-{name}", f"code-{name}"):
            await self._database.oauth_tokens.add_code(code, grant, expires_at=now + HOUR)
        await self._exchange_code(self._database, f"used-{name}", name)

    @property
    def _task(self) -> tuple[TaskOwner, str]:
        return TaskOwner(self._principal, f"mcp-{self._name}"), f"task-{self._name}"

    async def _fill_task(self) -> None:
        (owner, task_id), name, lease = self._task, self._name, Lease("process", 24 * HOUR)
        arguments = f'{{"path": "{name}"}}'
        task = await self._database.tasks.create(
            owner, task_id, began=None, tool="read", arguments=arguments, lifetime=24 * HOUR, lease=lease
        )
        assert task
        await self._database.tasks.renew(lease, {task_id: (owner, f"message {name}")})
        assert await self._database.tasks.ask(task, lease, f"question {name}")
        assert await self._database.tasks.answer(owner, task_id, f"answer {name}")

    async def _exchange_code(self, database: Database, code: str, name: str) -> object:
        now = self._now()
        return await database.oauth_tokens.exchange_code(
            code,
            client_id=f"mcp-{self._name}",
            fits=lambda grant: grant.storage_id == f"home {self._name}",
            fresh=Fresh(f"family-{name}", f"refresh-{name}", f"access-{name}", now + 24 * HOUR, now + HOUR),
        )

    async def read(self, database: Database) -> dict[str, object]:
        """Read each row once, through the repositories; the values include the texts of secrets."""
        name, browser = self._name, f"browser-{self._name}"
        asked = self._elicitations
        flow = await database.login_flows.find(asked[0])
        return {
            "elicitations": [await database.elicitations.find(each) for each in asked],
            "login_flows": flow,
            "grants": await database.grants.find(self._principal, "claude"),
            "audit": await database.audit.recent(self._principal, 10),
            "outbox": await database.outbox.lease_due(owner="test", lease=MINUTE, within=self._principal),
            "sign_ins": await database.sign_ins.find(browser),
            "grant_requests": await database.grant_requests.take(f"state-{name}", sign_in=browser),
            "pending_grants": await database.pending_grants.find(asked[2], sign_in=browser),
            "left": await database.auth_transactions.take(f"s-{name}", browser=browser),
            "back": await database.auth_transactions.find(f"back-{name}", browser=browser),
            "clients": await database.clients.find(f"mcp-{name}"),
            "access_tokens": await database.oauth_tokens.find(f"access-{name}"),
            "token_families": await database.oauth_tokens.rotate(
                f"refresh-{name}",
                client_id=f"mcp-{name}",
                resource=RESOURCE,
                scopes=None,
                successors=[f"successor-{name}"],
                grace=MINUTE,
                lifetime=24 * HOUR,
                fresh=Fresh(
                    f"family-{name}",
                    f"successor-{name}",
                    f"next-{name}",
                    self._now() + HOUR,
                    self._now() + HOUR,
                ),
            ),
            "tasks": await database.tasks.find(*self._task),
            "answers": await database.tasks.renew(
                Lease("process", 24 * HOUR), {self._task[1]: (self._task[0], None)}
            ),
            "codes": await self._exchange_code(database, f"code-{name}", f"second-{name}"),
        }


async def sealed_values(url: str) -> dict[tuple[str, str], list[Sealed]]:
    """Read every sealed value of a database as stored, by table and column."""
    found: dict[tuple[str, str], list[Sealed]] = {}
    engine = backend_of(url).engine()
    async with engine.connect() as connection:
        for table in sealed_tables():
            rows = (await connection.execute(select(table))).all()
            for column in sealed_columns(table):
                values = [getattr(row, column.name) for row in rows]
                found[table.name, column.name] = [value for value in values if value is not None]
    await engine.dispose()
    return found


async def opened_values(url: str, keys: KeyRing) -> list[str]:
    """Decrypt every sealed value of a database that these keys open."""
    opened: list[str] = []
    engine = backend_of(url).engine()
    async with engine.connect() as connection:
        for table in sealed_tables():
            for row in (await connection.execute(select(table))).all():
                for column in sealed_columns(table):
                    sealed: Sealed | None = getattr(row, column.name)
                    if sealed is None:
                        continue
                    try:
                        opened.append(place_of(keys, table, row).open(column.name, sealed))
                    except Unsealable:
                        continue
    await engine.dispose()
    return sorted(opened)
