"""The table of third-party chat clients: registration, redirect URIs, and later behaviour.

One row is one client in one of its configurations. To add one, copy a row: name the source for its behaviour, give
the document or the body of the registration as observed, and what must and must not match. The tests next to this
file run every row; a field that a row leaves out has the most common value.

None of the hosted clients can be run here: the rows follow what their makers document, what their source code says,
and what operators recorded of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

#: RFC 8414 §3.1 and OpenID Connect Discovery, in the order in which clients try them for an issuer with a path;
#: `{path}` is that path. For an issuer without one, clients try only the first and second.
USUAL_DISCOVERY = (
    "/.well-known/oauth-authorization-server{path}",
    "/.well-known/openid-configuration{path}",
    "{path}/.well-known/openid-configuration",
)

#: The scopes that a client requests: those of the 401 challenge or the protected resource's metadata, all that the
#: authorization server lists, or its own.
CHALLENGED, ALL = "challenged", "all"


class Refresh(StrEnum):
    """How a client uses refresh tokens."""

    ROTATES = "each one once"
    DOUBLE = "the same one twice at once"
    SHARED = "several processes present the same one, minutes apart"
    STALE = "an older generation comes back after a later one was used"


class ScopeAtRefresh(StrEnum):
    """Which scopes a client requests in a token refresh."""

    NONE = "none"
    GRANTED = "those that the last answer named"
    ASKED = "those that it asked for at first"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One client.

    Either `document` with its URL as the client id, or `registration` with the body that it posts. `kept` are the
    redirect URIs that must be kept of it (None: all). `arrives` are redirect URIs in authorization requests that must
    match; `strays` are similar ones that must not. `resource_at_refresh` and `scope_at_refresh` say what it repeats
    in a token refresh. `plain_hosts` are those that the operator has to allow for it. `origin` is set for a client in
    a browser, which needs CORS; `registers` and `revokes` count how often it does so for one connection.
    """

    name: str
    sources: tuple[str, ...]
    document: Mapping[str, Any] | None = None
    registration: Mapping[str, Any] | None = None
    shown_as: str
    auth_method: str = "none"
    native: bool
    kept: tuple[str, ...] | None = None
    arrives: tuple[str, ...]
    strays: tuple[str, ...] = ()
    registers: int = 1
    discovery: tuple[str, ...] = USUAL_DISCOVERY
    follows_resource_metadata: bool = True
    reads_openid_strictly: bool = False
    scope: str = CHALLENGED
    sends_resource: bool = True
    resource_at_refresh: bool = True
    scope_at_refresh: ScopeAtRefresh = ScopeAtRefresh.NONE
    checks_iss: bool = False
    refresh: Refresh = Refresh.ROTATES
    revokes: int = 0
    plain_hosts: frozenset[str] = frozenset()
    origin: str | None = None
    user_agent: str = ""
    elicitation: Mapping[str, Any] | None = None

    @property
    def described(self) -> Mapping[str, Any]:
        """The client metadata."""
        return self.document or self.registration or {}


_CODE: dict[str, Any] = {
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
}
_PUBLIC: dict[str, Any] = {**_CODE, "token_endpoint_auth_method": "none"}

_CLAUDE_CALLBACK = "https://claude.ai/api/mcp/auth_callback"
_CLAUDE_STRAYS = (
    "https://claude.ai/api/mcp/auth_callback/",
    "https://claude.ai/api/mcp/auth_callback?next=https://evil.test/",
    "https://claude.ai.evil.test/api/mcp/auth_callback",
    "http://claude.ai/api/mcp/auth_callback",
)
_CLAUDE_TROUBLES = "https://github.com/anthropics/claude-ai-mcp/issues"
_VSCODE_STRAYS = (
    "http://localhost:33418/",
    "http://127.0.0.1:33418/callback",
    "http://127.0.0.1.evil.test:33418/",
    "https://vscode.dev/redirect/",
    "https://vscode.dev/redirect?url=https://evil.test/",
)
_CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"
_CODEX_CALLBACK_ID = "h2kV9wQbT0xM"

