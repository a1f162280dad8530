"""The look at Nextcloud after the start."""

import logging
from pathlib import Path

import httpx2
import pytest

from nextcloud_mcp_server.server.services import Overrides, check_server
from nextcloud_mcp_server.settings import environment

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
