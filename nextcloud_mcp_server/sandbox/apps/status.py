"""The app for user status over OCS, and the completion of user names.

Answers that are not recorded follow the code that `apps/status/client.py` names.
"""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response

from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.ocs_app import OcsCall
from nextcloud_mcp_server.sandbox.reply import OCS_UNKNOWN, ocs_reply
from nextcloud_mcp_server.sandbox.state import State, User


@dataclass(slots=True)
class UserStatus:
    """Whether a user is there, and the message that they set, until `clear_at`."""

    kind: str = "offline"
    by_user: bool = False
    message: str | None = None
    message_id: str | None = None
    icon: str | None = None
    clear_at: int | None = None


class StatusStore(dict[str, UserStatus]):
    """The status of each user, by uid."""


_KINDS = frozenset({"online", "away", "dnd", "busy", "invisible", "offline"})
_LONGEST = 80
_MOST_SIGNS = 10
_PREDEFINED = {"meeting": ("📅", "In a meeting"), "commuting": ("🚌", "Commuting")}

_Document = dict[str, object]


class _Refused(Exception):
    """An error of Nextcloud."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def answer_status(call: OcsCall) -> Response:
    """Answer anything below /apps/user_status/api/v1."""
    area, _, rest = call.path.partition("/")
    key = (call.request.method, area, "" if area == "statuses" else rest)
    handler = _HANDLERS.get(key)
    if handler is None:
        return ocs_reply(call.request, code=OCS_UNKNOWN)
    try:
        return ocs_reply(call.request, handler(call, rest))
    except _Refused as refused:
        return ocs_reply(call.request, code=refused.code, message=str(refused))


def answer_names(call: OcsCall) -> Response:
    """Complete a name, of users only: no other kind is requested."""
    term = (call.text("search") or "").casefold()
    found = [
        {
            "id": user.uid,
            "label": user.display_name,
            "icon": "icon-user",
            "source": "users",
            "status": "",
            "subline": "",
            "shareWithDisplayNameUnique": user.email,
        }
        for user in call.context.state.users.values()
        if user is not call.user and term in f"{user.uid}\n{user.display_name}\n{user.email}".casefold()
    ]
    return ocs_reply(call.request, found[: call.number("limit", 10)])


def _own(call: OcsCall, _: str) -> _Document:
    return _private(call, _current(call, call.user.uid, "No status for the current user"))


def _other(call: OcsCall, uid: str) -> _Document | list[_Document]:
    if not uid:
        return [_public(one, _current(call, one, "")) for one in call.context.state.store(StatusStore)]
    return _public(uid, _current(call, uid, "No status for the requested userId"))


def _set_kind(call: OcsCall, _: str) -> _Document:
    kind = call.text("statusType") or ""
    if kind not in _KINDS:
        raise _Refused(400, f'Status-type "{kind}" is not supported')
    status = _made(call)
    status.kind, status.by_user = kind, True
    return _private(call, status)


def _set_message(call: OcsCall, _: str) -> _Document:
    message, icon, ends = call.text("message") or None, call.text("statusIcon") or None, _ends(call)
    # One emoji may be several signs that are joined; the sandbox takes any few.
    if icon is not None and (icon.isascii() or len(icon) > _MOST_SIGNS):
        raise _Refused(400, "Status-Icon is longer than one character")
    if message is not None and len(message) > _LONGEST:
        raise _Refused(400, f"Message is longer than supported length of {_LONGEST} characters")
    status = _made(call)
    status.message_id, status.message, status.icon, status.clear_at = None, message, icon, ends
    return _private(call, status)


def _set_predefined(call: OcsCall, _: str) -> _Document:
    message_id, ends = call.text("messageId") or "", _ends(call)
    if message_id not in _PREDEFINED:
        raise _Refused(400, f'Message-Id "{message_id}" is not supported')
    status = _made(call)
    status.message_id, status.message, status.icon, status.clear_at = message_id, None, None, ends
    return _private(call, status)


_HANDLERS: dict[tuple[str, str, str], Callable[[OcsCall, str], object]] = {
    ("GET", "user_status", ""): _own,
    ("PUT", "user_status", "status"): _set_kind,
    ("PUT", "user_status", "message/custom"): _set_message,
    ("PUT", "user_status", "message/predefined"): _set_predefined,
    ("GET", "statuses", ""): _other,
}


def _ends(call: OcsCall) -> int | None:
    ends = call.number("clearAt")
    if ends and ends < call.context.clock().timestamp():
        raise _Refused(400, "ClearAt is in the past")
    return ends or None


def _made(call: OcsCall) -> UserStatus:
    return call.context.state.store(StatusStore).setdefault(call.user.uid, UserStatus())


def _current(call: OcsCall, uid: str, none: str) -> UserStatus:
    """Return a status; an ended one is removed when it is read."""
    status = call.context.state.store(StatusStore).get(uid)
    if status is None:
        raise _Refused(404, none)
    if status.clear_at is not None and status.clear_at < call.context.clock().timestamp():
        call.context.state.store(StatusStore)[uid] = status = UserStatus()
    return status


def _said(status: UserStatus) -> _Document:
    icon, message = _PREDEFINED.get(status.message_id or "", (None, None))
    return {"message": status.message or message, "icon": status.icon or icon, "clearAt": status.clear_at}


def _private(call: OcsCall, status: UserStatus) -> _Document:
    return {
        "userId": call.user.uid,
        **_said(status),
        "messageId": status.message_id,
        "messageIsPredefined": status.message_id is not None,
        "status": status.kind,
        "statusIsUserDefined": status.by_user,
    }


def _public(uid: str, status: UserStatus) -> _Document:
    kind = "offline" if status.kind == "invisible" else status.kind
    return {"userId": uid, **_said(status), "status": kind}


def _set_status(state: State) -> None:
    """Let bob say where he is."""
    state.store(StatusStore)["bob"] = UserStatus("busy", by_user=True, message="At the new office", icon="📦")


def _capability(_context: Context, _user: User) -> dict[str, object]:
    return {"enabled": True, "restore": True, "supports_emoji": True, "supports_busy": True}


app = SandboxApp(
    "user_status",
    ocs={"apps/user_status/api/v1": answer_status, "core/autocomplete/get": answer_names},
    capability=_capability,
    seed=_set_status,
)
