"""MCP Inspector's web interface in Chromium: from our address alone to the list of tools."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process
from playwright.async_api import async_playwright, expect

from tests.e2e.single_user_server import DESKTOP, chromium_options, window_options
from tests.e2e.test_two_people import grant, heading
from tests.integration.builtin_app import BuiltinApp, open_builtin_app
from tests.load.servers import stop
from tests.node import NODE_MODULES, missing, not_installed

SCRIPT = NODE_MODULES / ".bin" / "mcp-inspector"


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
async def inspector(builtin_app: BuiltinApp, node: str, tmp_path: Path) -> AsyncGenerator[str]:
    """Start it for our address; the address of its page."""
    if not SCRIPT.is_file():
        not_installed("MCP Inspector")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    quiet = {"HOME": str(tmp_path), "CLIENT_PORT": port, "MCP_AUTO_OPEN_ENABLED": "false"}
    quiet["MCP_INSPECTOR_SECRET_STORE"] = "memory"
    command = [node, str(SCRIPT), "--web", "--transport", "http", "--server-url", f"{builtin_app.url}/mcp"]
    output = tmp_path / "inspector.log"
    with output.open("wb") as log:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log.fileno(),
            stderr=log.fileno(),
            env={**os.environ, **quiet},
            cwd=tmp_path,
        )
    try:
        with anyio.fail_after(240):
            yield await _address(process, output)
    finally:
        await stop(process)


async def _address(process: Process, output: Path) -> str:
    said = ""
    while process.returncode is None:
        said = await anyio.Path(output).read_text("utf-8")
        if (found := re.search(r"^\s+(http://127\.0\.0\.1:\d+\S*)\s*$", said, re.MULTILINE)) is not None:
            return found[1]
        await anyio.sleep(0.1)
    raise AssertionError(said)


async def test_inspector_registers_signs_its_person_in_and_lists_the_tools(
    builtin_app: BuiltinApp, inspector: str
) -> None:
    if shutil.which("chromium") is None:
        missing("Chromium is not installed (apt-get install chromium)")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium_options())
        page = await (await browser.new_context(**window_options(size=DESKTOP))).new_page()

        await page.goto(inspector)
        # Drawn without a size of its own, so a click of the mouse finds it only at times.
        await page.get_by_role("switch").first.evaluate("each => each.click()")
        await heading(page, re.compile("^MCP Inspector wants to use"))
        await page.locator("[name='allow.notes'][value=read]").check()
        await page.locator("button[value=allow]").click()
        await grant(page, "alice")
        await page.locator("button[value=mine]").click()

        await expect(page).to_have_title(re.compile("Inspector"), timeout=60_000)
        await page.get_by_text("Tools", exact=True).first.click()
        await expect(page.get_by_text("nc_notes_list_notes").first).to_be_visible(timeout=60_000)
        await browser.close()
    assert builtin_app.connected() == ["alice"]
