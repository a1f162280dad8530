"""The application behind a loopback port: the pages of a consent request, below a secret path, and nothing else."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.web.http_log import HttpLog
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from nextcloud_mcp_server.web.root_path import BelowRootPath
from nextcloud_mcp_server.web.routes import loopback_routes

#: There is no MCP endpoint here.
_NO_MCP = "/no-mcp"


def loopback_app(
    consent_service: Callable[[], Awaitable[ConsentService]],
    *,
    keys: Callable[[], Sequence[bytes]],
    host: str,
    root_path: str,
) -> ASGIApp:
    """Build the application; `host` is the only Host, and its origin the only Origin, that it answers."""
    pages = Starlette(routes=loopback_routes(consent_service, csrf_keys=keys))
    config = WebConfig(
        allowed_hosts=frozenset({host}),
        allowed_origins=frozenset({f"http://{host}"}),
        bearer_secret=None,
        secure_cookies=False,
        mcp_path=_NO_MCP,
    )
    # The log is inside, where paths do not have the secret any more.
    return guard(BelowRootPath(HttpLog(pages, mcp_path=_NO_MCP), root_path), config)
