import os
from collections.abc import AsyncGenerator

import httpx2
import pytest

from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.profile import NAMES, PROFILES, USUAL, ProfileName
from tests.contract.server import Server, account, open_real, open_sandbox
from tests.contract.steps import clean

#: The tests of these modules run once for each version.
_IN_EACH_VERSION = ("test_our_apps", "test_our_calendars", "test_our_optional_apps")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of apps with every version, except those without the app in `pytest.mark.app`."""
    if metafunc.definition.path.stem in _IN_EACH_VERSION and "version" in metafunc.fixturenames:
        app = metafunc.definition.get_closest_marker("app")
        without = [name for name in NAMES if app and app.args[0] in PROFILES[name].absent_apps]
        metafunc.parametrize("version", [name for name in NAMES if name not in without])


@pytest.fixture
def version() -> ProfileName:
    """The version of the sandbox; a test or module that is parametrised with others uses its own."""
    return USUAL


@pytest.fixture
async def server(version: ProfileName, request: pytest.FixtureRequest) -> AsyncGenerator[Server]:
    """The sandbox, or the Nextcloud of NEXTCLOUD_TEST_URL and NEXTCLOUD_TEST_USERS."""
    base, users = os.environ.get("NEXTCLOUD_TEST_URL"), os.environ.get("NEXTCLOUD_TEST_USERS")
    if base and users:
        async with open_real(base.rstrip("/"), users) as real:
            callspec = getattr(request.node, "callspec", None)
            # The recordings of 32 are compared with every version, those of a newer version only with itself.
            if callspec and callspec.params.get("version") not in (None, "32", real.version):
                pytest.skip(f"this is about Nextcloud {version}, and this one is nearest to {real.version}")
            yield real
    else:
        async with open_sandbox(version) as sandbox:
            yield sandbox


@pytest.fixture
async def pool(server: Server) -> AsyncGenerator[httpx2.AsyncClient]:
    """The connection pool to the server."""
    transport = None if server.sandbox is None else httpx2.ASGITransport(app=server.sandbox.app)
    opened = open_pool(
        ca_bundle=None, user_agent="Nextcloud MCP server (contract suite)", transport=transport
    )
    async with opened as client:
        yield client


@pytest.fixture
async def nextcloud(server: Server, pool: httpx2.AsyncClient) -> Nextcloud:
    """The Nextcloud, without data of earlier tests."""
    await clean(server)
    return Nextcloud(NextcloudUrl.parse(server.base), pool)


@pytest.fixture
async def alice(nextcloud: Nextcloud, server: Server) -> Account:
    """Alice's account."""
    return account(nextcloud, server, "alice")