CLAUDE = (
    Row(
        name="Claude by its document",
        sources=(
            "https://claude.com/docs/connectors/building/authentication",
            "https://github.com/brendanlong/lion-reader/pull/1519",
        ),
        document={
            "client_id": "https://claude.ai/oauth/mcp-oauth-client-metadata",
            "client_name": "Claude",
            "client_uri": "https://claude.ai",
            "redirect_uris": [_CLAUDE_CALLBACK, "https://claude.com/api/mcp/auth_callback"],
            **_PUBLIC,
        },
        shown_as="Claude",
        native=False,
        arrives=(_CLAUDE_CALLBACK, "https://claude.com/api/mcp/auth_callback"),
        strays=_CLAUDE_STRAYS,
        refresh=Refresh.DOUBLE,
    ),
    Row(
        name="Claude by registration, with a secret",
        sources=(f"{_CLAUDE_TROUBLES}/1043", f"{_CLAUDE_TROUBLES}/966"),
        registration={
            "client_name": "Claude",
            "redirect_uris": [_CLAUDE_CALLBACK],
            "token_endpoint_auth_method": "client_secret_post",
            "scope": "notes:read notes:write",
            **_CODE,
        },
        shown_as="Claude",
        auth_method="client_secret_post",
        native=False,
        arrives=(_CLAUDE_CALLBACK,),
        strays=_CLAUDE_STRAYS,
        registers=2,
        refresh=Refresh.DOUBLE,
        user_agent="python-httpx/0.28.1",
    ),
    Row(
        name="Claude by registration, public",
        sources=(f"{_CLAUDE_TROUBLES}/966",),
        registration={"client_name": "Claude", "redirect_uris": [_CLAUDE_CALLBACK], **_PUBLIC},
        shown_as="Claude",
        native=False,
        arrives=(_CLAUDE_CALLBACK,),
        strays=_CLAUDE_STRAYS,
        registers=2,
        refresh=Refresh.DOUBLE,
    ),
    Row(
        name="Claude Code by its document",
        sources=(
            "https://github.com/anthropics/claude-code/issues/42301",
            "https://github.com/anthropics/claude-code/issues/64705",
        ),
        document={
            "client_id": "https://claude.ai/oauth/claude-code-client-metadata",
            "client_name": "Claude Code",
            "client_uri": "https://claude.ai",
            "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
            **_PUBLIC,
        },
        shown_as="Claude Code",
        native=True,
        arrives=(
            "http://localhost:8080/callback",
            "http://127.0.0.1:52163/callback",
            "http://localhost/callback",
        ),
        strays=(
            "http://[::1]:52163/callback",
            "http://localhost:52163/",
            "http://localhost:52163/callback/",
            "http://localhost.evil.test/callback",
            "https://localhost:52163/callback",
        ),
        refresh=Refresh.SHARED,
        revokes=2,
        elicitation={},
    ),
    Row(
        name="Claude Code by registration",
        sources=(
            "https://github.com/elmohq/elmo/pull/684",
            "https://github.com/anthropics/claude-code/issues/10572",
        ),
        registration={
            "client_name": "Claude Code (nextcloud)",
            "redirect_uris": ["http://localhost:3118/callback"],
            "application_type": "native",
            **_PUBLIC,
        },
        shown_as="Claude Code (nextcloud)",
        native=True,
        arrives=("http://localhost:3118/callback", "http://localhost:50001/callback"),
        strays=("http://127.0.0.1:3118/callback",),
        sends_resource=False,
        refresh=Refresh.SHARED,
        revokes=2,
        elicitation={},
    ),
)

