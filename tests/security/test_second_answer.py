"""A user goes back and allows less: the first, wider answer must be forgotten."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.records import Principal


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database]:
    keys = KeyRing.parse([SecretStr(new_key())])
    opened = await Database.open(file_url(tmp_path / "mcp.db"), keys=keys, clock=now)
    yield opened
    await opened.aclose()


async def test_the_last_answer_counts_and_the_consent_request_at_nextcloud_stays_the_same(
    database: Database,
) -> None:
    asked, _ = await database.elicitations.open(
        principal=Principal("personal", "http://nextcloud.test"),
        client_id="claude",
        client_name="Claude Code",
        kind="page",
        scopes=frozenset({"notes:read"}),
        ttl=timedelta(minutes=10),
        new_url=lambda elicitation_id: elicitation_id,
    )
    transport = httpx2.ASGITransport(Sandbox.demo().app)
    async with open_pool(ca_bundle=None, user_agent="test", transport=transport) as pool:
        nextcloud = Nextcloud(NextcloudUrl.parse("http://nextcloud.test"), pool)
        provider = LoginFlowProvider(nextcloud, database, clock=now)

        first = await provider.authorize_url(asked, frozenset({"notes:read", "files:write"}))
        second = await provider.authorize_url(asked, frozenset({"notes:read"}))

    flow = await database.login_flows.find(asked.id)
    assert flow
    assert flow.scopes == {"notes:read"}
    assert first == second
