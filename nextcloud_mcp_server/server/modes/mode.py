"""What differs between the modes of the server, as one object per mode."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from mcp.server.context import ServerRequestContext

from nextcloud_mcp_server.auth.accounts import GrantedAccounts
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.protocol.availability import unlimited
from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.server.services import AuthT, Job, LazyServices, Overrides, Services
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.records import Principal

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
    from nextcloud_mcp_server.protocol.task_runner import TaskRunner
    from nextcloud_mcp_server.web.health import Try
    from nextcloud_mcp_server.web.middleware import WebConfig


@dataclass
class Mode(ABC, Generic[AuthT]):
    """How users sign in, and which party issues the tokens of their clients.

    Creating a mode opens nothing. `page_url` returns the URL of the consent page; with None users go straight to
    Nextcloud. For `page_is_gone` see `Policy`.
    """

    settings: Settings
    page_url: Callable[[str], str] | None = None
    overrides: Overrides = field(default_factory=Overrides)
    page_is_gone: Callable[[str], Awaitable[bool]] | None = None

    #: The class that `open_services` creates for this mode.
    accounts: ClassVar[type[GrantedAccounts]] = GrantedAccounts

    def __post_init__(self) -> None:
        """Read from the settings what the methods below need."""

    # Who calls.

    @property
    def person(self) -> Principal | None:
        """The one user of this server; None where users sign in."""
        return None

    @property
    def account_url(self) -> str:
        """The page on which users see and change what they allowed; empty where there is none."""
        return ""

    @property
    def scopes_at_sign_in(self) -> frozenset[str]:
        """The scopes that clients are told to request when their user signs in."""
        return frozenset(SCOPES)

    @abstractmethod
    def caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """Return the caller of an MCP request."""

    def token_scopes(self, ctx: ServerRequestContext[Any, Any]) -> frozenset[str] | None:
        """Return the scopes that the token of an MCP request covers; None where no token limits anything."""
        return unlimited(ctx)

    # What is opened with the first call.

    def redirect_provider(self, nextcloud: Nextcloud) -> "RedirectProvider | None":  # noqa: ARG002 - for the modes that have one
        """Return the grant provider that sends browsers back to this server; None for Login Flow v2."""
        return None

    @abstractmethod
    def open_auth(self, services: Services) -> tuple[AuthT, Sequence[Job]]:
        """Create what the pages and tokens of this mode need, and its background jobs."""

    # The HTTP application around the MCP endpoint.

    @property
    @abstractmethod
    def resumes(self) -> bool:
        """Whether an earlier process may have left unfinished work."""

    @abstractmethod
    def routes(self, services: LazyServices[AuthT]) -> "list[BaseRoute]":
        """Build the pages and endpoints beside the MCP endpoint."""

    def protect(self, app: "ASGIApp", services: LazyServices[AuthT]) -> "ASGIApp":  # noqa: ARG002 - for the modes with tokens
        """Wrap the application in the checks of this mode."""
        return app

    def limit_sessions(self, endpoint: "ASGIApp") -> "ASGIApp":
        """Wrap the MCP endpoint in the limits of the sessions of each user."""
        return endpoint

    def oversee(self, tasks: "TaskRunner") -> None:
        """End these tasks, too, when what a token has begun must end."""

    @abstractmethod
    def web_config(self, public_urls: PublicUrls) -> "WebConfig":
        """Return what the checks around every route allow."""

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[None]:
        """Keep the HTTP connections of this mode open while the application serves."""
        yield

    def parts_to_try(self) -> Mapping[str, "Try"]:
        """Return how to try what this mode needs besides the database and Nextcloud."""
        return {}

    async def check_at_start(self) -> None:
        """Check what only the network can tell.

        Raises:
            ConfigurationError: The server can never be used with these settings.
        """
