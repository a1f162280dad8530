from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.integration.personal_app import Asked, PersonalApp, open_personal_app
from tests.integration.stdio_app import StdioApp, open_stdio_app


@pytest.fixture
async def personal_app(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[PersonalApp]:
    sandbox = Sandbox.demo(**getattr(request, "param", {}))
    async with open_personal_app(tmp_path / "data", sandbox) as made:
        yield made


@pytest.fixture
async def oidc_app(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[OidcApp]:
    async with open_oidc_app(tmp_path / "data", **getattr(request, "param", {})) as made:
        yield made


@pytest.fixture
async def stdio_app(tmp_path: Path) -> AsyncGenerator[StdioApp]:
    async with open_stdio_app(tmp_path / "data") as made:
        yield made


@pytest.fixture
def asked(personal_app: PersonalApp) -> Asked:
    """An elicitation callback for the SDK's client."""
    return Asked(personal_app)
