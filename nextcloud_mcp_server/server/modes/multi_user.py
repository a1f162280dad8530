"""What the modes `oidc` and `builtin` share: users sign in, and clients send access tokens."""

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import anyio
from mcp.server.context import ServerRequestContext
from pydantic import SecretStr

from nextcloud_mcp_server.auth.account_page import ClientLogos, ClientTokens
from nextcloud_mcp_server.auth.clock_watch import ClockWatch
from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.nextcloud_oauth2 import NextcloudOAuth2
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.auth.consent.sign_in_flow import SignInFlow
from nextcloud_mcp_server.auth.ended_accounts import EndedAccounts
from nextcloud_mcp_server.auth.multi_user_accounts import MultiUserAccounts
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.server.modes.mode import Mode
from nextcloud_mcp_server.server.public_urls import MCP_PATH, PublicUrls
from nextcloud_mcp_server.server.services import (
    Job,
    LazyServices,
    Services,
    policy_of,
    sub_keys,
)
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.web.bearer import BearerLayer
from nextcloud_mcp_server.web.caller import bearer_of, caller_of, scopes_of
from nextcloud_mcp_server.web.known_browser import KnownBrowsers
from nextcloud_mcp_server.web.limits import AddressLimits, Limits
from nextcloud_mcp_server.web.metadata import WELL_KNOWN, Resource, metadata_routes
from nextcloud_mcp_server.web.middleware import WebConfig
from nextcloud_mcp_server.web.open_connections import Meant, OpenConnections
from nextcloud_mcp_server.web.request_limiter import RequestLimiter, RequestRates
from nextcloud_mcp_server.web.routes import multi_user_routes
from nextcloud_mcp_server.web.server_card import ServerCard, card_routes

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from nextcloud_mcp_server.auth.builtin.authorization import Authorization
    from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
    from nextcloud_mcp_server.protocol.task_runner import TaskRunner

logger = logging.getLogger(__name__)

#: How often expired rows are ended and deleted.
TIDY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class MultiUserAuth:
    """What the pages of every multi-user mode need."""

    consent_service: ConsentService


MultiUserAuthT = TypeVar("MultiUserAuthT", bound=MultiUserAuth)


