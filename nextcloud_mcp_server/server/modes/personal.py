"""Mode `personal`: one user, whose clients run on the same computer or send the server's secret."""

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from mcp.server.context import ServerRequestContext
from pydantic import SecretStr

from nextcloud_mcp_server.auth.principal import Caller, personal, personal_caller
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.server.database_file import has_state
from nextcloud_mcp_server.server.modes.mode import Mode
from nextcloud_mcp_server.server.public_urls import MCP_PATH, PublicUrls
from nextcloud_mcp_server.server.services import (
    Job,
    LazyServices,
    Services,
    nextcloud_url_of,
    sub_keys,
)
from nextcloud_mcp_server.settings.checks import SHORTEST_SECRET
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.records import Principal

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
    from nextcloud_mcp_server.auth.consent.service import ConsentService
    from nextcloud_mcp_server.server.loopback_pages import LoopbackPages
    from nextcloud_mcp_server.web.middleware import WebConfig

logger = logging.getLogger(__name__)


class Personal(Mode["ConsentService | None"]):
    """One user, without a sign-in."""

    @classmethod
    def over_stdio(cls, settings: Settings, pages: "LoopbackPages | None") -> "Personal":
        """Create the mode of a process without a web server, with its consent page on a loopback port."""
        if pages is None:
            return cls(settings)
        return cls(settings, pages.page_url, page_is_gone=pages.is_gone)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._url = str(nextcloud_url_of(self.settings))

    @cached_property
    def _secret(self) -> SecretStr | None:
        return bearer_secret(self.settings)

    @property
    def person(self) -> Principal:
        """The user, named by their Nextcloud."""
        return personal(self._url)

    def caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """Return the user; all clients share one permission."""
        return personal_caller(self._url, wire.client_name(ctx))

    def open_auth(self, services: Services) -> "tuple[ConsentService | None, Sequence[Job]]":
        """Create what is behind the consent pages, for one user who need not sign in; None without pages."""
        return (None if self.page_url is None else self._consent_service(services)), ()

    def _consent_service(self, services: Services) -> "ConsentService":
        from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter  # noqa: PLC0415 - HTTP only
        from nextcloud_mcp_server.auth.consent.service import ConsentService  # noqa: PLC0415 - HTTP only

        clock = self.overrides.clock
        return ConsentService(
            services.database,
            services.provisioning or self._nothing_to_consent_to(services),
            None,
            None,
            outbox=services.outbox,
            policy=services.policy,
            exchange_limiter=ExchangeLimiter(services.database, clock=clock),
            clock=clock,
            on_changed=services.forget,
        )

    def _nothing_to_consent_to(self, services: Services) -> "Provisioning":
        """Return the state machine of a user without consent requests: the operator configured the credential."""
        from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider  # noqa: PLC0415 - HTTP only
        from nextcloud_mcp_server.auth.consent.provisioning import Provisioning  # noqa: PLC0415 - HTTP only

        clock = self.overrides.clock
        return Provisioning(
            services.database,
            LoginFlowProvider(services.nextcloud, services.database, clock=clock),
            services.policy,
            clock=clock,
            on_finished=_nothing_waits,
            within=Principal("", ""),
        )

    @property
    def resumes(self) -> bool:
        """Whether there is a database already; a client that only lists tools creates none."""
        return has_state(self.settings)

    def routes(self, services: "LazyServices[ConsentService | None]") -> "list[BaseRoute]":
        """Build the consent pages."""
        from nextcloud_mcp_server.web.routes import routes  # noqa: PLC0415 - HTTP only

        async def consent_service() -> "ConsentService":
            return cast("ConsentService", await services.auth())

        return routes(
            consent_service,
            csrf_keys=sub_keys(self.settings, "forms"),
            sandbox=self.settings.sandbox,
            secret=self._secret is not None,
        )

    def web_config(self, public_urls: PublicUrls) -> "WebConfig":
        """Let clients in with the server's secret, and only pages of this server call it."""
        from nextcloud_mcp_server.web.middleware import WebConfig  # noqa: PLC0415 - HTTP only

        return WebConfig(
            allowed_hosts=public_urls.names(),
            allowed_origins=public_urls.origins(),
            bearer_secret=self._secret,
            secure_cookies=public_urls.encrypted,
            mcp_path=MCP_PATH,
        )


async def _nothing_waits(elicitation_id: str) -> None:
    """Do nothing: no call waits for a consent request."""


def bearer_secret(settings: Settings) -> SecretStr | None:
    """Return the secret that HTTP clients must send, created if there is none; None with `--no-local-auth`.

    Raises:
        ConfigurationError: Its file cannot be read or created.
    """
    if settings.no_local_auth:
        return None
    if settings.nextcloud_mcp_secret is not None:
        return settings.nextcloud_mcp_secret
    from nextcloud_mcp_server.storage.crypto import load_or_create_key_file  # noqa: PLC0415 - HTTP only

    settings.open_data_dir()
    (secret, *_), made = load_or_create_key_file(settings.secret_file, variable="NEXTCLOUD_MCP_SECRET_FILE")
    if made:
        logger.warning("made the secret that HTTP clients must send: %s", settings.secret_file)
    if len(secret.get_secret_value()) < SHORTEST_SECRET:
        raise ConfigurationError(
            f"The secret in {settings.secret_file} is too short to be safe: delete the file, "
            "and a new one is made."
        )
    return secret
