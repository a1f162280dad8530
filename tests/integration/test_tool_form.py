"""What a server lists on the wire has the form that the makers of models all take, in every mode and era."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server.demo.wire_client import HandshakeClient, StatelessClient
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.integration.builtin_app import READ, open_builtin_app
from tests.integration.oidc_app import open_oidc_app
from tests.integration.personal_app import open_personal_app
from tests.load_cluster import move_in
from tests.schema_form import wrong_tool


@asynccontextmanager
async def personal(folder: Path, **settings: object) -> AsyncGenerator[tuple[str, str]]:
    async with open_personal_app(folder, Sandbox.demo()) as personal_app:
        await personal_app.stop()
        await personal_app.start(**settings)
        yield personal_app.url, personal_app.secret


@asynccontextmanager
async def oidc(folder: Path, **settings: object) -> AsyncGenerator[tuple[str, str]]:
    async with open_oidc_app(folder, token_scopes="ignore", **settings) as oidc_app:
        move_in(oidc_app.sandbox, oidc_app.issuer, "carol")
        yield oidc_app.url, oidc_app.token("carol", scope="openid")


@asynccontextmanager
async def builtin(folder: Path, **settings: object) -> AsyncGenerator[tuple[str, str]]:
    async with (
        open_builtin_app(folder, **settings) as builtin_app,
        httpx2.AsyncClient(timeout=60) as http,
        builtin_app.person("alice") as alice,
    ):
        tokens = await builtin_app.sign_in(alice, http, only=READ)
        yield builtin_app.url, tokens["access_token"]


async def listed(
    url: str, token: str, client: type[HandshakeClient | StatelessClient]
) -> list[dict[str, Any]]:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
        speaking = client(http, f"{url}/mcp", capabilities={})
        await speaking.open()
        tools: list[dict[str, Any]] = (await speaking.request("tools/list", {}))["result"]["tools"]
        return tools


@pytest.mark.parametrize("mode", [personal, oidc, builtin], ids=["personal", "oidc", "builtin"])
@pytest.mark.parametrize("output_schemas", [False, True])
async def test_every_tool_is_listed_in_a_form_that_all_makers_of_models_take(
    mode: Any,  # noqa: ANN401 - one of the three above
    tmp_path: Path,
    *,
    output_schemas: bool,
) -> None:
    async with mode(tmp_path / "data", toolsets="all", output_schemas=output_schemas) as (url, token):
        tools = [await listed(url, token, client) for client in (HandshakeClient, StatelessClient)]

    for names in tools:
        assert len(names) > 30
        assert {one["name"]: found for one in names if (found := wrong_tool(one))} == {}
        assert all(("outputSchema" in one) is output_schemas for one in names)
