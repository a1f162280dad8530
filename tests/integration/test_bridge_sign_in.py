"""The bridge signs in at a server of many people, for a chat client that knows no OAuth."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.person import Person
from tests.integration.bridge_app import BridgeApp, open_bridge
from tests.integration.builtin_app import open_builtin_app
from tests.integration.stdio_app import LIST, shows_notes

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}

pytestmark = pytest.mark.process


async def sign_in(bridge: BridgeApp, person: Person) -> None:
    """Follow the link that the bridge shows, back to the bridge."""
    link = await bridge.link()
    callback = parse_qs(urlsplit(link).query)["redirect_uri"][0]
    back = await person.sign_in(link, until=callback, only=["notes:read"])
    async with httpx2.AsyncClient() as browser:
        answer = await browser.get(back)
    assert answer.status_code == 200


async def test_a_sign_in_lasts_longer_than_the_bridge(tmp_path: Path) -> None:
    async with open_builtin_app(tmp_path / "app") as app, app.person("alice") as alice:
        url = f"{app.url}/mcp"
        async with open_bridge(tmp_path / "data", url, opened=False) as bridge:
            first = await bridge.chat.send("initialize", INITIALIZE)
            await sign_in(bridge, alice)
            hello = await bridge.chat.answer(first)
            found = await bridge.chat.call(LIST)
        async with open_bridge(tmp_path / "data", url) as later:
            again = await later.chat.call(LIST)

    assert hello["result"]["serverInfo"]["name"] == "nextcloud-mcp-server"
    assert shows_notes(found)
    assert shows_notes(again)
    assert later.links == []


async def test_without_a_browser_a_server_that_wants_a_sign_in_is_named(tmp_path: Path) -> None:
    async with open_builtin_app(tmp_path / "app") as app:
        url = f"{app.url}/mcp"
        async with open_bridge(tmp_path / "data", url, show="--no-browser", opened=False) as bridge:
            answer = await bridge.chat.request("initialize", INITIALIZE)

    assert f"nextcloud-mcp-server client auth {url}" in answer["error"]["message"]
