"""The sandbox's WebDAV: checks the user, and chooses the handler below /remote.php/dav and /remote.php/webdav."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from nextcloud_mcp_server.sandbox.calendars import CalendarRequest, answer_principal, no_home
from nextcloud_mcp_server.sandbox.contacts import ContactsRequest
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.dav_files import FilesRequest
from nextcloud_mcp_server.sandbox.dav_request import parse_wanted
from nextcloud_mcp_server.sandbox.dav_xml import (
    EMPTY_TYPE,
    FEATURES,
    LEGACY_FEATURES,
    XML_TYPE,
    DavFault,
    conflict,
    escape_href,
    fault_response,
    forbidden,
    multistatus,
    not_found,
    not_implemented,
    streamed_fault,
)
from nextcloud_mcp_server.sandbox.faults import STREAMED_KEY
from nextcloud_mcp_server.sandbox.files import FileMissing, split_path
from nextcloud_mcp_server.sandbox.propfind import (
    Place,
    principal_property,
    stub_properties,
)
from nextcloud_mcp_server.sandbox.search import answer_search
from nextcloud_mcp_server.sandbox.state import User
from nextcloud_mcp_server.sandbox.tags import TagsRequest
from nextcloud_mcp_server.sandbox.transfer import read_body
from nextcloud_mcp_server.sandbox.trash import answer_trash
from nextcloud_mcp_server.sandbox.uploads import UploadRequest
from nextcloud_mcp_server.sandbox.versions import answer_versions

_WELCOME = (
    "This is the WebDAV interface. It can only be accessed by WebDAV clients "
    "such as the Nextcloud desktop sync client."
)
_HEADERS = {"Content-Type": XML_TYPE, "Vary": "Brief,Prefer", "DAV": FEATURES}


def dav_routes(context: Context) -> list[BaseRoute]:
    """Return the routes, relative to the context's base path."""
    modern, legacy = DavEndpoint(context, legacy=False), DavEndpoint(context, legacy=True)
    return [
        Route("/remote.php/dav", modern),
        Route("/remote.php/dav/{path:path}", modern),
        Route("/remote.php/webdav", legacy),
        Route("/remote.php/webdav/{path:path}", legacy),
    ]


class DavEndpoint:
    """The ASGI app behind these routes; unlike a function it gets every method."""

    def __init__(self, context: Context, *, legacy: bool) -> None:
        self._context = context
        self._legacy = legacy
        self._base = f"{context.base_path}/remote.php/dav"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except DavFault as fault:
            streamed: bool = scope.get(STREAMED_KEY, False)
            response = streamed_fault(fault) if streamed else fault_response(fault)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path: str = request.path_params.get("path", "")
        user = self._context.authenticate(request)
        if isinstance(user, Response):
            return user
        if self._legacy:
            place = self._place(user, f"{self._context.base_path}/remote.php/webdav")
            headers = {**_HEADERS, "DAV": LEGACY_FEATURES}
            return await FilesRequest(request, place, path, headers).answer()
        area, *rest = split_path(path) or [""]
        match area:
            case "":
                return await self._answer_root(request, user)
            case "files" if rest:
                return await self._answer_files(request, user, rest)
            case _:
                return await self._answer_area(request, user, area, rest)

    async def _answer_area(self, request: Request, user: User, area: str, rest: Sequence[str]) -> Response:
        match area:
            case "uploads" if rest and rest[0] == user.uid:
                place = self._place(user, f"{self._base}/files/{user.uid}")
                return await UploadRequest(request, user, place, rest[1:], dict(_HEADERS)).answer()
            case "trashbin" | "versions" if rest and self._has(f"files_{area}"):
                if rest[0] != user.uid:
                    raise forbidden("")
                answer = answer_trash if area == "trashbin" else answer_versions
                return await answer(request, user, rest[1:], base=self._base, headers=dict(_HEADERS))
            case "systemtags" | "systemtags-relations" | "comments" if self._has(area.partition("-")[0]):
                tags = TagsRequest(
                    request, user, self._context.state, base=self._base, headers=dict(_HEADERS)
                )
                return await tags.answer(area, rest)
            case _:
                return await self._answer_groupware(request, user, area, rest)

    async def _answer_groupware(
        self, request: Request, user: User, area: str, rest: Sequence[str]
    ) -> Response:
        match area:
            case "calendars" if rest:
                if rest[0] != user.uid:
                    raise no_home(rest[0])
                base = f"{self._base}/calendars"
                return await CalendarRequest(request, self._context.state, user, rest[1:], base).answer()
            case "principals" if rest == ["users", user.uid] and request.method == "PROPFIND":
                return answer_principal(user, parse_wanted(await read_body(request)), base=self._base)
            case "addressbooks" if rest[:2] == ["users", user.uid]:
                base = f"{self._base}/addressbooks/users"
                return await ContactsRequest(request, self._context.state, user, rest[2:], base).answer()
            case _:
                raise not_found(f"File not found: {area} in 'root'")

    async def _answer_root(self, request: Request, user: User) -> Response:
        body = await read_body(request)
        match request.method:
            case "SEARCH":
                try:
                    return answer_search(body, self._place(user, f"{self._base}/files/{user.uid}"))
                except FileMissing as missing:
                    raise not_found(str(missing)) from missing
            case "PROPFIND":
                found = principal_property(
                    self._principal(user), parse_wanted(body), escape_href(f"{self._base}/")
                )
                return multistatus([found], headers=_HEADERS)
            case "GET" | "HEAD":
                return PlainTextResponse(_WELCOME, headers={"Content-Type": EMPTY_TYPE})
            case _:
                raise not_implemented(request.method)

    async def _answer_files(self, request: Request, user: User, rest: Sequence[str]) -> Response:
        uid, *names = rest
        if uid == user.uid:
            place = self._place(user, f"{self._base}/files/{uid}")
            return await FilesRequest(request, place, "/".join(names), dict(_HEADERS)).answer()
        return await self._answer_foreign_files(request, uid, names)

    async def _answer_foreign_files(self, request: Request, uid: str, names: Sequence[str]) -> Response:
        """Answer for the home of another user: it looks like an empty folder."""
        if uid not in self._context.state.users:
            raise not_found(f"Principal with name {uid} not found")
        if names:
            if request.method == "MKCOL" and len(names) > 1:
                raise conflict("Parent node does not exist")
            if request.method in {"PUT", "MKCOL"} and len(names) == 1:
                raise forbidden(f"Permission denied to create file (filename {names[0]})")
            raise not_found(f"File not found: {names[0]} in '{uid}'")
        match request.method:
            case "PROPFIND":
                wanted = parse_wanted(await read_body(request))
                href = escape_href(f"{self._base}/files/{uid}/")
                return multistatus([stub_properties(href, wanted)], headers=_HEADERS)
            case "GET" | "HEAD":
                return PlainTextResponse(_WELCOME, headers={"Content-Type": EMPTY_TYPE})
            case _:
                raise forbidden("")

    def _has(self, app: str) -> bool:
        return app in self._context.apps

    def _place(self, user: User, base: str) -> Place:
        state = self._context.state
        return Place(
            user.files, user.display_name, base, self._principal(user), tags=state.tags, shares=state.shares
        )

    def _principal(self, user: User) -> str:
        return escape_href(f"{self._base}/principals/users/{user.uid}/")
