import logging
import socket
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import httpx2
import pytest

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server import app
from nextcloud_mcp_server.server.app import check_server
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from tests.auth_fixtures import NEXTCLOUD


def configured(folder: Path, **overrides: object) -> Settings:
    return environment.load(
        **({"nextcloud_host": NEXTCLOUD, "data_dir": folder, "transport": "http"} | overrides)
    )


async def test_the_sandbox_is_started_and_named_where_it_is_asked_for(tmp_path: Path) -> None:
    plain = configured(tmp_path)
    asked = environment.load(data_dir=tmp_path, sandbox=True)

    async with (
        app.with_nextcloud(plain) as same,
        app.with_nextcloud(asked) as own,
        httpx2.AsyncClient() as client,
    ):
        status = await client.get(f"{own.nextcloud_host}/status.php")

    assert same is plain
    assert status.json()["productname"]


async def test_a_port_for_metrics_that_is_taken_is_refused_before_the_server_makes_a_file(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"METRICS_PORT={port} cannot be served"):
            await app.run_http(configured(tmp_path, metrics_port=port), "127.0.0.1", 0, Mock())

    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a folder of the test


STATUS = {
    "installed": True,
    "maintenance": False,
    "needsDbUpgrade": False,
    "version": "32.0.1.2",
    "versionstring": "32.0.1",
    "productname": "Nextcloud",
}


async def looked(answer: httpx2.Response, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    config = environment.load(nextcloud_host="https://cloud.example.org", data_dir=tmp_path)
    with caplog.at_level(logging.INFO, logger="nextcloud_mcp_server"):
        await check_server(
            config, Overrides(transport=httpx2.MockTransport(lambda _: answer)), after_seconds=0
        )
    return caplog.messages


async def test_a_usable_nextcloud_is_not_worth_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await looked(httpx2.Response(200, json=STATUS), tmp_path, caplog) == []


async def test_a_nextcloud_in_maintenance_mode_is_worth_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answer = httpx2.Response(200, json=STATUS | {"maintenance": True})

    assert await looked(answer, tmp_path, caplog) == [
        "This Nextcloud is in maintenance mode; calls will fail until that ends."
    ]


async def test_what_is_no_nextcloud_is_named_with_the_command_that_checks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = await looked(httpx2.Response(200, text="<html>"), tmp_path, caplog)

    assert "it is not a Nextcloud" in line
    assert line.endswith("nextcloud-mcp-server doctor --nextcloud https://cloud.example.org")


START = """
import sys
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server import app
from nextcloud_mcp_server.server.composition import build_server
from nextcloud_mcp_server.server.modes.personal import Personal
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings.environment import load

settings = load(nextcloud_host="http://nextcloud.test", toolsets="notes")
build_server(Personal(settings))
print(*sys.modules)
"""
#: What the first call that needs it imports.
LATE = {"sqlalchemy", "aiosqlite", "alembic", "jinja2", "jwt", "lxml", "icalendar", "authlib"}
OTHER_MODES = {"oidc", "builtin", "multi_user"}
OTHER_APPS = {"calendar", "caldav", "contacts", "deck", "tables", "talk", "forms", "news", "mail", "cookbook"}


@pytest.mark.process
def test_a_start_imports_no_database_no_other_mode_and_no_app_whose_toolset_is_off() -> None:
    run = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    imported = run.stdout.split()

    ours = [name.split(".")[1:] for name in imported if name.startswith("nextcloud_mcp_server.")]
    assert LATE & set(imported) == set()
    assert [path for path in ours if path[:2] == ["server", "modes"] and OTHER_MODES & set(path)] == []
    # The declaration of each app is read, none of its code.
    code = [path for path in ours if path[0] != "apps" or (len(path) > 2 and path[2] != "app")]
    assert [path for path in code if OTHER_APPS & set(path)] == []
    assert ["apps", "notes", "tools"] in code


@pytest.mark.parametrize(
    ("setting", "reason", "shown"),
    [
        ("auto", None, True),
        ("auto", "this server was started over SSH", False),
        ("loopback", "this server was started over SSH", True),
        ("nextcloud", None, False),
    ],
)
def test_the_consent_page_is_shown_where_a_browser_reaches_it_or_the_setting_says_so(
    *,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    setting: str,
    reason: str | None,
    shown: bool,
) -> None:
    caplog.set_level("INFO", "nextcloud_mcp_server")
    monkeypatch.setattr(app, "why_unreachable", Mock(return_value=reason))

    settings = configured(tmp_path, consent_page=setting)
    pages = app.loopback_pages_of(settings)
    app.say_why_no_page(settings)

    assert (pages is not None) == shown
    assert ("This server was started over SSH" in caplog.text) == (setting == "auto" and reason is not None)
