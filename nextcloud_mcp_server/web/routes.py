"""Every page and plain HTTP route, as one list."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.web.health import healthz
from nextcloud_mcp_server.web.middleware import PageErrors
from nextcloud_mcp_server.web.pages import page, stylesheet
from nextcloud_mcp_server.web.problem import Problem, problem_page
from nextcloud_mcp_server.web.provision import Consent, ConsentPages

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_A_YEAR = "public, max-age=31536000, immutable"


def routes(
    consent: Callable[[], Awaitable[Consent]],
    *,
    csrf_keys: Callable[[], Sequence[bytes]],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    sandbox: bool = False,
) -> list[BaseRoute]:
    """List the routes; the last one catches every other path, so this list goes after all else.

    `consent` is asked at the first page, and `csrf_keys` after it; `sandbox` says that the server
    works on the built-in Nextcloud, which the command that connects a client must be told.
    """
    pages = ConsentPages(consent, csrf_keys=csrf_keys, clock=clock)
    known = [
        _page_route("/", _home(sandbox=sandbox), "GET"),
        _page_route("/oauth/provision", pages.show, "GET"),
        _page_route("/oauth/provision", pages.answer, "POST"),
        _page_route("/oauth/waiting", pages.wait, "GET"),
        _page_route("/oauth/cancel", pages.cancel, "POST"),
        _page_route("/static/{name}", _static, "GET"),
        Route("/healthz", healthz),
    ]
    return [*known, _page_route("/{path:path}", _nothing_here(known), *_METHODS)]


def _page_route(path: str, handler: Callable[[Request], Awaitable[Response]], *methods: str) -> Route:
    return Route(path, handler, methods=methods, middleware=[Middleware(PageErrors)])


def _home(*, sandbox: bool) -> Callable[[Request], Awaitable[Response]]:
    async def home(request: Request) -> Response:
        """Say what runs here and how to connect to it; holds nothing secret."""
        return page(request.headers, "home.html", port=request.url.port, sandbox=sandbox)

    return home


async def _static(request: Request) -> Response:
    name, content = stylesheet()
    if request.path_params["name"] != name:
        return _not_found(request, Problem("not_found", 404))
    return Response(content, media_type="text/css", headers={"Cache-Control": _A_YEAR})


def _nothing_here(known: Sequence[Route]) -> Callable[[Request], Awaitable[Response]]:
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
