"""Shares over OCS: list, create, change and delete them, and find users to share with."""

import re
from collections.abc import Callable, Iterable
from datetime import date

from starlette.responses import Response

from nextcloud_mcp_server.sandbox.node import Node
from nextcloud_mcp_server.sandbox.ocs_app import OcsCall
from nextcloud_mcp_server.sandbox.reply import OCS_UNKNOWN, ocs_reply
from nextcloud_mcp_server.sandbox.state import Share, User, random_text

_USER, _GROUP, _LINK = 0, 1, 3
_SHARE_BIT = 16
_FILE_PERMISSIONS, _FOLDER_PERMISSIONS = 19, 31
_SHORTEST_PASSWORD = 10
_NO_SUCH = "Wrong share ID, share does not exist"
_WEAK = (
    "Password is among the 1,000,000 most common ones. Please make it unique. "
    "Password needs to be at least 10 characters long."
)

_Document = dict[str, object]


class _Refused(Exception):
    """An error of Nextcloud."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def answer_shares(call: OcsCall) -> Response:
    """Answer anything below /apps/files_sharing/api/v1."""
    area, _, share_id = call.path.partition("/")
    handler = _HANDLERS.get((call.request.method, area, bool(share_id)))
    if handler is None:
        return ocs_reply(call.request, code=OCS_UNKNOWN)
    try:
        return ocs_reply(call.request, handler(call, share_id))
    except _Refused as refused:
        return ocs_reply(call.request, code=refused.code, message=str(refused))


def _list(call: OcsCall, _: str) -> list[_Document]:
    path, state = call.text("path"), call.context.state
    node = None if path is None else _node(call, path)
    if call.text("shared_with_me") == "true":
        found = [one for one in state.shares if _is_receiver(call.user, one)]
        return [_received(call, one) for one in found]
    below = set(node.children.values()) if node is not None and call.text("subfiles") == "true" else None
    return [
        _described(call, one)
        for one in state.shares
        if one.owner == call.user.uid
        and (node is None or (one.node in below if below is not None else one.node is node))
    ]


def _get(call: OcsCall, share_id: str) -> list[_Document]:
    share = _share(call, share_id)
    return [_described(call, share) if share.owner == call.user.uid else _received(call, share)]


def _create(call: OcsCall, _: str) -> _Document:
    path = call.text("path")
    if path is None:
        raise _Refused(404, "Please specify a file or folder path")
    node, kind, receiver = _node(call, path), call.number("shareType", -1), call.text("shareWith")
    if kind not in (_USER, _GROUP, _LINK):
        raise _Refused(400, "Unknown share type")
    if kind == _USER and receiver == call.user.uid:
        raise _Refused(403, "Cannot share with yourself")
    if kind == _USER and receiver not in call.context.state.users:
        raise _Refused(404, "Please specify a valid account to share with")
    if kind == _GROUP and receiver not in _groups(call):
        raise _Refused(404, "Please specify a valid group")
    state = call.context.state
    for share in state.shares:
        if kind != _LINK and (share.node, share.kind, share.receiver) == (node, kind, receiver):
            return _described(call, share)
    usual = _FOLDER_PERMISSIONS if node.is_folder else _FILE_PERMISSIONS
    share = Share(
        id=state.next_share_id(),
        kind=kind,
        owner=call.user.uid,
        node=node,
        receiver=None if kind == _LINK else receiver,
        permissions=_with_share_bit(call.number("permissions", 1))
        if kind == _LINK
        else call.number("permissions", usual),
        shared_at=int(call.context.clock().timestamp()),
        token=random_text(15) if kind == _LINK else None,
        note=call.text("note") or "",
        label=call.text("label") or "",
        expires=_day(call),
        password=_password(call),
    )
    state.shares.append(share)
    return _described(call, share) | {"mail_send": 1}


def _update(call: OcsCall, share_id: str) -> _Document:
    share = _share(call, share_id)
    if share.owner != call.user.uid:
        raise _Refused(404, _NO_SUCH)
    if not {"permissions", "expireDate", "password", "note", "label"} & call.fields.keys():
        raise _Refused(400, "Wrong or no update parameter given")
    expires = _day(call) if "expireDate" in call.fields else share.expires
    share.password = _password(call) if "password" in call.fields else share.password
    share.expires = expires
    share.permissions = call.number("permissions", share.permissions)
    if share.kind == _LINK:
        share.permissions = _with_share_bit(share.permissions)
    share.note = share.note if call.text("note") is None else call.text("note") or ""
    share.label = share.label if call.text("label") is None else call.text("label") or ""
    return _described(call, share)


def _delete(call: OcsCall, share_id: str) -> None:
    share = _share(call, share_id)
    if share.owner == call.user.uid or share.kind == _USER:
        call.context.state.shares.remove(share)
    else:
        share.left_by.add(call.user.uid)


def _sharees(call: OcsCall, _: str) -> _Document:
    term = (call.text("search") or "").casefold()
    others = [user for user in call.context.state.users.values() if user is not call.user]
    people = [(_sharee(_USER, user.uid, user.display_name, user.email), user) for user in others]
    exact = [
        found
        for found, user in people
        if term in (user.uid.casefold(), user.display_name.casefold(), user.email.casefold())
    ]
    alike = [
        found
        for found, user in people
        if found not in exact and term in f"{user.uid}\n{user.display_name}".casefold()
    ]
    groups = [_sharee(_GROUP, name, name) for name in sorted(_groups(call)) if term in name.casefold()]
    same = [group for group in groups if group["label"] == term]
    nothing: _Document = {"remotes": [], "remote_groups": [], "emails": [], "circles": [], "rooms": []}
    return {
        "exact": {"users": exact, "groups": same, **nothing},
        "users": alike,
        "groups": [group for group in groups if group not in same],
        **nothing,
        "lookup": [],
        "lookupEnabled": False,
    }


_HANDLERS: dict[tuple[str, str, bool], Callable[[OcsCall, str], object]] = {
    ("GET", "shares", False): _list,
    ("GET", "shares", True): _get,
    ("POST", "shares", False): _create,
    ("PUT", "shares", True): _update,
    ("DELETE", "shares", True): _delete,
    ("GET", "sharees", False): _sharees,
}


def _sharee(kind: int, receiver: str, label: str, unique: str = "") -> _Document:
    value: _Document = {"label": label, "value": {"shareType": kind, "shareWith": receiver}}
    if kind == _USER:
        value |= {"subline": "", "icon": "icon-user", "shareWithDisplayNameUnique": unique, "status": []}
    return value


def _with_share_bit(permissions: int) -> int:
    """Add the share permission to links that can be read."""
    return permissions | _SHARE_BIT if permissions & 1 else permissions & ~_SHARE_BIT


def _groups(call: OcsCall) -> set[str]:
    return {group for user in call.context.state.users.values() for group in user.groups}


def _node(call: OcsCall, path: str) -> Node:
    node = call.user.files.find(path)
    if node is None:
        raise _Refused(404, "Wrong path, file/folder does not exist")
    return node


def _share(call: OcsCall, share_id: str) -> Share:
    for share in call.context.state.shares:
        if str(share.id) == share_id and (share.owner == call.user.uid or _is_receiver(call.user, share)):
            return share
    raise _Refused(404, _NO_SUCH)


def _is_receiver(user: User, share: Share) -> bool:
    if user.uid == share.owner or user.uid in share.left_by:
        return False
    receivers: Iterable[str] = (
        (user.uid,) if share.kind == _USER else user.groups if share.kind == _GROUP else ()
    )
    return share.receiver in receivers


def _day(call: OcsCall) -> date | None:
    text = call.text("expireDate")
    if not text:
        return None
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) is None:
        raise _Refused(404, "Invalid date. Format must be YYYY-MM-DD")
    day = date.fromisoformat(text)
    if day <= call.context.clock().date():
        raise _Refused(404, "Expiration date is in the past")
    return day


def _password(call: OcsCall) -> str | None:
    password = call.text("password") or None
    if password is not None and len(password) < _SHORTEST_PASSWORD:
        raise _Refused(400, _WEAK)
    return password


def _described(call: OcsCall, share: Share) -> _Document:
    """Return a share as its owner sees it."""
    node, owner = share.node, call.context.state.users[share.owner]
    document: _Document = {
        "id": str(share.id),
        "share_type": share.kind,
        "uid_owner": owner.uid,
        "displayname_owner": owner.display_name,
        "permissions": share.permissions,
        "can_edit": True,
        "can_delete": True,
        "stime": share.shared_at,
        "parent": None,
        "expiration": None if share.expires is None else f"{share.expires} 00:00:00",
        "token": share.token,
        "uid_file_owner": owner.uid,
        "note": share.note,
        "label": share.label,
        "displayname_file_owner": owner.display_name,
        "path": node.path,
        "item_type": "folder" if node.is_folder else "file",
        "item_permissions": 31 if node.is_folder else 27,
        "is-mount-root": False,
        "mount-type": "",
        "mimetype": "httpd/unix-directory" if node.is_folder else node.mime,
        "has_preview": node.mime.startswith(("text/", "image/")) and not node.is_folder,
        "storage_id": f"home::{owner.uid}",
        "storage": 1,
        "item_source": node.file_id,
        "file_source": node.file_id,
        "file_parent": node.parent.file_id if node.parent is not None else 0,
        "file_target": f"/{node.name}",
        "item_size": node.size,
        "item_mtime": node.modified_at,
    }
    return document | _to_whom(call, share) | {"mail_send": 0, "hide_download": 0, "attributes": None}


def _to_whom(call: OcsCall, share: Share) -> _Document:
    if share.kind == _LINK:
        base = f"{call.context.origin(call.request)}{call.context.base_path}"
        return {
            "share_with": share.password,
            "share_with_displayname": "(Shared link)",
            "password": share.password,
            "send_password_by_talk": False,
            "url": f"{base}/s/{share.token}",
        }
    if share.kind == _GROUP:
        return {"share_with": share.receiver, "share_with_displayname": share.receiver}
    user = call.context.state.users[share.receiver or ""]
    return {
        "share_with": user.uid,
        "share_with_displayname": user.display_name,
        "share_with_displayname_unique": user.email,
    }


def _received(call: OcsCall, share: Share) -> _Document:
    """Return a share as its recipient sees it: mounted at the top of their files."""
    target = f"/{share.node.name}"
    return _described(call, share) | {
        "can_edit": False,
        "can_delete": share.kind == _USER,
        "path": target,
        "item_permissions": share.permissions | 8,
        "is-mount-root": True,
        "mount-type": "shared",
        "storage_id": f"shared::{target}",
    }