CHATGPT = (
    Row(
        name="ChatGPT by its document",
        sources=(
            "https://github.com/django-oauth/django-oauth-toolkit/issues/1857",
            "https://developers.openai.com/plugins/build/auth",
        ),
        document={
            "client_id": "https://chatgpt.com/oauth/client.json",
            "client_uri": "https://chatgpt.com/",
            "redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect"],
            "token_endpoint_auth_method": "private_key_jwt",
            "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
            "client_name": "ChatGPT",
            "logo_uri": "https://persistent.oaistatic.com/sonic/misc/openai-logo.png",
            "token_endpoint_auth_signing_alg": "RS256",
            "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
            **_CODE,
        },
        shown_as="ChatGPT",
        native=False,
        arrives=("https://chatgpt.com/connector_platform_oauth_redirect",),
        strays=("https://chatgpt.com/connector/oauth/other",),
        discovery=("/.well-known/openid-configuration{path}", *USUAL_DISCOVERY),
        reads_openid_strictly=True,
        scope=ALL,
        checks_iss=True,
    ),
    Row(
        name="ChatGPT by the document of one connector",
        sources=("https://github.com/gamedevpl/www.gamedev.pl/pull/641",),
        document={
            "client_id": "https://chatgpt.com/oauth/Ab3dE5/client.json",
            "redirect_uris": ["https://chatgpt.com/connector/oauth/Ab3dE5"],
            "token_endpoint_auth_method": "private_key_jwt",
            "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
            "client_name": "ChatGPT",
            "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
            **_CODE,
        },
        shown_as="ChatGPT",
        native=False,
        arrives=("https://chatgpt.com/connector/oauth/Ab3dE5",),
        strays=(
            "https://chatgpt.com/connector/oauth/Zz9yX8",
            "https://chatgpt.com/connector/oauth/",
            "https://chatgpt.com/connector/oauth/Ab3dE5/../Zz9yX8",
        ),
        discovery=("/.well-known/openid-configuration{path}", *USUAL_DISCOVERY),
        reads_openid_strictly=True,
        scope=ALL,
        checks_iss=True,
    ),
    Row(
        name="ChatGPT by registration",
        sources=("https://github.com/makeplane/plane-mcp-server/pull/165",),
        registration={
            "client_name": "ChatGPT",
            "redirect_uris": ["https://chatgpt.com/connector/oauth/Ab3dE5"],
            **_PUBLIC,
        },
        shown_as="ChatGPT",
        native=False,
        arrives=("https://chatgpt.com/connector/oauth/Ab3dE5",),
        strays=("https://chatgpt.com/connector/oauth/Zz9yX8",),
        discovery=("/.well-known/openid-configuration{path}", *USUAL_DISCOVERY),
        reads_openid_strictly=True,
        scope=ALL,
    ),
    Row(
        name="Codex by its document",
        sources=(
            "https://github.com/anomalyco/opencode/pull/47737",
            "https://github.com/openai/codex/issues/30460",
            "https://github.com/openai/codex/issues/33403",
            "https://github.com/modelcontextprotocol/rust-sdk/pull/731",
        ),
        document={
            "client_id": "https://chatgpt.com/oauth/codex/client.json",
            "client_name": "Codex",
            "application_type": "native",
            "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
            **_PUBLIC,
        },
        shown_as="Codex",
        native=True,
        arrives=("http://127.0.0.1:37819/callback", "http://localhost:37819/callback"),
        strays=(f"http://127.0.0.1:37819/callback/{_CODEX_CALLBACK_ID}",),
        scope="openid profile email offline_access",
        resource_at_refresh=False,
        scope_at_refresh=ScopeAtRefresh.GRANTED,
        checks_iss=True,
        refresh=Refresh.STALE,
    ),
    Row(
        name="Codex by registration",
        sources=(
            "https://github.com/openai/codex/issues/30460",
            "https://github.com/elmohq/elmo/pull/684",
            "https://github.com/openai/codex/issues/33403",
            "https://github.com/modelcontextprotocol/rust-sdk/pull/731",
        ),
        registration={
            "client_name": "Codex",
            "application_type": "native",
            "redirect_uris": [f"http://127.0.0.1:37819/callback/{_CODEX_CALLBACK_ID}"],
            **_PUBLIC,
        },
        shown_as="Codex",
        native=True,
        arrives=(
            f"http://127.0.0.1:37819/callback/{_CODEX_CALLBACK_ID}",
            f"http://127.0.0.1:40021/callback/{_CODEX_CALLBACK_ID}",
        ),
        strays=(
            f"http://localhost:37819/callback/{_CODEX_CALLBACK_ID}",
            "http://127.0.0.1:37819/callback",
        ),
        scope="openid profile email offline_access",
        resource_at_refresh=False,
        scope_at_refresh=ScopeAtRefresh.GRANTED,
        checks_iss=True,
        refresh=Refresh.STALE,
    ),
)

