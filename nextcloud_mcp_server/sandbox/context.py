"""The parts of the sandbox that every request handler uses."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.faults import Faults
from nextcloud_mcp_server.sandbox.profile import Profile
from nextcloud_mcp_server.sandbox.state import Clock, State, User


@dataclass(frozen=True, slots=True)
class Context:
    """Passed to the functions that create routes; their paths are relative to `base_path`."""

    state: State
    faults: Faults
    clock: Clock
    base_path: str
    pretty_urls: bool
    profile: Profile
    apps: frozenset[str]
    # For DAV routes: the acting person, or the refusal (401, 429, 503 as DAV XML) to send back.
    authenticate: Callable[[Request], User | Response]

    def path(self, path: str) -> str:
        """Return the path at which a browser reaches a route."""
        return f"{self.base_path}{'' if self.pretty_urls else '/index.php'}{path}"

    def origin(self, request: Request) -> str:
        """Return the origin that the server assumes to be its own, without the base path."""
        return self.state.overwrite_host or f"{request.url.scheme}://{request.url.netloc}"
