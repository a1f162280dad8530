"""Talk over OCS: conversations, messages and reactions.

These answers are not recorded: they follow the documentation and code of Talk 22, which `apps/talk/client.py` names.
"""

from collections.abc import Callable

from starlette.responses import Response

from nextcloud_mcp_server.sandbox.apps.talk.store import TalkMessage, TalkRoom, TalkStore
from nextcloud_mcp_server.sandbox.ocs_app import OcsCall
from nextcloud_mcp_server.sandbox.reply import NO_CACHE, OCS_CREATED, OCS_OK, OCS_UNKNOWN, ocs_reply

_NOT_FOUND = 404
_USUAL_LIMIT, _MOST = 100, 200
_LONGEST = 32_000
_EVERYTHING, _REACT = 254, 256
_MOST_SIGNS = 10

_Document = dict[str, object]


class _Refused(Exception):
    """An error of Talk; `error` is its name, if Talk sends one."""

    def __init__(self, code: int, error: str = "") -> None:
        super().__init__(error)
        self.code = code


def answer_talk(call: OcsCall) -> Response:
    """Answer anything below /apps/spreed/api."""
    what, _, rest = call.path.partition("/")
    area, _, rest = rest.partition("/")
    handler = _HANDLERS.get((call.request.method, f"{what}/{area}"))
    if handler is None:
        return ocs_reply(call.request, code=OCS_UNKNOWN)
    try:
        return handler(call, *rest.split("/"))
    except _Refused as refused:
        error = str(refused)
        return ocs_reply(call.request, {"error": error} if error else None, code=refused.code, message="")


def _rooms(call: OcsCall, *_: str) -> Response:
    store = call.context.state.store(TalkStore)
    if not call.number("noStatusUpdate"):
        # Talk requires it of its own apps only; here of every client, so that a missing header shows.
        store.seen_online.add(call.user.uid)
    rooms = [_room(call, room) for room in store.rooms.values() if call.user.uid in room.people]
    return ocs_reply(call.request, rooms)


def _history(call: OcsCall, token: str) -> Response:
    room = _find(call, token)
    if call.number("lookIntoFuture") and call.number("setReadMarker", 1):
        room.read[call.user.uid] = call.number("lastKnownMessageId")
    if not call.number("noStatusUpdate"):
        call.context.state.store(TalkStore).seen_online.add(call.user.uid)
    before = call.number("lastKnownMessageId")
    older = [one for one in reversed(room.messages) if not before or one.id < before]
    page = older[: min(_MOST, call.number("limit", _USUAL_LIMIT))]
    if not page:
        return Response(status_code=304, headers=NO_CACHE)
    headers = {"X-Chat-Last-Given": str(page[-1].id)}
    return ocs_reply(call.request, [_message(call, room, one, nested=True) for one in page], headers=headers)


def _send(call: OcsCall, token: str) -> Response:
    room = _find(call, token, writing=True)
    text, reply_to = call.text("message") or "", call.number("replyTo")
    if not text.strip():
        raise _Refused(400, "message")
    if len(text) > _LONGEST:
        raise _Refused(413, "message")
    parent = room.find(reply_to)
    if reply_to and (parent is None or parent.system):
        raise _Refused(400, "reply-to")
    now = int(call.context.clock().timestamp())
    message = call.context.state.store(TalkStore).say(room, call.user.uid, text, now)
    message.parent = reply_to or None
    message.reference = call.text("referenceId") or ""
    message.silent = call.fields.get("silent") is True
    document = _message(call, room, message, nested=True)
    return ocs_reply(call.request, document, code=OCS_CREATED, message="")


def _react(call: OcsCall, token: str, message_id: str) -> Response:
    room = _find(call, token, writing=True)
    if call.context.profile.react_permission and not _permissions(call, room) & _REACT:
        raise _Refused(403)
    message, emoji = _reacted(room, message_id), call.text("reaction") or ""
    if not emoji or emoji.isascii() or len(emoji) > _MOST_SIGNS or message.system:
        raise _Refused(400)
    people = message.reactions.setdefault(emoji, [])
    code = OCS_OK if call.user.uid in people else OCS_CREATED
    if code == OCS_CREATED:
        people.append(call.user.uid)
    return ocs_reply(call.request, _reactions(call, message), code=code)


def _take_back(call: OcsCall, token: str, message_id: str) -> Response:
    room = _find(call, token, writing=True)
    message, emoji = _reacted(room, message_id), call.text("reaction") or ""
    people = message.reactions.get(emoji, [])
    if call.user.uid not in people:
        raise _Refused(_NOT_FOUND)
    people.remove(call.user.uid)
    message.reactions = {one: who for one, who in message.reactions.items() if who}
    return ocs_reply(call.request, _reactions(call, message))


