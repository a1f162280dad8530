"""Signing in with Nextcloud itself, in every version of it."""

from pathlib import Path

import httpx2
import pytest

from nextcloud_mcp_server.demo.wire_client import HandshakeClient
from nextcloud_mcp_server.sandbox.profile import NAMES, ProfileName
from tests.integration.house import open_house


@pytest.mark.parametrize("version", NAMES)
async def test_a_person_signs_in_and_reads_their_notes(version: ProfileName, tmp_path: Path) -> None:
    async with (
        open_house(tmp_path, sandbox_version=version) as house,
        house.person("alice") as alice,
        httpx2.AsyncClient(timeout=30) as http,
    ):
        tokens = await house.sign_in(alice, http, only=["notes:read"])
        http.headers["Authorization"] = f"Bearer {tokens['access_token']}"
        client = HandshakeClient(http, f"{house.url}/mcp", capabilities={})
        await client.open()
        answer = await client.request("tools/call", {"name": "nc_notes_list_notes", "arguments": {}})

    assert "Shopping list" in str(answer["result"])
    assert house.connected() == ["alice"]
