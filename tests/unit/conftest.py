from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.auth_stage import Process, Stage, make_template, open_stage
from tests.oauth_stage import Office, Replica, office_of


@pytest.fixture(scope="session")
async def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return await make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
async def stage(tmp_path: Path, template: Path) -> AsyncGenerator[Stage]:
    async with open_stage(tmp_path, template) as made:
        yield made


@pytest.fixture
async def process(stage: Stage) -> Process:
    return await stage.process()


@pytest.fixture
def office(stage: Stage) -> Office:
    return office_of(stage)


@pytest.fixture
async def replica(office: Office) -> Replica:
    return await office.replica()
