import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server import app
from nextcloud_mcp_server.server.app import PublicUrls
from nextcloud_mcp_server.server.database_file import has_state
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage import crypto
from tests.auth_fixtures import NEXTCLOUD, Stage

SITE = PublicUrls("http://127.0.0.1:8765", "http://127.0.0.1:8765")
SECRET = "a-secret-of-the-tests-0123456789"


def configured(folder: Path, **overrides: object) -> Settings:
    return environment.load(
        **({"nextcloud_host": NEXTCLOUD, "data_dir": folder, "transport": "http"} | overrides)
    )


@pytest.mark.parametrize(
    ("host", "public_url", "site"),
    [
        ("127.0.0.1", None, PublicUrls("http://127.0.0.1:8765", "http://127.0.0.1:8765")),
        ("0.0.0.0", None, PublicUrls("http://127.0.0.1:8765", "http://127.0.0.1:8765")),
        ("::", None, PublicUrls("http://[::1]:8765", "http://[::1]:8765")),
        ("::1", None, PublicUrls("http://[::1]:8765", "http://[::1]:8765")),
        (
            "127.0.0.1",
            "https://mcp.example.org/",
            PublicUrls("http://127.0.0.1:8765", "https://mcp.example.org"),
        ),
    ],
)
def test_a_site_is_reached_where_it_listens_or_where_the_operator_says(
    tmp_path: Path, host: str, public_url: str | None, site: PublicUrls
) -> None:
    assert PublicUrls.of(configured(tmp_path, nextcloud_mcp_server_url=public_url), host, 8765) == site


def test_a_site_answers_to_its_own_names_alone() -> None:
    site = PublicUrls("http://127.0.0.1:8765", "https://mcp.example.org")

    assert site.names() == {"127.0.0.1:8765", "localhost:8765", "[::1]:8765", "mcp.example.org"}
    assert "https://mcp.example.org" in site.origins()
    assert "http://localhost:8765" in site.origins()
    assert all("evil" not in origin for origin in site.origins())


def test_a_page_is_named_by_its_id_and_grants_nothing_else() -> None:
    assert SITE.page_url("abc") == "http://127.0.0.1:8765/oauth/provision?elicitationId=abc"


def test_the_secret_for_clients_is_made_once_for_this_person_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = configured(tmp_path / "data")
    with caplog.at_level(logging.WARNING):
        first, second = app.bearer_secret(config), app.bearer_secret(config)

    assert first is not None
    assert first == second
    assert len(first.get_secret_value()) >= 32
    assert config.secret_file.stat().st_mode & 0o777 == 0o600
    assert caplog.text.count(str(config.secret_file)) == 1
    assert first.get_secret_value() not in caplog.text
    assert [file.name for file in config.data_path.iterdir()] == ["http.secret"]


def test_a_secret_that_is_given_is_used_and_no_file_is_made(tmp_path: Path) -> None:
    config = configured(tmp_path, nextcloud_mcp_secret=SecretStr(SECRET))

    assert app.bearer_secret(config) == SecretStr(SECRET)
    assert list(tmp_path.iterdir()) == []


def test_without_local_auth_there_is_no_secret(tmp_path: Path) -> None:
    assert app.bearer_secret(configured(tmp_path, no_local_auth=True)) is None


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n"])
def test_an_empty_or_short_secret_file_lets_nobody_in(tmp_path: Path, content: bytes) -> None:
    config = configured(tmp_path)
    config.secret_file.write_bytes(content)

    with pytest.raises(ConfigurationError, match=r"too short to be safe|is empty"):
        app.bearer_secret(config)


def test_servers_that_start_together_share_one_secret(tmp_path: Path) -> None:
    config = configured(tmp_path)
    secrets: set[str] = set()

    def read() -> None:
        secret = app.bearer_secret(config)
        assert secret is not None
        secrets.add(secret.get_secret_value())

    threads = [Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(secrets) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["http.secret"]


@asynccontextmanager
async def served(stage: Stage, **overrides: object) -> AsyncGenerator[httpx2.AsyncClient]:
    """Serve the whole application in this process, without sockets."""
    config = configured(stage.folder, nextcloud_mcp_secret=SecretStr(SECRET), **overrides)
    replaced = Overrides(transport=stage.network, clock=stage.clock)
    asgi, parts = app.build_http_app(config, SITE, overrides=replaced)
    async with (
        parts.running(resume=False),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(asgi), base_url=SITE.url) as client,
    ):
        yield client


