"""The SDK's client, told our address alone, registers or names its document, and reads notes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from nextcloud_mcp_server.sandbox.person import Person
from tests.integration.builtin_app import BuiltinApp, open_builtin_app, query_of

CALLBACK = "http://127.0.0.1:54321/callback"
DOCUMENT = "https://app.example.org/oauth/client.json"


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path) as opened:
        yield opened


@dataclass
class Newcomer:
    """A client that no one has registered, and what it keeps: the storage of the SDK's provider."""

    person: Person
    document: str | None = None
    tokens: OAuthToken | None = None
    info: OAuthClientInformationFull | None = None
    asked: list[str] = field(default_factory=list[str])
    provider: OAuthClientProvider | None = None
    #: What the user allows at each authorization; the last one holds for all after it.
    allows: list[list[str]] = field(default_factory=lambda: [["notes:read"]])

    @asynccontextmanager
    async def http(self, url: str) -> AsyncGenerator[httpx2.AsyncClient]:
        """Give the HTTP client that gets itself tokens for an MCP server."""
        provider = self.provider = OAuthClientProvider(
            url,
            OAuthClientMetadata(
                client_name="SDK",
                redirect_uris=[AnyUrl(CALLBACK)],
                grant_types=["authorization_code", "refresh_token"],
                token_endpoint_auth_method="none",
            ),
            self,
            redirect_handler=self._go,
            callback_handler=self._come_back,
            client_metadata_url=self.document,
        )
        async with httpx2.AsyncClient(auth=provider, timeout=60) as http:
            yield http

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info

    async def _go(self, url: str) -> None:
        self.asked.append(url)

    async def _come_back(self) -> AuthorizationCodeResult:
        only = self.allows[min(len(self.asked), len(self.allows)) - 1]
        back = await self.person.sign_in(self.asked[-1], until=CALLBACK, only=only)
        return AuthorizationCodeResult.model_validate(
            {name: values[0] for name, values in query_of(back).items()}
        )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdk_registers_itself_and_reads_notes_after_one_authorization(
    builtin_app: BuiltinApp, mode: str
) -> None:
    async with builtin_app.person("alice") as alice:
        newcomer = Newcomer(alice)
        async with (
            newcomer.http(f"{builtin_app.url}/mcp") as http,
            builtin_app.client_over(http, mode=mode) as client,
        ):
            notes = await client.call_tool("nc_notes_list_notes", {})

    assert "Shopping list" in str(notes.structured_content)
    assert newcomer.info is not None
    assert str(newcomer.info.client_id).startswith("mcp-")
    assert len(newcomer.asked) == 1


async def test_the_sdk_names_its_document_and_registers_nowhere(builtin_app: BuiltinApp) -> None:
    builtin_app.documents[DOCUMENT] = {
        "client_id": DOCUMENT,
        "client_name": "SDK by document",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "token_endpoint_auth_method": "none",
    }
    async with builtin_app.person("bob") as bob:
        newcomer = Newcomer(bob, document=DOCUMENT)
        async with newcomer.http(f"{builtin_app.url}/mcp") as http, builtin_app.client_over(http) as client:
            notes = await client.call_tool("nc_notes_list_notes", {})

    assert "Garage code" in str(notes.structured_content)
    assert query_of(newcomer.asked[0])["client_id"] == [DOCUMENT]
    assert any("app.example.org" in page.text for page in bob.seen)


async def test_more_is_allowed_by_a_second_sign_in_for_it(builtin_app: BuiltinApp) -> None:
    async with builtin_app.person("alice") as alice:
        newcomer = Newcomer(alice, allows=[["notes:read"], ["notes:read", "notes:write"]])
        async with newcomer.http(f"{builtin_app.url}/mcp") as http, builtin_app.client_over(http) as client:
            await client.call_tool("nc_notes_list_notes", {})
            made = await client.call_tool("nc_notes_create_note", {"title": "Plans"})

    assert not made.is_error, made.content
    assert len(newcomer.asked) == 2
    assert "notes:write" in query_of(newcomer.asked[1])["scope"][0].split()
    assert newcomer.tokens is not None
    assert "notes:write" in (newcomer.tokens.scope or "").split()


async def test_the_sdk_refreshes_its_token_without_the_user(builtin_app: BuiltinApp) -> None:
    async with builtin_app.person("alice") as alice:
        newcomer = Newcomer(alice)
        async with newcomer.http(f"{builtin_app.url}/mcp") as http, builtin_app.client_over(http) as client:
            await client.call_tool("nc_notes_list_notes", {})
            first = newcomer.tokens
            builtin_app.clock.ahead += timedelta(hours=2)
            assert newcomer.provider
            # It goes by the clock of the machine.
            newcomer.provider.context.token_expiry_time = 1.0
            notes = await client.call_tool("nc_notes_list_notes", {})

    assert not notes.is_error
    assert first is not None
    assert newcomer.tokens is not None
    assert newcomer.tokens.access_token != first.access_token
    assert len(newcomer.asked) == 1


async def test_no_identity_is_asked_of_nextcloud_per_call(builtin_app: BuiltinApp) -> None:
    async with builtin_app.person("alice") as alice:
        newcomer = Newcomer(alice)
        async with newcomer.http(f"{builtin_app.url}/mcp") as http, builtin_app.client_over(http) as client:
            await client.call_tool("nc_notes_list_notes", {})
            builtin_app.sandbox.requests.clear()
            for _ in range(20):
                await client.call_tool("nc_notes_list_notes", {})

    paths = [record.path for record in builtin_app.sandbox.requests.records]
    assert len(paths) == 20
    assert {path.rpartition("/")[2] for path in paths} == {"notes"}
