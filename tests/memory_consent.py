"""An in-memory state machine behind the pages, and its application, for tests and screenshots."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.consent.views import ConsentRequest
from nextcloud_mcp_server.errors import ElicitationUnknown, NextcloudMcpError
from nextcloud_mcp_server.storage.records import ElicitationState
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from nextcloud_mcp_server.web.routes import routes
from tests.clients_fixtures import IN_ORDER

SECRET = "a-secret-for-programs"
HOST = "127.0.0.1:8000"
ORIGIN = f"http://{HOST}"


@dataclass
class MemoryConsent:
    """Implements the rules of a consent request: single use, expiry, one flow, final states."""

    now: datetime = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
    login_url: str = "https://cloud.example.org/login/v2/flow/sample"
    consent_service: dict[str, ConsentRequest] = field(default_factory=dict[str, ConsentRequest])
    ticked: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    flows: int = 0
    calls: list[str] = field(default_factory=list[str])
    fault: Exception | None = None

    def open(
        self,
        *,
        client_name: str = "Claude Code",
        host: str = "cloud.example.org",
        needed: Sequence[str] = ("notes:read",),
        offered: Sequence[str] = IN_ORDER,
        granted: Sequence[str] = (),
    ) -> str:
        elicitation_id = str(uuid4())
        self.consent_service[elicitation_id] = ConsentRequest(
            id=elicitation_id,
            state=ElicitationState.PENDING,
            client_name=client_name,
            nextcloud_host=host,
            needed=frozenset(needed),
            offered=frozenset(offered),
            login_url=None,
            expires_at=self.now + timedelta(seconds=600),
            account_name=None,
            error=None,
            granted=frozenset(granted),
        )
        return elicitation_id

    async def ready(self) -> "MemoryConsent":
        return self

    async def view(self, elicitation_id: str) -> ConsentRequest | None:
        self.calls.append("view")
        consent_request = self.consent_service.get(elicitation_id)
        if (
            consent_request is not None
            and not consent_request.state.final
            and self.now >= consent_request.expires_at
        ):
            self._set(elicitation_id, state=ElicitationState.EXPIRED)
        return self.consent_service.get(elicitation_id)

    async def approve(self, elicitation_id: str, scopes: frozenset[str]) -> ConsentRequest:
        self.calls.append("approve")
        if self.fault is not None:
            raise self.fault
        consent_request = self._active(elicitation_id)
        if consent_request.login_url is None:
            self.flows += 1
        self.ticked[elicitation_id] = scopes
        self._set(elicitation_id, state=ElicitationState.OPENED, login_url=SecretStr(self.login_url))
        return self.consent_service[elicitation_id]

    async def decline(self, elicitation_id: str) -> None:
        self.calls.append("decline")
        self._active(elicitation_id)
        self._set(elicitation_id, state=ElicitationState.DECLINED)

    def complete(self, elicitation_id: str, account_name: str = "alice") -> None:
        granted = self.consent_service[elicitation_id].granted | self.ticked.get(elicitation_id, frozenset())
        self._set(elicitation_id, state=ElicitationState.COMPLETE, account_name=account_name, granted=granted)

    def fail(self, elicitation_id: str, error: str) -> None:
        self._set(elicitation_id, state=ElicitationState.FAILED, error=error)

    def expire(self) -> None:
        self.now += timedelta(seconds=601)

    def _active(self, elicitation_id: str) -> ConsentRequest:
        consent_request = self.consent_service.get(elicitation_id)
        if consent_request is None or consent_request.state.final:
            raise ElicitationUnknown("There is no such request.")
        return consent_request

    def _set(self, elicitation_id: str, **changes: object) -> None:
        self.consent_service[elicitation_id] = replace(self.consent_service[elicitation_id], **changes)  # type: ignore[arg-type]


def config(**changes: object) -> WebConfig:
    """Single-user mode on loopback."""
    usual = WebConfig(
        allowed_hosts=frozenset({HOST}),
        allowed_origins=frozenset({ORIGIN}),
        bearer_secret=SecretStr(SECRET),
        secure_cookies=False,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


async def echo(request: Request) -> PlainTextResponse:
    """Replace MCP: read the body and return its size."""
    return PlainTextResponse(str(len(await request.body())))


async def broken(_request: Request) -> PlainTextResponse:
    raise NextcloudMcpError("This route always fails.")


def application(
    consent: MemoryConsent, settings: WebConfig | None = None, *, keys: Sequence[bytes] = ()
) -> ASGIApp:
    """Build the application as the server does."""
    methods = ["GET", "POST", "DELETE"]
    pages = routes(consent.ready, csrf_keys=lambda: keys or [b"k" * 32], clock=lambda: consent.now)
    inner = Starlette(routes=[Route("/mcp", echo, methods=methods), Route("/mcp/broken", broken), *pages])
    return guard(inner, settings or config())