async def test_the_pages_and_mcp_are_served_by_one_application(stage: Stage) -> None:
    async with served(stage) as client:
        home = await client.get("/", headers={"Accept": "text/html"})
        page = await client.get("/oauth/provision?elicitationId=nonsense", headers={"Accept": "text/html"})
        mcp = await client.post("/mcp", json={})

    assert home.status_code == 200
    assert page.status_code == 404
    assert mcp.status_code == 401


async def test_where_the_operator_gave_the_access_there_is_nothing_to_allow(stage: Stage) -> None:
    made = stage.sandbox.state.new_app_password(stage.sandbox.state.users["alice"])
    given = {"nextcloud_username": "alice", "nextcloud_app_password": SecretStr(made.secret)}
    async with served(stage, **given) as client:
        page = await client.get(
            "/oauth/provision?elicitationId=550e8400-e29b-41d4-a716-446655440000",
            headers={"Accept": "text/html"},
        )

    assert page.status_code >= 400
    assert made.secret not in page.text


async def test_the_keys_are_read_and_derived_with_the_first_page_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    load, derive = crypto.load_or_create_key_file, crypto.KeyRing.derive

    def counted_load(path: Path) -> tuple[list[SecretStr], bool]:
        done.append(path.name)
        return load(path)

    def counted_derive(keys: crypto.KeyRing, purpose: str) -> list[bytes]:
        done.append(purpose)
        return derive(keys, purpose)

    monkeypatch.setattr(crypto, "load_or_create_key_file", counted_load)
    monkeypatch.setattr(crypto.KeyRing, "derive", counted_derive)
    link = "/oauth/provision?elicitationId=550e8400-e29b-41d4-a716-446655440000"

    async with served(stage) as browser:
        await browser.get(link)
        first = list(done)
        answers = [await browser.get(link) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [404] * 3
    assert "forms" in first
    assert done == first


async def test_the_parts_stop_together(stage: Stage) -> None:
    config = configured(stage.folder)
    parts = app.build(config, page_url=None, overrides=Overrides(transport=stage.network))
    with anyio.fail_after(100):
        async with parts.running(resume=False):
            services = await parts.services.get()
            running = await services.database.grants.all()

    assert running == []


async def test_a_command_opens_the_core_with_its_background_work(stage: Stage) -> None:
    async with app.running_services(configured(stage.folder)) as (services, pending):
        assert services.provisioning is not None
        assert await services.provisioning.finished(["nonsense"]) == ["nonsense"]
        pending.watch("550e8400-e29b-41d4-a716-446655440000", seconds=120)
        assert await pending.wait("550e8400-e29b-41d4-a716-446655440000", seconds=60)


async def test_a_command_of_an_operator_waits_for_no_consent_request(stage: Stage) -> None:
    given = {"nextcloud_username": "alice", "nextcloud_app_password": SecretStr("secret")}
    async with app.running_services(configured(stage.folder, **given)) as (services, pending):
        ended = await pending.wait("550e8400-e29b-41d4-a716-446655440000", seconds=60)

    assert services.provisioning is None
    assert ended


async def test_consent_requests_are_looked_up_for_waiting_calls(stage: Stage) -> None:
    parts = app.build(
        configured(stage.folder),
        page_url=None,
        overrides=Overrides(transport=stage.network, clock=stage.clock),
    )
    with anyio.fail_after(100):
        async with parts.running(resume=False):
            assert await parts.pending.wait("550e8400-e29b-41d4-a716-446655440000", seconds=60)


async def test_the_sandbox_is_started_and_named_where_it_is_asked_for(tmp_path: Path) -> None:
    plain = configured(tmp_path)
    asked = environment.load(data_dir=tmp_path, sandbox=True)

    async with (
        app._with_nextcloud(plain) as same,  # pyright: ignore[reportPrivateUsage]
        app._with_nextcloud(asked) as own,  # pyright: ignore[reportPrivateUsage]
        httpx2.AsyncClient() as client,
    ):
        status = await client.get(f"{own.nextcloud_host}/status.php")

    assert same is plain
    assert status.json()["productname"]


@pytest.mark.parametrize(
    "database_url", [None, "sqlite+aiosqlite:///{}/state.db", "sqlite:///{}/state.db?timeout=5"]
)
def test_work_of_an_earlier_process_is_looked_for_where_there_is_a_database(
    tmp_path: Path, database_url: str | None
) -> None:
    config = configured(tmp_path, database_url=database_url and database_url.format(tmp_path.as_posix()))
    before = has_state(config)
    (tmp_path / "state.db").touch()

    assert (before, has_state(config)) == (False, True)
