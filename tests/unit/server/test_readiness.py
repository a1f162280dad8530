import logging
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx2
import pytest

from nextcloud_mcp_server.errors import ConfigurationError, ForeignDatabase
from nextcloud_mcp_server.server import readiness
from nextcloud_mcp_server.server.http_app import build_http_app
from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.server.readiness import refuse_unusable_database
from nextcloud_mcp_server.server.services import Overrides, open_database
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.crypto import new_key
from tests.auth_fixtures import NEXTCLOUD, ProcessHost

SITE = PublicUrls("http://127.0.0.1:8765", "http://127.0.0.1:8765")
KEY = new_key()
ISSUER = "https://id.test"
#: A server of many people, as its settings are.
MANY = {
    "nextcloud_mcp_server_url": "https://mcp.test",
    "nextcloud_oauth_client_id": "client",
    "nextcloud_oauth_client_secret": "secret",
    "token_encryption_keys": KEY,
}
OIDC = {**MANY, "mode": "oidc", "oidc_issuer": ISSUER, "oidc_client_id": "mcp"}
BUILTIN = {**MANY, "mode": "builtin"}
NO_POSTGRES = "postgresql://mcp:hunter2@127.0.0.1:9/mcp"


def configured(folder: Path, **overrides: object) -> Settings:
    usual = {"nextcloud_host": NEXTCLOUD, "data_dir": folder, "transport": "http"}
    return environment.load(**(usual | overrides))


@asynccontextmanager
async def served(config: Settings, network: httpx2.AsyncBaseTransport) -> AsyncGenerator[httpx2.AsyncClient]:
    """Serve the whole application in this process, without sockets."""
    asgi, parts = build_http_app(config, SITE, overrides=Overrides(transport=network))
    async with (
        parts.running(resume=False),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(asgi), base_url=SITE.url) as client,
    ):
        yield client


async def asked(config: Settings, network: httpx2.AsyncBaseTransport) -> tuple[int, dict[str, str]]:
    async with served(config, network) as client:
        answer = await client.get("/readyz")
        alive = await client.get("/healthz")
    assert alive.status_code == 200
    return answer.status_code, answer.json()["parts"]


async def test_a_server_for_one_person_is_ready_without_a_database_and_makes_none(
    harness: ProcessHost,
) -> None:
    found = await asked(configured(harness.folder / "data", no_local_auth=True), harness.network)

    assert found == (200, {"database": "ok", "nextcloud": "ok"})
    assert not (harness.folder / "data").exists()


async def test_without_nextcloud_it_lives_and_is_not_ready(harness: ProcessHost) -> None:
    harness.network.before = harness.network.cut

    assert await asked(configured(harness.folder), harness.network) == (
        503,
        {"database": "ok", "nextcloud": "fails"},
    )


async def test_in_maintenance_mode_it_is_not_ready(harness: ProcessHost) -> None:
    harness.sandbox.state.maintenance = True

    assert (await asked(configured(harness.folder), harness.network))[1]["nextcloud"] == "fails"


async def test_without_postgresql_it_lives_and_is_not_ready(harness: ProcessHost) -> None:
    config = configured(harness.folder, **BUILTIN, database_url=NO_POSTGRES)

    assert await asked(config, harness.network) == (503, {"database": "fails", "nextcloud": "ok"})


async def test_a_database_file_that_was_replaced_while_it_runs_is_noticed(harness: ProcessHost) -> None:
    config = configured(harness.folder, **BUILTIN)
    async with open_database(config):
        pass
    (harness.folder / "state.db").write_bytes(b"no database" * 1000)

    assert (await asked(config, harness.network))[1] == {"database": "fails", "nextcloud": "ok"}


@pytest.mark.parametrize(("status", "verdict"), [(200, "ok"), (502, "fails")])
async def test_the_issuer_is_a_part_where_users_sign_in_there(
    harness: ProcessHost, status: int, verdict: str
) -> None:
    metadata = {"issuer": ISSUER} | {
        name: f"{ISSUER}/{name}" for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
    }

    async def issuer(request: httpx2.Request) -> httpx2.Response | None:
        return httpx2.Response(status, json=metadata) if request.url.host == "id.test" else None

    harness.network.before = issuer

    found = await asked(configured(harness.folder, **OIDC), harness.network)

    assert found[1] == {"database": "ok", "nextcloud": "ok", "issuer": verdict}


async def test_nobody_can_use_the_check_to_send_requests_to_nextcloud(harness: ProcessHost) -> None:
    async with served(configured(harness.folder), harness.network) as client:
        for _ in range(20):
            assert (await client.get("/readyz")).status_code == 200

    assert len(harness.network.asked) == 1


async def test_at_the_start_a_database_is_made_for_many_people_and_none_for_one(tmp_path: Path) -> None:
    await refuse_unusable_database(configured(tmp_path / "one"))
    await refuse_unusable_database(configured(tmp_path / "many", **BUILTIN))

    assert not (tmp_path / "one").exists()
    assert (tmp_path / "many" / "state.db").exists()


async def test_at_the_start_the_database_of_one_person_is_opened_only_where_it_must_be_made_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path)
    async with open_database(config):
        pass
    opened: list[Settings] = []

    @asynccontextmanager
    async def noting(settings: Settings) -> AsyncGenerator[None]:
        opened.append(settings)
        yield

    monkeypatch.setattr(readiness, "open_database", noting)
    await refuse_unusable_database(config)
    assert opened == []
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection, connection:
        connection.execute("UPDATE nextcloud_mcp_version SET version_num = '0009'")
    await refuse_unusable_database(config)
    assert opened == [config]


async def test_at_the_start_other_keys_are_refused(tmp_path: Path) -> None:
    await refuse_unusable_database(configured(tmp_path, **BUILTIN))

    with pytest.raises(ConfigurationError, match="sealed with another key"):
        await refuse_unusable_database(configured(tmp_path, **BUILTIN | {"token_encryption_keys": new_key()}))


async def test_at_the_start_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"no database" * 1000)

    with pytest.raises(ForeignDatabase, match="cannot be read as a database"):
        await refuse_unusable_database(configured(tmp_path, **BUILTIN))


async def test_at_the_start_postgresql_may_be_away_and_the_log_says_so_without_its_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await refuse_unusable_database(configured(tmp_path, **BUILTIN, database_url=NO_POSTGRES))

    (line,) = caplog.messages
    assert "PostgreSQL cannot be used" in line
    assert "/readyz" in line
    assert "hunter2" not in line
