from pathlib import Path

import pytest

from nextcloud_mcp_server.server.database_file import has_state
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from tests.auth_fixtures import NEXTCLOUD


def configured(folder: Path, **overrides: object) -> Settings:
    return environment.load(
        **({"nextcloud_host": NEXTCLOUD, "data_dir": folder, "transport": "http"} | overrides)
    )


@pytest.mark.parametrize(
    "database_url", [None, "sqlite+aiosqlite:///{}/state.db", "sqlite:///{}/state.db?timeout=5"]
)
def test_work_of_an_earlier_process_is_looked_for_where_there_is_a_database(
    tmp_path: Path, database_url: str | None
) -> None:
    config = configured(tmp_path, database_url=database_url and database_url.format(tmp_path.as_posix()))
    before = has_state(config)
    (tmp_path / "state.db").touch()

    assert (before, has_state(config)) == (False, True)
