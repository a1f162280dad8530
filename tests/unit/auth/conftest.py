from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests import visits_stage


@pytest.fixture
async def people(tmp_path: Path, template: Path) -> AsyncGenerator[visits_stage.Stage]:
    """Many people, each of whom says on a page of ours which account is theirs."""
    async with visits_stage.open_visits(tmp_path, template) as made:
        yield made


@pytest.fixture
async def mapped(tmp_path: Path, template: Path) -> AsyncGenerator[visits_stage.Stage]:
    """Many people, whose accounts the operator's identity provider names."""
    async with visits_stage.open_visits(tmp_path, template, mapping_claim="nextcloud") as made:
        yield made


@pytest.fixture
async def following(tmp_path: Path, template: Path) -> AsyncGenerator[visits_stage.Stage]:
    """Many people, who confirm in login flows; the identity provider names their accounts."""
    async with visits_stage.open_visits(
        tmp_path, template, mapping_claim="preferred_username", follows=True
    ) as made:
        yield made