EDITORS = (
    Row(
        name="VS Code by its document",
        sources=(
            "https://vscode.dev/oauth/client-metadata.json",
            "https://github.com/microsoft/vscode/blob/main/src/vs/base/common/oauth.ts",
        ),
        document={
            "client_name": "Visual Studio Code",
            "logo_uri": "https://code.visualstudio.com/assets/branding/code-stable.png",
            "grant_types": [
                "authorization_code",
                "refresh_token",
                "urn:ietf:params:oauth:grant-type:device_code",
            ],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            "client_id": "https://vscode.dev/oauth/client-metadata.json",
            "client_uri": "https://vscode.dev/product",
            "redirect_uris": ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"],
        },
        shown_as="Visual Studio Code",
        native=True,
        arrives=(
            "http://127.0.0.1:33418/",
            "http://127.0.0.1:33418",
            "http://127.0.0.1:59656/",
            "https://vscode.dev/redirect",
        ),
        strays=_VSCODE_STRAYS,
        elicitation={"form": {}, "url": {}},
    ),
    Row(
        name="VS Code by registration",
        sources=("https://github.com/microsoft/vscode/issues/278512",),
        registration={
            "client_name": "Visual Studio Code",
            "client_uri": "https://code.visualstudio.com",
            "redirect_uris": [
                "https://insiders.vscode.dev/redirect",
                "https://vscode.dev/redirect",
                "http://127.0.0.1/",
                "http://127.0.0.1:33418/",
            ],
            "application_type": "native",
            **_PUBLIC,
            "grant_types": [
                "authorization_code",
                "refresh_token",
                "urn:ietf:params:oauth:grant-type:device_code",
            ],
        },
        shown_as="Visual Studio Code",
        native=True,
        arrives=(
            "http://127.0.0.1:33418/",
            "http://127.0.0.1:33418",
            "http://127.0.0.1:59656/",
            "https://vscode.dev/redirect",
            "https://insiders.vscode.dev/redirect",
        ),
        strays=_VSCODE_STRAYS,
        elicitation={"form": {}, "url": {}},
    ),
    Row(
        name="Cursor",
        sources=(
            "https://cursor.com/docs/context/mcp",
            "https://forum.cursor.com/t/oauth-redirect-uri-changed-from-cursor-to-http-localhost-for-streamable-http-mcp/165019",
        ),
        registration={
            "client_name": "Cursor",
            "redirect_uris": [
                _CURSOR,
                "https://www.cursor.com/agents/mcp/oauth/callback",
                "http://localhost:8787/callback",
            ],
            **_PUBLIC,
        },
        shown_as="Cursor",
        native=True,
        arrives=(
            _CURSOR,
            "https://www.cursor.com/agents/mcp/oauth/callback",
            "http://localhost:8787/callback",
        ),
        strays=(
            "cursor://evil.extension/oauth/callback",
            f"{_CURSOR}?next=1",
            "https://cursor.com/agents/mcp/oauth/callback",
        ),
        reads_openid_strictly=True,
        elicitation={"form": {}},
    ),
    Row(
        name="Zed by its document",
        sources=("https://zed.dev/oauth/client-metadata.json",),
        document={
            "client_id": "https://zed.dev/oauth/client-metadata.json",
            "client_name": "Zed",
            "redirect_uris": ["http://127.0.0.1/callback"],
            **_PUBLIC,
        },
        shown_as="Zed",
        native=True,
        arrives=("http://127.0.0.1:41027/callback",),
        strays=("http://localhost:41027/callback",),
    ),
)

