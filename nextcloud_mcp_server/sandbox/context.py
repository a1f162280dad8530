"""What every part of the sandbox shares while it answers one request."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.faults import Faults
from nextcloud_mcp_server.sandbox.profile import Profile
from nextcloud_mcp_server.sandbox.state import Clock, State, User


@dataclass(frozen=True, slots=True)
class Context:
    """Handed to the functions that make routes; paths in them are relative to `base_path`."""

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
        """Give the path at which a browser reaches a route."""
        return f"{self.base_path}{'' if self.pretty_urls else '/index.php'}{path}"

    def origin(self, request: Request) -> str:
        """Say what the server believes its own address to be, without the base path."""
        return self.state.overwrite_host or f"{request.url.scheme}://{request.url.netloc}"
