"""An MCP client that knows only the server's URL: the SDK discovers the authorization server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from nextcloud_mcp_server.sandbox.person import Person

#: A redirect URI on the user's computer; issuers ignore the port.
CALLBACK = "http://127.0.0.1:54321/callback"
REGISTERED = "http://127.0.0.1/callback"


@dataclass
class AuthorizingClient:
    """A manually registered public client with its tokens: the storage of the SDK's provider."""

    person: Person
    client_id: str = "assistant"
    tokens: OAuthToken | None = None
    #: The URLs to which it sent the user for a token.
    asked: list[str] = field(default_factory=list[str])

    @asynccontextmanager
    async def http(self, url: str) -> AsyncGenerator[httpx2.AsyncClient]:
        """Yield an HTTP client that fetches tokens for an MCP server itself."""
        provider = OAuthClientProvider(
            url,
            OAuthClientMetadata(
                redirect_uris=[AnyUrl(CALLBACK)],
                grant_types=["authorization_code", "refresh_token"],
                token_endpoint_auth_method="none",
            ),
            self,
            redirect_handler=self._go,
            callback_handler=self._come_back,
        )
        async with httpx2.AsyncClient(auth=provider, timeout=60) as http:
            yield http

    @property
    def scopes(self) -> list[set[str]]:
        """The scopes of each of its authorization requests."""
        return [set(parse_qs(urlsplit(url).query)["scope"][0].split()) for url in self.asked]

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull:
        return OAuthClientInformationFull(
            client_id=self.client_id,
            redirect_uris=[AnyUrl(CALLBACK)],
            token_endpoint_auth_method="none",
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise AssertionError(f"Nobody can register here: {client_info}")

    async def _go(self, url: str) -> None:
        self.asked.append(url)

    async def _come_back(self) -> AuthorizationCodeResult:
        back = await self.person.sign_in(self.asked[-1], until=CALLBACK)
        given = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        return AuthorizationCodeResult.model_validate(given)
