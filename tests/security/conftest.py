from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests import consent_fixtures
from tests.integration.personal_app import Asked, PersonalApp, open_personal_app
from tests.page_fixtures import (
    all_authorization_pages,
    authorization_pages,
    browser,
    consent,
    consent_service,
    multi_user_pages,
    single_user_pages,
)

#: pytest finds the fixtures by these names.
__all__ = [
    "all_authorization_pages",
    "authorization_pages",
    "browser",
    "consent",
    "consent_service",
    "multi_user_pages",
    "single_user_pages",
]


@pytest.fixture
async def personal_app(tmp_path: Path) -> AsyncGenerator[PersonalApp]:
    async with open_personal_app(tmp_path / "data", Sandbox.demo()) as made:
        yield made


@pytest.fixture
def asked(personal_app: PersonalApp) -> Asked:
    """An elicitation callback for the SDK's client."""
    return Asked(personal_app)


@pytest.fixture
async def people(tmp_path: Path, template: Path) -> AsyncGenerator[consent_fixtures.ConsentSetup]:
    """Many users, who confirm on a page that an account is theirs."""
    async with consent_fixtures.open_consent_service(tmp_path, template) as made:
        yield made


@pytest.fixture
async def mapped(tmp_path: Path, template: Path) -> AsyncGenerator[consent_fixtures.ConsentSetup]:
    """Many users, whose accounts are in a claim of the identity provider."""
    async with consent_fixtures.open_consent_service(
        tmp_path, template, mapping_claim="preferred_username"
    ) as made:
        yield made


@pytest.fixture
async def following(tmp_path: Path, template: Path) -> AsyncGenerator[consent_fixtures.ConsentSetup]:
    """Many users, who confirm in login flows; the identity provider names their accounts."""
    async with consent_fixtures.open_consent_service(
        tmp_path, template, mapping_claim="preferred_username", follows=True
    ) as made:
        yield made
