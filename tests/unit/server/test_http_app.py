import ctypes
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.server.http_app import build_http_app
from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage import crypto
from tests.auth_fixtures import NEXTCLOUD, ProcessHost

SITE = PublicUrls("http://127.0.0.1:8765", "http://127.0.0.1:8765")


SECRET = "a-secret-of-the-tests-0123456789"


def configured(folder: Path, **overrides: object) -> Settings:
    return environment.load(
        **({"nextcloud_host": NEXTCLOUD, "data_dir": folder, "transport": "http"} | overrides)
    )


@asynccontextmanager
async def served(harness: ProcessHost, **overrides: object) -> AsyncGenerator[httpx2.AsyncClient]:
    """Serve the whole application in this process, without sockets."""
    config = configured(harness.folder, nextcloud_mcp_secret=SecretStr(SECRET), **overrides)
    replaced = Overrides(transport=harness.network, clock=harness.clock)
    asgi, parts = build_http_app(config, SITE, overrides=replaced)
    async with (
        parts.running(resume=False),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(asgi), base_url=SITE.url) as client,
    ):
        yield client


async def test_the_pages_and_mcp_are_served_by_one_application(harness: ProcessHost) -> None:
    async with served(harness) as client:
        home = await client.get("/", headers={"Accept": "text/html"})
        page = await client.get("/oauth/provision?elicitationId=nonsense", headers={"Accept": "text/html"})
        mcp = await client.post("/mcp", json={})

    assert home.status_code == 200
    assert page.status_code == 404
    assert mcp.status_code == 401


async def test_where_the_operator_gave_the_access_there_is_nothing_to_allow(harness: ProcessHost) -> None:
    made = harness.sandbox.state.new_app_password(harness.sandbox.state.users["alice"])
    given = {"nextcloud_username": "alice", "nextcloud_app_password": SecretStr(made.secret)}
    async with served(harness, **given) as client:
        page = await client.get(
            "/oauth/provision?elicitationId=550e8400-e29b-41d4-a716-446655440000",
            headers={"Accept": "text/html"},
        )

    assert page.status_code >= 400
    assert made.secret not in page.text


async def test_the_keys_are_read_and_derived_with_the_first_page_alone(
    harness: ProcessHost, monkeypatch: pytest.MonkeyPatch
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

    async with served(harness) as browser:
        await browser.get(link)
        first = list(done)
        answers = [await browser.get(link) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [404] * 3
    assert "forms" in first
    assert done == first


async def test_while_the_application_runs_it_gives_free_memory_back(
    harness: ProcessHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    class Library:
        def __init__(self, _: None) -> None:
            return

        def __getattr__(self, name: str) -> Callable[..., int]:
            looked_up.append(name)
            return Mock(return_value=1)

    monkeypatch.setattr(ctypes, "CDLL", Library)
    replaced = Overrides(transport=harness.network, clock=harness.clock)
    config = configured(harness.folder, nextcloud_mcp_secret=SecretStr(SECRET))
    asgi, _ = build_http_app(config, SITE, overrides=replaced)
    events, (answers, answered) = [{"type": "lifespan.startup"}], anyio.create_memory_object_stream[Any](2)
    stop = anyio.Event()

    async def receive() -> Any:  # noqa: ANN401 - a message of ASGI
        if events:
            return events.pop()
        await stop.wait()
        return {"type": "lifespan.shutdown"}

    async def run() -> None:
        await asgi({"type": "lifespan"}, receive, answers.send)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group, answers, answered:
            group.start_soon(run)
            assert await answered.receive() == {"type": "lifespan.startup.complete"}
            stop.set()
            assert await answered.receive() == {"type": "lifespan.shutdown.complete"}

    assert looked_up == ["malloc_trim", "mallopt"]