_HANDLERS: dict[tuple[str, str], Callable[..., Response]] = {
    ("GET", "v4/room"): _rooms,
    ("GET", "v1/chat"): _history,
    ("POST", "v1/chat"): _send,
    ("POST", "v1/reaction"): _react,
    ("DELETE", "v1/reaction"): _take_back,
}


def _find(call: OcsCall, token: str, *, writing: bool = False) -> TalkRoom:
    room = call.context.state.store(TalkStore).rooms.get(token)
    if room is None or call.user.uid not in room.people:
        raise _Refused(_NOT_FOUND)
    if room.lobby and call.user.uid != room.people[0]:
        raise _Refused(412)
    if writing and room.read_only:
        raise _Refused(403)
    return room


def _permissions(call: OcsCall, room: TalkRoom) -> int:
    """Return the permissions of a user in a conversation: all, except those that its moderators removed."""
    if room.permissions is not None:
        return room.permissions
    return _EVERYTHING | _REACT if call.context.profile.react_permission else _EVERYTHING


def _reacted(room: TalkRoom, message_id: str) -> TalkMessage:
    message = room.find(int(message_id))
    if message is None:
        raise _Refused(_NOT_FOUND)
    return message


def _reactions(call: OcsCall, message: TalkMessage) -> object:
    return {
        emoji: [{**_actor(call, uid), "timestamp": int(call.context.clock().timestamp())} for uid in people]
        for emoji, people in message.reactions.items()
    } or []


def _actor(call: OcsCall, uid: str) -> _Document:
    user = call.context.state.users.get(uid)
    return {
        "actorType": "users",
        "actorId": uid,
        "actorDisplayName": uid if user is None else user.display_name,
    }


def _message(call: OcsCall, room: TalkRoom, message: TalkMessage, *, nested: bool = False) -> _Document:
    document: _Document = {
        "id": message.id,
        "token": room.token,
        **_actor(call, message.author),
        "timestamp": message.sent_at,
        "message": message.text,
        "messageParameters": message.parameters,
        "systemMessage": message.system,
        "messageType": "system" if message.system else message.kind,
        "isReplyable": not message.system,
        "referenceId": message.reference,
        "reactions": {emoji: len(people) for emoji, people in message.reactions.items()},
        "expirationTimestamp": 0,
        "markdown": not message.system,
        "threadId": message.id,
    }
    if message.edited_at is not None:
        document |= {"lastEditTimestamp": message.edited_at}
    if not nested:
        return document
    own = [emoji for emoji, people in message.reactions.items() if call.user.uid in people]
    if own:
        document |= {"reactionsSelf": own}
    if message.parent is not None:
        parent = room.find(message.parent)
        gone: _Document = {"id": message.parent, "deleted": True}
        document |= {"parent": gone if parent is None else _message(call, room, parent)}
    return document


def _room(call: OcsCall, room: TalkRoom) -> _Document:
    uid, last = call.user.uid, room.messages[-1] if room.messages else None
    others = [one for one in room.people if one != uid]
    name = room.name or ", ".join(str(_actor(call, one)["actorDisplayName"]) for one in others)
    read = room.read.get(uid, 0)
    return {
        "id": room.id,
        "token": room.token,
        "type": room.kind,
        "name": room.name or others[0],
        "displayName": name,
        "description": "",
        "objectType": "",
        "objectId": "",
        "participantType": 1 if room.people[0] == uid else 3,
        "attendeeId": room.id,
        "attendeePin": None,
        "actorType": "users",
        "actorId": uid,
        "permissions": _permissions(call, room),
        "attendeePermissions": 0,
        "callPermissions": 0,
        "defaultPermissions": 0,
        "participantFlags": 0,
        "readOnly": int(room.read_only),
        "listable": 0,
        "messageExpiration": 0,
        "lastPing": 0,
        "sessionId": "0",
        "hasPassword": False,
        "hasCall": False,
        "callFlag": 0,
        "canStartCall": True,
        "canDeleteConversation": False,
        "canLeaveConversation": True,
        "lastActivity": 0 if last is None else last.sent_at,
        "isFavorite": False,
        "notificationLevel": 2,
        "lobbyState": int(room.lobby),
        "lobbyTimer": 0,
        "sipEnabled": 0,
        "canEnableSIP": False,
        "unreadMessages": sum(one.id > read and one.author != uid for one in room.messages),
        "unreadMention": False,
        "unreadMentionDirect": False,
        "lastReadMessage": read,
        "lastCommonReadMessage": 0,
        "lastMessage": [] if last is None else _message(call, room, last),
        "isArchived": False,
    }
