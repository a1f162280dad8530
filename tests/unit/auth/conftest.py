from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests import consent_fixtures


@pytest.fixture
async def people(tmp_path: Path, template: Path) -> AsyncGenerator[consent_fixtures.ConsentSetup]:
    """Many users, who confirm on a page that an account is theirs."""
    async with consent_fixtures.open_consent_service(tmp_path, template) as made:
        yield made


@pytest.fixture
async def mapped(tmp_path: Path, template: Path) -> AsyncGenerator[consent_fixtures.ConsentSetup]:
    """Many users, whose accounts are in a claim of the identity provider."""
    async with consent_fixtures.open_consent_service(tmp_path, template, mapping_claim="nextcloud") as made:
        yield made


@pytest.fixture
async def following(tmp_path: Path, template: Path) -> AsyncGenerator[consent_fixtures.ConsentSetup]:
    """Many users, who confirm in login flows; the identity provider names their accounts."""
    async with consent_fixtures.open_consent_service(
        tmp_path, template, mapping_claim="preferred_username", follows=True
    ) as made:
        yield made
