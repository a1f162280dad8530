"""Every page and plain HTTP route, as one list."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import CLIENT_STATE, PAGE_STATE
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.account import AccountPages
from nextcloud_mcp_server.web.callback_result import RESULT, CallbackResults, result_page
from nextcloud_mcp_server.web.cloud import logo_at
from nextcloud_mcp_server.web.consent import MULTI_USER, SINGLE_USER, ConsentPages
from nextcloud_mcp_server.web.health import healthz
from nextcloud_mcp_server.web.middleware import UNAUTHORIZED_MESSAGE, KeepsOpener, PageErrors
from nextcloud_mcp_server.web.pages import favicon, page, stylesheet
from nextcloud_mcp_server.web.problem import ACCOUNT as ACCOUNT_PROBLEMS
from nextcloud_mcp_server.web.problem import CLIENT, PEOPLE, PERSONAL, Problem, Problems, problem_page
from nextcloud_mcp_server.web.request_context import EndpointFactory, PersonHandler
from nextcloud_mcp_server.web.sign_in import SignInPages

if TYPE_CHECKING:
    # Their imports load the verification of signed tokens, which a single-user server never needs.
    from nextcloud_mcp_server.auth.builtin.authorization import Authorization
    from nextcloud_mcp_server.web.authorize import AuthorizePages

Endpoint = Callable[[Request], Awaitable[Response]]

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_NEXTCLOUD_CALLBACK = "/oauth/callback/nextcloud"
_A_DAY = "public, max-age=86400"
_A_YEAR = "public, max-age=31536000, immutable"


def routes(
    consent: Callable[[], Awaitable[ConsentService]],
    *,
    csrf_keys: Callable[[], Sequence[bytes]],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    sandbox: bool = False,
    secret: bool = True,
) -> list[BaseRoute]:
    """Build the routes of a single-user server.

    `consent` is awaited with the first page, and `csrf_keys` called after it; `sandbox` says that the server
    uses the built-in Nextcloud, which the command that connects a client must know. `secret` says that clients
    need one: clients without it look for a way to register.
    """
    return _with_the_rest(
        [
            _page_route("/", _home(sandbox=sandbox), "GET"),
            *_single_user_pages(consent, csrf_keys=csrf_keys, clock=clock),
            *(_needs_secret_routes() if secret else ()),
        ]
    )


def loopback_routes(
    consent: Callable[[], Awaitable[ConsentService]],
    *,
    csrf_keys: Callable[[], Sequence[bytes]],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> list[BaseRoute]:
    """Build the routes of a consent page on a loopback port; see `routes`."""
    pages = _single_user_pages(consent, csrf_keys=csrf_keys, clock=clock)
    return [*pages, _page_route("/static/{name}", _static, "GET")]


def _single_user_pages(
    consent: Callable[[], Awaitable[ConsentService]],
    *,
    csrf_keys: Callable[[], Sequence[bytes]],
    clock: Callable[[], datetime],
) -> list[Route]:
    endpoints, pages = EndpointFactory(consent, keys=csrf_keys), ConsentPages(SINGLE_USER, clock=clock)

    def of_the_user(handler: PersonHandler) -> Endpoint:
        return endpoints.require_session(handler, otherwise=pages.refuse_without_session)

    return [
        _page_route("/oauth/provision", of_the_user(pages.show), "GET"),
        _page_route("/oauth/provision", of_the_user(pages.answer), "POST"),
        _page_route("/oauth/waiting", of_the_user(pages.wait), "GET"),
        _page_route("/oauth/cancel", of_the_user(pages.cancel), "POST"),
    ]


def _needs_secret_routes() -> list[Route]:
    """Build routes for what clients without the secret try, since they expect OAuth.

    Only JSON, as in RFC 7591 §3.2.2 and RFC 6749 §5.2: clients show the description.
    """

    async def refuse(_: Request) -> Response:
        body = {
            "error": "access_denied",
            "error_description": f"Nothing to register here. {UNAUTHORIZED_MESSAGE}",
        }
        return JSONResponse(body, 403)

    return [Route(path, refuse, methods=["POST"]) for path in ("/register", "/token")]


def multi_user_routes(
    consent_service: Callable[[], Awaitable[ConsentService]],
    *,
    keys: Callable[[], Sequence[bytes]],
    nextcloud_host: str,
    mcp_url: str,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_person: Callable[[Principal], Awaitable[None]] | None = None,
    authorizations: "Callable[[], Awaitable[Authorization]] | None" = None,
) -> list[BaseRoute]:
    """Build the routes of a server on which users sign in, each with an account of their own.

    `consent_service` is awaited with the first page, and `keys` called after it. `nextcloud_host` is shown
    before a sign-in, `mcp_url` is what users give to their clients; `on_person` may refuse a user with too many
    requests. `authorizations` is given in `MODE=builtin`, where this server issues tokens, and users sign in at
    Nextcloud.
    """
    endpoints = EndpointFactory(consent_service, keys=keys, on_person=on_person)
    sign_in, consent_request = SignInPages(nextcloud_host), ConsentPages(MULTI_USER, clock=clock)
    signed_in = endpoints.public(sign_in.callback, is_callback=True)
    confirmed = endpoints.require_session(
        consent_request.callback, otherwise=consent_request.callback_signed_out, is_callback=True
    )
    if authorizations is None:
        callbacks = [
            _callback_route("/oauth/callback/sign-in", signed_in, keys),
            _callback_route(_NEXTCLOUD_CALLBACK, confirmed, keys),
            _multi_user_route(RESULT, result_page(keys), "GET"),
        ]
    else:
        from nextcloud_mcp_server.web.authorize import AuthorizePages  # noqa: PLC0415 - MODE=builtin only

        pages = AuthorizePages(authorizations, keys=keys, nextcloud_host=nextcloud_host)
        callbacks = _authorize_routes(pages, keys, by_state({PAGE_STATE: signed_in}, otherwise=confirmed))
    return _with_the_rest(
        [
            _page_route("/", _multi_user_home(mcp_url, signs_in_here=authorizations is not None), "GET"),
            *callbacks,
            *_sign_in_routes(endpoints, sign_in),
            *_consent_routes(endpoints, consent_request),
            *_account_routes(endpoints, AccountPages(clock=clock)),
        ]
    )


def _authorize_routes(
    pages: "AuthorizePages", keys: Callable[[], Sequence[bytes]], otherwise: Endpoint
) -> list[Route]:
    """Build the routes of `/authorize`. Nextcloud knows one redirect URI, so all callbacks share it."""
    from nextcloud_mcp_server.web.authorize import AUTHORIZE, CONFIRM_CLIENT  # noqa: PLC0415 - MODE=builtin only

    callback = by_state({CLIENT_STATE: pages.callback}, otherwise=otherwise)
    return [
        _client_route(AUTHORIZE, pages.ask, "GET"),
        _client_route(AUTHORIZE, pages.answer, "POST"),
        _client_route(CONFIRM_CLIENT, pages.ask_whose_account, "GET"),
        _client_route(CONFIRM_CLIENT, pages.confirm, "POST"),
        _callback_route(
            _NEXTCLOUD_CALLBACK, callback, keys, problems=CLIENT, around=[Middleware(KeepsOpener)]
        ),
        _client_route(RESULT, result_page(keys), "GET"),
    ]


def by_state(handlers: Mapping[str, Endpoint], *, otherwise: Endpoint) -> Endpoint:
    """Choose the handler of a callback by the prefix of its `state`; the handler verifies the `state`."""

    async def endpoint(request: Request) -> Response:
        state = request.query_params.get("state", "")
        handler = next((one for prefix, one in handlers.items() if state.startswith(prefix)), otherwise)
        return await handler(request)

    return endpoint


def _sign_in_routes(endpoints: EndpointFactory, pages: SignInPages) -> list[Route]:
    return [
        _page_route("/oauth/provision", endpoints.public(pages.ask), "GET", problems=PEOPLE),
        _multi_user_route("/oauth/provision", endpoints.public(pages.begin), "POST"),
        _multi_user_route("/oauth/sign-in", endpoints.public(pages.redirect), "GET"),
        _multi_user_route("/oauth/other-account", endpoints.public(pages.change_person), "POST"),
        _multi_user_route("/account/sign-in", endpoints.public(pages.begin_for_account), "POST"),
    ]


def _consent_routes(endpoints: EndpointFactory, pages: ConsentPages) -> list[Route]:
    first, without_session = pages.sign_in_first, pages.refuse_without_session
    signed_out = pages.answer_signed_out
    return [
        _multi_user_route("/oauth/consent", endpoints.require_session(pages.show, otherwise=first), "GET"),
        _multi_user_route(
            "/oauth/consent", endpoints.require_session(pages.answer, otherwise=signed_out), "POST"
        ),
        _multi_user_route(
            "/oauth/nextcloud", endpoints.require_session(pages.redirect, otherwise=without_session), "GET"
        ),
        _multi_user_route("/oauth/waiting", endpoints.require_session(pages.wait, otherwise=first), "GET"),
        _multi_user_route(
            "/oauth/cancel", endpoints.require_session(pages.cancel, otherwise=signed_out), "POST"
        ),
        _multi_user_route(
            "/oauth/confirm", endpoints.require_session(pages.ask_whose_account, otherwise=first), "GET"
        ),
        _multi_user_route(
            "/oauth/confirm", endpoints.require_session(pages.confirm, otherwise=signed_out), "POST"
        ),
        _multi_user_route("/oauth/not-me", endpoints.require_session(pages.revoked, otherwise=first), "GET"),
        _multi_user_route("/oauth/done", endpoints.require_session(pages.done, otherwise=first), "GET"),
    ]


def _account_routes(endpoints: EndpointFactory, pages: AccountPages) -> list[Route]:
    def route(path: str, handler: PersonHandler) -> Route:
        endpoint = endpoints.require_session(handler, otherwise=pages.answer_signed_out)
        return _page_route(path, endpoint, "POST", problems=ACCOUNT_PROBLEMS)

    endpoint = endpoints.require_session(pages.show, otherwise=pages.ask_to_sign_in)
    return [
        _page_route("/account", endpoint, "GET", problems=ACCOUNT_PROBLEMS),
        route("/account/app", pages.change_client),
        route("/account/sign-out-app", pages.sign_out_client),
        route("/account/end-sign-in", pages.end_sign_in),
        route("/account/disconnect", pages.disconnect),
        route("/account/sign-out", pages.sign_out),
        route("/account/sign-out-everywhere", pages.sign_out_everywhere),
    ]


def _with_the_rest(pages: Sequence[Route]) -> list[BaseRoute]:
    """Add the routes of every mode; the last one matches every other path, so this list comes last."""
    files = [_page_route("/static/{name}", _static, "GET"), Route("/favicon.ico", _icon)]
    known = [*pages, *files, Route("/healthz", healthz)]
    return [*known, _page_route("/{path:path}", _nothing_here(known), *_METHODS)]


def _page_route(
    path: str,
    handler: Endpoint,
    *methods: str,
    problems: Problems = PERSONAL,
    around: Sequence[Middleware] = (),
) -> Route:
    middleware = [*around, Middleware(PageErrors, problems=problems)]
    return Route(path, handler, methods=methods, middleware=middleware)


def _client_route(path: str, handler: Endpoint, *methods: str) -> Route:
    return _multi_user_route(path, handler, *methods, problems=CLIENT, around=[Middleware(KeepsOpener)])


def _callback_route(
    path: str,
    handler: Endpoint,
    keys: Callable[[], Sequence[bytes]],
    *,
    problems: Problems = PEOPLE,
    around: Sequence[Middleware] = (),
) -> Route:
    """Build a route whose every answer leads to a URL without code and state."""
    results = Middleware(CallbackResults, keys=keys)
    return _multi_user_route(path, handler, "GET", problems=problems, around=[*around, results])


def _multi_user_route(
    path: str,
    handler: Endpoint,
    *methods: str,
    problems: Problems = PEOPLE,
    around: Sequence[Middleware] = (),
) -> Route:
    route = _page_route(path, handler, *methods, problems=problems, around=around)
    # Starlette adds HEAD. These pages look up the user, and a callback uses its parameters once.
    (route.methods or set()).discard("HEAD")
    return route


def _home(*, sandbox: bool) -> Endpoint:
    async def home(request: Request) -> Response:
        """Say what runs here and how to connect to it; holds nothing secret."""
        return page(request.headers, "home.html", port=request.url.port, sandbox=sandbox)

    return home


def _multi_user_home(mcp_url: str, *, signs_in_here: bool) -> Endpoint:
    async def home(request: Request) -> Response:
        """Say what runs here and how to connect to it; holds nothing secret."""
        return page(request.headers, "people_home.html", mcp_url=mcp_url, signs_in_here=signs_in_here)

    return home


async def _static(request: Request) -> Response:
    name, content = stylesheet()
    if request.path_params["name"] != name:
        return logo_at(request.url.path) or _not_found(request, Problem("not_found", 404))
    return Response(content, media_type="text/css", headers={"Cache-Control": _A_YEAR})


async def _icon(_: Request) -> Response:
    """Answer the programs that look for the icon at its usual place; pages bring their own."""
    return Response(favicon(), media_type="image/x-icon", headers={"Cache-Control": _A_DAY})


def _nothing_here(known: Sequence[Route]) -> Endpoint:
    methods: dict[str, set[str]] = {}
    for route in known:
        methods.setdefault(route.path, set()).update(route.methods or ())

    async def nothing_here(request: Request) -> Response:
        allowed = methods.get(request.url.path)
        if allowed is None:
            return _not_found(request, Problem("not_found", 404))
        response = _not_found(request, Problem("method", 405))
        response.headers["Allow"] = ", ".join(sorted(allowed))
        return response

    return nothing_here


def _not_found(request: Request, problem: Problem) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        return problem_page(request.headers, problem)
    return JSONResponse({"error": problem.kind}, problem.status)
