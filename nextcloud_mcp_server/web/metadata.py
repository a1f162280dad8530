"""Serves the protected resource metadata, which names the issuers (RFC 9728), to every origin."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

WELL_KNOWN = "/.well-known/oauth-protected-resource"

#: Any page may send requests: a browser adds no credentials of the user to a request with a token.
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "WWW-Authenticate, Mcp-Session-Id, MCP-Protocol-Version",
}
#: A wildcard does not cover Authorization (Fetch §3.3.3).
_PREFLIGHT = {"Access-Control-Allow-Headers": "Authorization, *", "Access-Control-Max-Age": "600"}
_METHODS = ["GET", "OPTIONS"]


@dataclass(frozen=True, slots=True)
class Resource:
    """This server as clients see it: its exact URL, its issuers, and the scopes to request."""

    url: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...]

    @property
    def metadata_path(self) -> str:
        """The path of the metadata: the well-known path, followed by the resource's (RFC 9728 §3.1)."""
        return f"{WELL_KNOWN}{urlsplit(self.url).path.rstrip('/')}"

    @property
    def metadata_url(self) -> str:
        """The metadata's URL, for challenges."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{self.metadata_path}"


def metadata_routes(resource: Resource) -> list[BaseRoute]:
    """Serve the metadata below the resource's path and, for clients that only look there, at the root."""
    document = {
        "resource": resource.url,
        "authorization_servers": list(resource.issuers),
        "scopes_supported": list(resource.scopes),
        "bearer_methods_supported": ["header"],
        "resource_name": "Nextcloud",
    }

    async def metadata(request: Request) -> Response:
        if request.method == "OPTIONS":
            return preflight("GET")
        return JSONResponse(document, headers={**CORS, "Cache-Control": "public, max-age=300"})

    paths = dict.fromkeys([resource.metadata_path, WELL_KNOWN])
    return [Route(path, metadata, methods=_METHODS) for path in paths]


def preflight(methods: str) -> Response:
    """Answer a CORS preflight request."""
    return Response(status_code=204, headers={**CORS, **_PREFLIGHT, "Access-Control-Allow-Methods": methods})
