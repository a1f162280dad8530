"""Puts the sandbox together: state, routes and faults behind one ASGI application."""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.admin_page import AdminPage
from nextcloud_mcp_server.sandbox.catalogue import APPS
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.dav import dav_routes
from nextcloud_mcp_server.sandbox.faults import Fault, FaultArea, FaultKind, Faults, FaultStatus
from nextcloud_mcp_server.sandbox.frontend import CONTROL_PATH, Frontend
from nextcloud_mcp_server.sandbox.identity import Gate, Identity, refuse_dav
from nextcloud_mcp_server.sandbox.login_flow import LoginFlows
from nextcloud_mcp_server.sandbox.oauth2 import TOKEN_REQUESTS_ALLOWED, OAuth2App
from nextcloud_mcp_server.sandbox.ocs import OcsApi
from nextcloud_mcp_server.sandbox.previews import Previews
from nextcloud_mcp_server.sandbox.profile import PROFILES, USUAL, ProfileName
from nextcloud_mcp_server.sandbox.reply import empty_html, page
from nextcloud_mcp_server.sandbox.request_log import RequestLog
from nextcloud_mcp_server.sandbox.seed import seed
from nextcloud_mcp_server.sandbox.state import Clock, State, User, system_clock
from nextcloud_mcp_server.sandbox.theming import theming_routes
from nextcloud_mcp_server.sandbox.throttle import Throttle

#: What Nextcloud itself brings; the apps of the catalogue join it.
_CORE = (
    "files", "dav", "files_trashbin", "files_versions", "files_sharing", "systemtags", "comments", "oauth2",
)  # fmt: skip
DEFAULT_APPS = frozenset(_CORE) | {app.name for app in APPS}


class FaultRequest(BaseModel):
    """A fault in the form that the control endpoint accepts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: FaultKind
    area: FaultArea = "all"
    times: int | None = None
    after: int = 0
    methods: frozenset[str] | None = None
    seconds: float = 0.0
    status: FaultStatus = 503


class Sandbox:
    """A small Nextcloud. `app` is the ASGI application; tests read and change the rest.

    `version` is the major version that it answers like; `apps` are the installed ones, unless those of the version.
    """

    def __init__(
        self,
        *,
        base_path: str = "",
        pretty_urls: bool = True,
        clock: Clock = system_clock,
        one_second_etags: bool = True,
        version: ProfileName = USUAL,
        apps: Iterable[str] | None = None,
    ) -> None:
        profile = PROFILES[version]
        self.state = State(clock=clock, one_second_etags=one_second_etags)
        self.faults = Faults()
        self.requests = RequestLog()
        self.throttle = Throttle(clock, exempt=self.state.allow_listed)
        self.token_throttle = Throttle(clock, allowed=TOKEN_REQUESTS_ALLOWED, exempt=self.state.allow_listed)
        self._gate = Gate(self.state, self.throttle)
        self.context = Context(
            state=self.state,
            faults=self.faults,
            clock=clock,
            base_path=base_path.rstrip("/"),
            pretty_urls=pretty_urls,
            profile=profile,
            apps=DEFAULT_APPS - profile.absent_apps if apps is None else frozenset(apps),
            authenticate=self._authenticate,
        )
        self.app = Starlette(
            routes=self._routes(),
            middleware=[Middleware(Frontend, context=self.context, log=self.requests)],
            exception_handlers={HTTPException: _error_page},
        )

    @classmethod
    def demo(
        cls,
        *,
        base_path: str = "",
        pretty_urls: bool = True,
        clock: Clock = system_clock,
        one_second_etags: bool = True,
        version: ProfileName = USUAL,
        apps: Iterable[str] | None = None,
    ) -> Self:
        """Build a sandbox where alice and bob have some notes and files."""
        sandbox = cls(
            base_path=base_path,
            pretty_urls=pretty_urls,
            clock=clock,
            one_second_etags=one_second_etags,
            version=version,
            apps=apps,
        )
        seed(sandbox.state)
        return sandbox

    def served_at(self, origin: str) -> str:
        """Return the URL of the Nextcloud that is served at this origin."""
        return f"{origin}{self.context.base_path}"

    def add_user(
        self, uid: str, *, password: str | None = None, display_name: str | None = None, admin: bool = False
    ) -> User:
        """Add a user; the password is the uid unless given."""
        password = uid if password is None else password
        return self.state.add_user(User(uid, display_name or uid, password, admin=admin))

    def _routes(self) -> list[BaseRoute]:
        routes = [
            # Before what answers everything else below /ocs.
            *self._routes_of_apps(),
            *LoginFlows(self.context, self._gate).routes(),
            *OcsApi(self.context, self._gate, self.throttle).routes(),
            *AdminPage(self.context, self._gate, self.throttle).routes(),
            *dav_routes(self.context),
            *Previews(self._gate).routes(),
            *theming_routes(self.context),
            Route(f"{CONTROL_PATH}faults", self._add_fault, methods=["POST"]),
            Route(f"{CONTROL_PATH}faults", self._clear_faults, methods=["DELETE"]),
            Route(f"{CONTROL_PATH}requests", self._list_requests, methods=["GET"]),
            Route(f"{CONTROL_PATH}requests", self._clear_requests, methods=["DELETE"]),
        ]
        if "oauth2" in self.context.apps:
            routes += OAuth2App(self.context, self._gate, self.token_throttle).routes()
        return routes

    def _routes_of_apps(self) -> Iterator[BaseRoute]:
        for app in APPS:
            if app.api is not None and app.name in self.context.apps:
                yield from app.api(self.context, self._gate).routes()

    def _authenticate(self, request: Request) -> User | Response:
        found = self._gate.identify(request, "dav")
        return found.user if isinstance(found, Identity) else refuse_dav(request, found)

    async def _add_fault(self, request: Request) -> Response:
        try:
            asked = FaultRequest.model_validate_json(await request.body())
        except ValidationError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        self.faults.active.append(Fault(**asked.model_dump()))
        return Response(status_code=204)

    async def _clear_faults(self, request: Request) -> Response:
        del request
        self.faults.clear()
        return Response(status_code=204)

    async def _list_requests(self, request: Request) -> Response:
        del request
        return JSONResponse(self.requests.document())

    async def _clear_requests(self, request: Request) -> Response:
        del request
        self.requests.clear()
        return Response(status_code=204)


async def _error_page(request: Request, error: Exception) -> Response:
    del request
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.INTERNAL_SERVER_ERROR
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return empty_html(status)
    return page("Nextcloud", f"<h1>{HTTPStatus(status).phrase}</h1>", status=status)