TERMINALS = (
    Row(
        name="Gemini CLI",
        sources=("https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md",),
        registration={
            "client_name": "Gemini CLI MCP Client",
            "redirect_uris": ["http://localhost:7777/oauth/callback"],
            "scope": "",
            **_PUBLIC,
        },
        shown_as="Gemini CLI MCP Client",
        native=True,
        arrives=("http://localhost:7777/oauth/callback", "http://localhost:65290/oauth/callback"),
        strays=("http://localhost:7777/oauth/callback/", "http://127.0.0.1:7777/oauth/callback"),
        follows_resource_metadata=False,
    ),
    Row(
        name="mcp-remote",
        sources=(
            "https://github.com/geelen/mcp-remote/blob/main/src/lib/node-oauth-client-provider.ts",
            "https://github.com/punkpeye/mcp-remote/pull/357",
        ),
        registration={
            "client_name": "MCP CLI Client",
            "client_uri": "https://github.com/modelcontextprotocol/mcp-cli",
            "redirect_uris": ["http://localhost:22227/oauth/callback"],
            "software_id": "2e6dc280-f3c3-4e01-99a7-8181dbd1d23d",
            "software_version": "0.1.38",
            "scope": "notes:read notes:write files:read",
            **_PUBLIC,
        },
        shown_as="MCP CLI Client",
        native=True,
        arrives=("http://localhost:22227/oauth/callback",),
        strays=("http://localhost:22227/", "http://127.0.0.1:22227/oauth/callback"),
        scope_at_refresh=ScopeAtRefresh.ASKED,
    ),
    Row(
        name="opencode by its document",
        sources=("https://github.com/anomalyco/opencode/pull/47737",),
        document={
            "client_id": "https://opencode.ai/oauth/opencode/client.json",
            "client_name": "opencode",
            "client_uri": "https://opencode.ai",
            "logo_uri": "https://opencode.ai/web-app-manifest-512x512.png",
            "application_type": "native",
            "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
            "token_endpoint_auth_methods_supported": ["none"],
            **_PUBLIC,
        },
        shown_as="opencode",
        native=True,
        arrives=("http://127.0.0.1:19876/callback",),
        strays=("http://127.0.0.1:19876/mcp/oauth/callback",),
    ),
    Row(
        name="opencode by registration",
        sources=("https://github.com/elmohq/elmo/pull/684",),
        registration={
            "client_name": "OpenCode",
            "redirect_uris": ["http://127.0.0.1:19876/mcp/oauth/callback"],
            **_PUBLIC,
        },
        shown_as="OpenCode",
        native=True,
        arrives=("http://127.0.0.1:19876/mcp/oauth/callback",),
        strays=("http://127.0.0.1:19876/callback",),
    ),
)

BROWSERS = (
    Row(
        name="Inspector",
        sources=(
            "https://github.com/modelcontextprotocol/inspector",
            "https://github.com/modelcontextprotocol/inspector/issues/2172",
        ),
        registration={
            "client_name": "MCP Inspector",
            "client_uri": "https://github.com/modelcontextprotocol/inspector",
            "redirect_uris": ["http://localhost:6274/oauth/callback"],
            "scope": "",
            "application_type": "native",
            **_PUBLIC,
        },
        shown_as="MCP Inspector",
        native=True,
        arrives=("http://localhost:6274/oauth/callback",),
        strays=("http://localhost:6274/", "http://127.0.0.1:6274/oauth/callback"),
        reads_openid_strictly=True,
        scope=ALL,
        origin="http://localhost:6274",
        elicitation={"form": {}, "url": {}},
    ),
    Row(
        name="Open WebUI without TLS",
        sources=("https://docs.openwebui.com/features/extensibility/mcp/",),
        registration={
            "client_name": "Open WebUI",
            "redirect_uris": ["http://chat.lan:3000/oauth/clients/mcp:nextcloud/callback"],
            "token_endpoint_auth_method": "client_secret_post",
            **_CODE,
        },
        shown_as="Open WebUI",
        auth_method="client_secret_post",
        native=False,
        plain_hosts=frozenset({"chat.lan"}),
        arrives=("http://chat.lan:3000/oauth/clients/mcp:nextcloud/callback",),
        strays=("http://chat.lan/oauth/clients/mcp:nextcloud/callback",),
    ),
    Row(
        name="Open WebUI on its own host",
        sources=("https://docs.openwebui.com/features/extensibility/mcp/",),
        registration={
            "client_name": "Open WebUI",
            "redirect_uris": ["https://chat.example.org/oauth/clients/mcp:nextcloud/callback"],
            "token_endpoint_auth_method": "client_secret_post",
            "scope": "notes:read files:read",
            **_CODE,
        },
        shown_as="Open WebUI",
        auth_method="client_secret_post",
        native=False,
        arrives=("https://chat.example.org/oauth/clients/mcp:nextcloud/callback",),
        strays=("http://chat.example.org/oauth/clients/mcp:nextcloud/callback",),
    ),
)

CLIENTS = (*CLAUDE, *CHATGPT, *EDITORS, *TERMINALS, *BROWSERS)
