import os
from collections.abc import AsyncGenerator

import httpx2
import pytest

from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from tests.contract.server import Server, account, open_real, open_sandbox
from tests.contract.steps import clean


@pytest.fixture
async def server() -> AsyncGenerator[Server]:
    """The sandbox, or the Nextcloud of NEXTCLOUD_TEST_URL and NEXTCLOUD_TEST_USERS."""
    base, users = os.environ.get("NEXTCLOUD_TEST_URL"), os.environ.get("NEXTCLOUD_TEST_USERS")
    if base and users:
        async with open_real(base.rstrip("/"), users) as real:
            yield real
    else:
        async with open_sandbox() as sandbox:
            yield sandbox


@pytest.fixture
async def pool(server: Server) -> AsyncGenerator[httpx2.AsyncClient]:
    """Our own connections to it."""
    transport = None if server.sandbox is None else httpx2.ASGITransport(app=server.sandbox.app)
    opened = open_pool(
        ca_bundle=None, user_agent="Nextcloud MCP server (contract suite)", transport=transport
    )
    async with opened as client:
        yield client


@pytest.fixture
async def nextcloud(server: Server, pool: httpx2.AsyncClient) -> Nextcloud:
    """The Nextcloud, with nothing of earlier tests on it."""
    await clean(server)
    return Nextcloud(NextcloudUrl.parse(server.base), pool)


@pytest.fixture
async def alice(nextcloud: Nextcloud, server: Server) -> Account:
    """Alice's account."""
    return account(nextcloud, server, "alice")
