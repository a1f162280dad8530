"""The OCS endpoints: the user's own account, capabilities and app passwords."""

import hashlib
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.capability import capabilities_document, status_document
from nextcloud_mcp_server.sandbox.catalogue import APPS
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.identity import Gate, Identity, Refusal, address_of, refuse_ocs
from nextcloud_mcp_server.sandbox.menu import menu_document
from nextcloud_mcp_server.sandbox.ocs_app import OcsApp, OcsCall, read_fields
from nextcloud_mcp_server.sandbox.reply import NO_CACHE, OCS_UNKNOWN, json_reply, ocs_reply, php_json
from nextcloud_mcp_server.sandbox.shares import answer_shares
from nextcloud_mcp_server.sandbox.state import User
from nextcloud_mcp_server.sandbox.throttle import Throttle
from nextcloud_mcp_server.sandbox.unified_search import answer_search

#: The apps by what their addresses begin with.
_APPS: dict[str, OcsApp] = {
    "search/providers": answer_search,
    "apps/files_sharing/api/v1": answer_shares,
    **{address: answer for app in APPS for address, answer in app.ocs.items()},
}

Handler = Callable[[Request, Identity], Response]

_UNKNOWN_ROUTE = (
    "Invalid query, please check the syntax. API specifications are here: "
    "http://www.freedesktop.org/wiki/Specifications/open-collaboration-services.\n"
)
_EVERY_METHOD = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_UNLIMITED = -3
# Profile fields that are empty for all users, with their visibility.
_EMPTY_PROFILE = {
    "phone": "v2-local",
    "address": "v2-local",
    "website": "v2-local",
    "twitter": "v2-local",
    "bluesky": "v2-local",
    "fediverse": "v2-local",
    "organisation": "v2-local",
    "role": "v2-local",
    "headline": "v2-local",
    "biography": "v2-local",
}


class OcsApi:
    """Answers below /ocs/v1.php and /ocs/v2.php, and status.php."""

    def __init__(self, context: Context, gate: Gate, throttle: Throttle) -> None:
        self._context = context
        self._gate = gate
        self._throttle = throttle
        self._handlers: dict[tuple[str, str], Handler] = {
            ("GET", "cloud/user"): self._user,
            ("GET", "core/navigation/apps"): self._menu,
            ("GET", "core/getapppassword"): self._make_app_password,
            ("DELETE", "core/apppassword"): self._delete_app_password,
            ("POST", "core/apppassword/rotate"): self._rotate_app_password,
        }

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/ocs/v{version:int}.php/{path:path}", self._answer, methods=_EVERY_METHOD),
            Route("/status.php", self._status),
        ]

    async def _status(self, request: Request) -> Response:
        del request
        return Response(
            json_reply(status_document(self._context)).body,
            media_type="application/json",
            headers={"Access-Control-Allow-Origin": "*"},
        )

    async def _answer(self, request: Request) -> Response:
        path = request.path_params["path"].strip("/")
        handler = self._handlers.get((request.method, path))
        app = next((app for app in _APPS if f"{path}/".startswith(f"{app}/")), None)
        found = self._gate.identify(request, "ocs")
        public = (request.method, path) == ("GET", "cloud/capabilities")
        if isinstance(found, Refusal) and not (public and found is Refusal.ANONYMOUS):
            return refuse_ocs(request, found)
        if "OCS-APIRequest" not in request.headers:
            response = json_reply({"message": "CSRF check failed"}, status=412)
        elif public:
            response = self._capabilities(request, None if isinstance(found, Refusal) else found.user)
        elif isinstance(found, Identity) and app is not None:
            rest = path.removeprefix(app).strip("/")
            call = OcsCall(request, self._context, found.user, rest, await read_fields(request))
            response = _APPS[app](call)
        elif handler is None or isinstance(found, Refusal):
            response = ocs_reply(request, code=OCS_UNKNOWN, message=_UNKNOWN_ROUTE)
        else:
            response = handler(request, found)
        if isinstance(found, Identity):
            response.headers["X-User-Id"] = found.user.uid
        return response

    def _capabilities(self, request: Request, user: User | None) -> Response:
        delay_ms = self._throttle.delay_ms(address_of(request))
        return _if_new(request, capabilities_document(self._context, request, user=user, delay_ms=delay_ms))

    def _menu(self, request: Request, identity: Identity) -> Response:
        return _if_new(request, menu_document(self._context, identity.user))

    def _user(self, request: Request, identity: Identity) -> Response:
        return ocs_reply(request, user_document(identity.user, int(self._context.clock().timestamp())))

    def _make_app_password(self, request: Request, identity: Identity) -> Response:
        if identity.app_password is not None:
            message = "You cannot request an new apppassword with an apppassword"
            return ocs_reply(request, code=403, message=message)
        name = request.headers.get("User-Agent", "unknown")
        made = self._context.state.new_app_password(identity.user, name=name)
        return ocs_reply(request, {"apppassword": made.secret})

    def _delete_app_password(self, request: Request, identity: Identity) -> Response:
        if identity.app_password is None:
            return ocs_reply(request, code=403, message="no app password in use")
        self._context.state.remove_app_password(identity.app_password)
        return ocs_reply(request)

    def _rotate_app_password(self, request: Request, identity: Identity) -> Response:
        old = identity.app_password
        if old is None:
            return ocs_reply(request, code=403, message="no app password in use")
        del self._context.state.app_passwords[old.secret]
        made = self._context.state.new_app_password(identity.user, login_name=old.login_name, name=old.name)
        return ocs_reply(request, {"apppassword": made.secret})


def _if_new(request: Request, document: object) -> Response:
    """Answer with an etag, and 304 to a request that sends this etag."""
    etag = f'"{hashlib.md5(php_json(document).encode(), usedforsecurity=False).hexdigest()}"'
    if request.headers.get("If-None-Match") == etag:
        return Response(status_code=304, headers={**NO_CACHE, "ETag": etag})
    return ocs_reply(request, document, headers={"ETag": etag})


def user_document(user: User, now: int) -> dict[str, object]:
    """Return the document of cloud/user."""
    used = user.files.used_bytes
    total = _UNLIMITED if user.quota_bytes is None else user.quota_bytes
    free = _UNLIMITED if user.quota_bytes is None else max(0, user.quota_bytes - used)
    relative = 0 if not user.quota_bytes else round(100 * used / user.quota_bytes, 2)
    profile: dict[str, object] = {}
    for name, scope in _EMPTY_PROFILE.items():
        profile |= {name: "", f"{name}Scope": scope}
    return {
        "enabled": user.enabled,
        "id": user.uid,
        "firstLoginTimestamp": now,
        "lastLoginTimestamp": now,
        "lastLogin": now * 1000,
        "backend": "Database",
        "subadmin": [],
        "quota": {"free": free, "used": used, "total": total, "relative": relative, "quota": total},
        "manager": "",
        "avatarScope": "v2-federated",
        "email": user.email or None,
        "emailScope": "v2-federated",
        "additional_mail": [],
        "additional_mailScope": [],
        "displayname": user.display_name,
        "display-name": user.display_name,
        "displaynameScope": "v2-federated",
        **profile,
        "profile_enabled": "1",
        "profile_enabledScope": "v2-local",
        "pronouns": "",
        "pronounsScope": "v2-federated",
        "groups": list(user.groups),
        "language": "en",
        "locale": "",
        "timezone": user.timezone,
        "notify_email": None,
        "backendCapabilities": {"setDisplayName": True, "setPassword": True},
    }
