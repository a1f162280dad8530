import logging
from pathlib import Path
from threading import Thread

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server.modes.personal import bearer_secret
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from tests.auth_fixtures import NEXTCLOUD

SECRET = "a-secret-of-the-tests-0123456789"


def configured(folder: Path, **overrides: object) -> Settings:
    return environment.load(
        **({"nextcloud_host": NEXTCLOUD, "data_dir": folder, "transport": "http"} | overrides)
    )


def test_the_secret_for_clients_is_made_once_for_this_person_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = configured(tmp_path / "data")
    with caplog.at_level(logging.WARNING):
        first, second = bearer_secret(config), bearer_secret(config)

    assert first is not None
    assert first == second
    assert len(first.get_secret_value()) >= 32
    assert config.secret_file.stat().st_mode & 0o777 == 0o600
    assert caplog.text.count(str(config.secret_file)) == 1
    assert first.get_secret_value() not in caplog.text
    assert [file.name for file in config.data_path.iterdir()] == ["http.secret"]


def test_a_secret_that_is_given_is_used_and_no_file_is_made(tmp_path: Path) -> None:
    config = configured(tmp_path, nextcloud_mcp_secret=SecretStr(SECRET))

    assert bearer_secret(config) == SecretStr(SECRET)
    assert list(tmp_path.iterdir()) == []


def test_without_local_auth_there_is_no_secret(tmp_path: Path) -> None:
    assert bearer_secret(configured(tmp_path, no_local_auth=True)) is None


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n"])
def test_an_empty_or_short_secret_file_lets_no_client_in(tmp_path: Path, content: bytes) -> None:
    config = configured(tmp_path)
    config.secret_file.write_bytes(content)

    with pytest.raises(ConfigurationError, match=r"too short to be safe|is empty"):
        bearer_secret(config)


def test_servers_that_start_together_share_one_secret(tmp_path: Path) -> None:
    config = configured(tmp_path)
    secrets: set[str] = set()

    def read() -> None:
        secret = bearer_secret(config)
        assert secret is not None
        secrets.add(secret.get_secret_value())

    threads = [Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(secrets) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["http.secret"]
