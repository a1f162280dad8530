from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests import visits_stage
from tests.integration.world import Asked, World, open_world
from tests.memory_consent import ORIGIN, MemoryConsent, application


@pytest.fixture
def consent() -> MemoryConsent:
    return MemoryConsent()


@pytest.fixture
async def browser(consent: MemoryConsent) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser: keeps cookies, asks for pages, says where its forms come from."""
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(application(consent)),
        base_url=ORIGIN,
        headers={"Accept": "text/html", "Accept-Language": "en", "Sec-Fetch-Site": "same-origin"},
    ) as client:
        yield client


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with open_world(tmp_path / "data", Sandbox.demo()) as made:
        yield made


@pytest.fixture
def asked(world: World) -> Asked:
    """An elicitation callback for the SDK's client."""
    return Asked(world)


@pytest.fixture
async def people(tmp_path: Path, template: Path) -> AsyncGenerator[visits_stage.Stage]:
    """Many people, each of whom says on a page of ours which account is theirs."""
    async with visits_stage.open_visits(tmp_path, template) as made:
        yield made


@pytest.fixture
async def mapped(tmp_path: Path, template: Path) -> AsyncGenerator[visits_stage.Stage]:
    """Many people, whose accounts the operator's identity provider names."""
    async with visits_stage.open_visits(tmp_path, template, mapping_claim="preferred_username") as made:
        yield made


@pytest.fixture
async def following(tmp_path: Path, template: Path) -> AsyncGenerator[visits_stage.Stage]:
    """Many people, who confirm in login flows; the identity provider names their accounts."""
    async with visits_stage.open_visits(
        tmp_path, template, mapping_claim="preferred_username", follows=True
    ) as made:
        yield made
