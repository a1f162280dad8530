"""Signing in with Nextcloud itself, in every version of it."""

from pathlib import Path

import httpx2
import pytest

from nextcloud_mcp_server.demo.wire_client import HandshakeClient
from nextcloud_mcp_server.sandbox.profile import NAMES, ProfileName
from tests.integration.builtin_app import open_builtin_app


@pytest.mark.parametrize("version", NAMES)
async def test_a_person_signs_in_and_reads_their_notes(version: ProfileName, tmp_path: Path) -> None:
    async with (
        open_builtin_app(tmp_path, sandbox_version=version) as builtin_app,
        builtin_app.person("alice") as alice,
        httpx2.AsyncClient(timeout=60) as http,
    ):
        tokens = await builtin_app.sign_in(alice, http, only=["notes:read"])
        http.headers["Authorization"] = f"Bearer {tokens['access_token']}"
        client = HandshakeClient(http, f"{builtin_app.url}/mcp", capabilities={})
        await client.open()
        answer = await client.request("tools/call", {"name": "nc_notes_list_notes", "arguments": {}})

    assert "Shopping list" in str(answer["result"])
    assert builtin_app.connected() == ["alice"]