class MultiUserMode(Mode[MultiUserAuthT]):
    """Users sign in, each with an account of their own; a subclass says where, and verifies the tokens."""

    accounts = MultiUserAccounts

    #: Paths below which pages of other origins may ask.
    any_origin: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.words = self.settings.asked_words
        self.connections = OpenConnections()
        self.limits = Limits()

    # For a subclass.

    @property
    @abstractmethod
    def resource(self) -> Resource:
        """The protected resource as its metadata describes it (RFC 9728)."""

    @abstractmethod
    async def verify(self, services: LazyServices[MultiUserAuthT], token: str) -> Bearer:
        """Verify an access token.

        Raises:
            TokenRefused: The token is not valid for this server.
            IssuerUnavailable: It cannot be checked now.
        """

    @abstractmethod
    def own_routes(self, services: LazyServices[MultiUserAuthT]) -> "Sequence[BaseRoute]":
        """Build the endpoints of this mode alone."""

    def authorizations(
        self,
        services: LazyServices[MultiUserAuthT],  # noqa: ARG002 - for the mode that issues tokens
    ) -> Callable[[], Awaitable["Authorization"]] | None:
        """Return the authorization server behind `/authorize`; None where another party issues tokens."""
        return None

    def consent_service(
        self,
        services: Services,
        sign_in: SignInFlow[Any],
        exchange_limiter: ExchangeLimiter,
        *,
        tokens: ClientTokens | None = None,
        logos: ClientLogos | None = None,
    ) -> ConsentService:
        """Create what is behind the pages, for users who sign in with `sign_in`."""
        return ConsentService(
            services.database,
            cast("Provisioning", services.provisioning),
            sign_in,
            services.redirect_provider,
            outbox=services.outbox,
            policy=services.policy,
            exchange_limiter=exchange_limiter,
            clock=self.overrides.clock,
            on_changed=services.forget,
            tokens=tokens,
            logos=logos,
        )

    def exchange_limiter(self, services: Services) -> ExchangeLimiter:
        """Count failed code exchanges. Where codes go to Nextcloud, its allow list counts too."""
        clock = self.overrides.clock
        if not isinstance(services.redirect_provider, NextcloudOAuth2):
            return ExchangeLimiter(services.database, clock=clock)
        is_allow_listed = services.nextcloud.oauth2.is_allow_listed
        return ExchangeLimiter(services.database, clock=clock, is_allow_listed=is_allow_listed)

    def jobs(self, services: Services, *clean_up: Callable[[], Awaitable[object]]) -> tuple[Job, ...]:
        """Return the jobs: end the connections of released accounts, watch the clock, and `tidy` periodically."""
        ended = EndedAccounts(services.database, self.connections.end_of)
        watch = ClockWatch(self.overrides.clock)
        return ended.run, watch.run, lambda: run_periodically(*clean_up)

    # See `Mode`.

    @property
    def account_url(self) -> str:
        """The account page of this server."""
        return f"{self.settings.server_url}/account"

    @property
    def scopes_at_sign_in(self) -> frozenset[str]:
        """The scopes of the setting `SIGN_IN_SCOPES`."""
        return self.words.scopes_at_sign_in

    def caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """Return the user and the client of the access token."""
        return caller_of(ctx)

    def token_scopes(self, ctx: ServerRequestContext[Any, Any]) -> frozenset[str] | None:
        """Return the scopes of the access token."""
        return scopes_of(ctx)

    @property
    def resumes(self) -> bool:
        """Always: another replica may have left unfinished work, too."""
        return True

    def routes(self, services: LazyServices[MultiUserAuthT]) -> "list[BaseRoute]":
        """Build metadata, the endpoints of this mode and the pages."""

        async def consent_service() -> ConsentService:
            return (await services.auth()).consent_service

        nextcloud_host = policy_of(self.settings, self.page_url).nextcloud_host
        pages = multi_user_routes(
            consent_service,
            keys=sub_keys(self.settings, "forms"),
            nextcloud_host=nextcloud_host,
            mcp_url=self.resource.url,
            clock=self.overrides.clock,
            on_person=self.limits.person,
            authorizations=self.authorizations(services),
        )
        card = card_routes(ServerCard(self.resource.url, nextcloud_host), mcp_path=MCP_PATH)
        return [*metadata_routes(self.resource), *card, *self.own_routes(services), *pages]

    def protect(self, app: "ASGIApp", services: LazyServices[MultiUserAuthT]) -> "ASGIApp":
        """Require an access token at the MCP endpoint, and limit how much an address can ask for."""
        layer = BearerLayer(
            app,
            resource=self.resource,
            verify=partial(self.verify, services),
            needs=mcp_server.needs(mcp_server.selected(self.settings)),
            clock=self.overrides.clock,
            words=self.words.for_call,
            mcp_path=MCP_PATH,
            streams=self.connections.streams,
            limiter=RequestLimiter(RequestRates(per_minute=self.settings.requests_per_minute)),
        )

        async def spend(params: Params) -> None:
            await (await services.auth()).consent_service.spend_if_known(params)

        limited = AddressLimits(layer, self.limits, mcp_path=MCP_PATH, spend=spend)
        return KnownBrowsers(limited, keys=sub_keys(self.settings, "known-browsers"))

    def limit_sessions(self, endpoint: "ASGIApp") -> "ASGIApp":
        """Let a user's new session end the oldest idle one beyond the limits."""
        return self.connections.limit_sessions(endpoint)

    def oversee(self, tasks: "TaskRunner") -> None:
        """End a user's tasks where their streams and sessions end."""

        async def end(meant: Meant) -> None:
            await tasks.end(lambda ctx: (bearer := bearer_of(ctx)) is not None and meant(bearer))

        self.connections.end_tasks = end

    def web_config(self, public_urls: PublicUrls) -> WebConfig:
        """Let clients in with access tokens; browsers may come through the operator's proxies."""
        return WebConfig(
            allowed_hosts=public_urls.names(),
            allowed_origins=public_urls.origins(),
            bearer_secret=None,
            secure_cookies=public_urls.encrypted,
            mcp_path=MCP_PATH,
            any_origin=(MCP_PATH, WELL_KNOWN, *self.any_origin),
            refuse_forwarded=False,
            proxies=self.settings.proxies,
        )


def nextcloud_oauth2(
    settings: Settings, nextcloud: Nextcloud, *, clock: Callable[[], datetime]
) -> NextcloudOAuth2:
    """Create the grant provider that uses Nextcloud's own OAuth app, with the client registered there."""
    return NextcloudOAuth2(
        nextcloud,
        client_id=settings.nextcloud_oauth_client_id or "",
        client_secret=settings.nextcloud_oauth_client_secret or SecretStr(""),
        redirect_uri=settings.grant_callback_url,
        clock=clock,
    )


async def run_periodically(*jobs: Callable[[], Awaitable[object]]) -> None:
    """End and delete what has expired, as long as the server runs."""
    while True:
        for job in jobs:
            try:
                await job()
            except Exception:  # a supervisor: a database that is busy once must not end the tidying
                logger.exception("expired requests and sessions could not be deleted; trying again")
        await anyio.sleep(TIDY_SECONDS)
