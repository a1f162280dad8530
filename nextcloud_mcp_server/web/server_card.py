"""Describes this server to clients before they connect: the Server Card (SEP-2127), and the catalogue that names it.

Both are public and are made from the settings and the package alone. They list no tools: which ones exist depends on
the user, and a client asks for them once it is connected.
"""

import hashlib
import json
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import urlsplit

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

CARD_TYPE: Final = "application/mcp-server-card+json"
CATALOG_TYPE: Final = "application/ai-catalog+json"
#: Below the MCP endpoint; the extension reserves this location.
CARD_PATH: Final = "/server-card"
CATALOG_PATH: Final = "/.well-known/ai-catalog.json"
#: Where clients of earlier drafts look for a card.
EARLIER_PATHS: Final = (
    "/.well-known/mcp.json",
    "/.well-known/mcp/server-card.json",
    "/.well-known/mcp/server-card",
)
_PROGRAM: Final = "nextcloud-mcp-server"
_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
#: As the extension's page on discovery demands; the card has only public data.
_HEADERS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "Content-Type, If-None-Match",
    "Access-Control-Expose-Headers": "ETag",
    "Cache-Control": "public, max-age=3600",
}


@dataclass(frozen=True, slots=True)
class ServerCard:
    """The card of the server at `mcp_url`, which serves the users of the Nextcloud at `nextcloud_host`."""

    mcp_url: str
    nextcloud_host: str

    @property
    def url(self) -> str:
        """The URL of the card."""
        return f"{self.mcp_url}{CARD_PATH}"

    @property
    def document(self) -> dict[str, Any]:
        """The card; `name` ends in the name that `initialize` gives."""
        domain = ".".join(reversed(self._domain.split(".")))
        return {
            "$schema": _SCHEMA,
            "name": f"{domain}/{_PROGRAM}",
            "version": version(_PROGRAM),
            "title": "Nextcloud",
            "description": f"Notes, files and more of {self.nextcloud_host}, with consent in the browser."[
                :100
            ],
            "remotes": [
                {
                    "type": "streamable-http",
                    "url": self.mcp_url,
                    "supportedProtocolVersions": [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS],
                }
            ],
        }

    @property
    def catalog(self) -> dict[str, Any]:
        """The catalogue of this domain: one entry, which leads to the card."""
        entry = {
            "identifier": f"urn:air:{self._domain}:mcp:{_PROGRAM}",
            "type": CARD_TYPE,
            "url": self.url,
        }
        return {"specVersion": "1.0", "entries": [entry]}

    @property
    def _domain(self) -> str:
        # An IPv6 address has colons, which no name in a card may have.
        return (urlsplit(self.mcp_url).hostname or "localhost").replace(":", "-")


def card_routes(card: ServerCard, *, mcp_path: str = "/mcp") -> list[BaseRoute]:
    """Serve the card and the catalogue to every origin, without a token; older locations lead to the card."""

    async def moved(_: Request) -> Response:
        return RedirectResponse(card.url, HTTPStatus.PERMANENT_REDIRECT, headers=_HEADERS)

    return [
        _document(f"{mcp_path}{CARD_PATH}", CARD_TYPE, card.document),
        _document(CATALOG_PATH, CATALOG_TYPE, card.catalog),
        *(Route(path, moved, methods=["GET"]) for path in EARLIER_PATHS),
    ]


def _document(path: str, media_type: str, document: dict[str, Any]) -> Route:
    text = json.dumps(document, ensure_ascii=False).encode()
    etag = f'"{hashlib.sha256(text).hexdigest()[:32]}"'

    async def answer(request: Request) -> Response:
        headers = {**_HEADERS, "ETag": etag}
        if request.method == "OPTIONS":
            return Response(status_code=HTTPStatus.NO_CONTENT, headers=_HEADERS)
        if _is_known(request.headers.get("if-none-match", ""), etag):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(text, media_type=media_type, headers=headers)

    return Route(path, answer, methods=["GET", "OPTIONS"])


def _is_known(if_none_match: str, etag: str) -> bool:
    """Tell whether a client has this version; the comparison is weak (RFC 9110 §13.1.2)."""
    known = {each.strip().removeprefix("W/") for each in if_none_match.split(",")}
    return "*" in known or etag in known
