"""What one app adds to the sandbox: its routes, its capability, its place in the menu and some data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from starlette.routing import BaseRoute

from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.identity import Gate
from nextcloud_mcp_server.sandbox.ocs_app import OcsApp
from nextcloud_mcp_server.sandbox.state import State, User


class Api(Protocol):
    """Answers the requests to an app."""

    def routes(self) -> list[BaseRoute]:
        """Make the routes."""
        ...


@dataclass(frozen=True, slots=True)
class SandboxApp:
    """One app, by the name that Nextcloud has for it."""

    name: str
    api: Callable[[Context, Gate], Api] | None = None
    #: What answers below /ocs, by the beginning of the address.
    ocs: Mapping[str, OcsApp] = field(default_factory=dict[str, OcsApp])
    capability: Callable[[Context, User], dict[str, object]] | None = None
    #: The name in the menu, and the place.
    menu: tuple[str, int] | None = None
    #: Adds data for the demo; alice and bob exist.
    seed: Callable[[State], None] | None = None
