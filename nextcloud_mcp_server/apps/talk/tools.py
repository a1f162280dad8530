"""Tools for Talk: read conversations without side effects, and send messages."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from nextcloud_mcp_server.apps.talk.client import Message, Room, TalkClient
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.ids import Id, number
from nextcloud_mcp_server.nextcloud.sanitize import sent_bytes
from nextcloud_mcp_server.nextcloud.spelling import folded
from nextcloud_mcp_server.nextcloud.top_k import Position
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.file_results import shown_as
from nextcloud_mcp_server.tools.result import LongText, Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

talk = Toolset("talk")

_KINDS: Final = {
    1: "one-to-one",
    2: "group",
    3: "public",
    4: "changelog",
    5: "former one-to-one",
    6: "note to self",
}
_DELETED: Final = "comment_deleted"
#: A message may have 32,000 characters, some of which are escaped with eight or nine. It is sent twice in a result,
#: which may have 80,000 bytes.
_MAX_JSON_BYTES: Final = 30_000
_CUT_CHARACTERS: Final = 4_000
_SNIPPET_CHARACTERS: Final = 160

Conversation = Annotated[str, Field(description="As nc_talk_list_conversations names it.")]


class ConversationRow(Result):
    """A conversation; `read_only` is set where the person can't write."""

    conversation: str
    name: str
    kind: str
    description: LongText | None = None
    unread: int | None = None
    mentioned: bool | None = None
    last_activity: datetime
    last_message: LongText | None = None
    favorite: bool | None = None
    archived: bool | None = None
    call: bool | None = None
    read_only: bool | None = None
    shown_as: str | None = None

    @classmethod
    def of(cls, room: Room) -> "ConversationRow":
        """Build from a conversation."""
        return cls(
            conversation=room.token,
            name=room.name,
            kind=_KINDS.get(room.type, "other"),
            description=_snippet(room.description) or None,
            unread=room.unread or None,
            mentioned=room.mentioned or None,
            last_activity=timestamp.moment(room.last_activity),
            last_message=None if room.last_message is None else _last(room.last_message),
            favorite=room.favourite or None,
            archived=room.archived or None,
            call=room.in_call or None,
            read_only=room.read_only or None,
            shown_as=shown_as(room.name),
        )


class ConversationPage(Result):
    """A page of conversations, the ones with the latest messages first; go on with `cursor`."""

    items: list[ConversationRow]
    total: int
    cursor: str | None = None


class Answered(Result):
    """The message that another one answers."""

    id: Id
    text: LongText


class MessageRow(Result):
    """A message; `system` names what happened where no one wrote it, `files` are paths to read."""

    id: Id
    author: str
    sent: datetime
    text: LongText
    truncated: bool | None = None
    system: str | None = None
    deleted: bool | None = None
    edited: datetime | None = None
    answers: Answered | None = None
    files: list[str] | None = None
    reactions: dict[str, int] | None = None
    own_reactions: list[str] | None = None

    @classmethod
    def of(cls, message: Message) -> "MessageRow":
        """Build from a message."""
        text, truncated = _fitting(message.text)
        files = [one.path for one in message.parameters.values() if one.type == "file" and one.path]
        parent = message.parent
        return cls(
            id=message.id,
            author=message.author or message.author_id,
            sent=timestamp.moment(message.sent_at),
            text=text,
            truncated=truncated or None,
            system=message.system or None,
            deleted=message.kind == _DELETED or None,
            edited=None if message.edited_at is None else timestamp.moment(message.edited_at),
            answers=None if parent is None else Answered(id=parent.id, text=_snippet(parent.text)),
            files=files or None,
            reactions=message.reactions or None,
            own_reactions=message.own_reactions or None,
        )


class MessagePage(Result):
    """A page of messages, the newest first; older ones with `cursor`."""

    items: list[MessageRow]
    cursor: str | None = None


class MessageSent(Result):
    """A message that was sent; `id` is missing where Talk shows it to no one."""

    conversation: str
    id: Id | None = None
    sent: datetime | None = None


class Reactions(Result):
    """How many there are of each reaction to a message."""

    id: Id
    reactions: dict[str, int]


@talk.tool("List conversations", read_only=True)
@require_provisioning("talk:read")
async def nc_talk_list_conversations(
    nc: Account,
    *,
    query: Annotated[str, Field(description="Words of the name.")] = "",
    unread: Annotated[bool, Field(description="Only those with unread messages.")] = False,
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> ConversationPage:
    """List the person's conversations in Talk, the latest first; nothing is marked as read."""
    start = pagination.start(cursor, "rooms", query, unread)
    words = folded(query).split()
    found = [
        room
        for room in sorted(
            await nc.client(TalkClient).rooms(), key=lambda room: (-room.last_activity, room.token)
        )
        if (room.unread or not unread) and all(word in folded(room.name) for word in words)
    ]
    rows = pagination.fit([ConversationRow.of(room) for room in found[start : start + limit]])
    following = pagination.following(start + len(rows), len(found), "rooms", query, unread)
    return ConversationPage(items=rows, total=len(found), cursor=following)


@talk.tool("Read messages", read_only=True)
@require_provisioning("talk:read")
async def nc_talk_list_messages(
    nc: Account,
    conversation: Conversation,
    *,
    limit: Annotated[int, Field(ge=1, le=100)] = 50,
    cursor: str | None = None,
) -> MessagePage:
    """Read what was said in a conversation, the newest first; nothing is marked as read."""
    after = pagination.unseal(cursor, "messages", conversation)
    history = await nc.client(TalkClient).history(
        conversation, limit=limit, before=None if after is None else after.number
    )
    rows = pagination.fit([MessageRow.of(message) for message in history.messages])
    before = number(rows[-1].id) if len(rows) < len(history.messages) else history.before
    following = None if before is None else pagination.seal(Position.of(before, ""), "messages", conversation)
    return MessagePage(items=rows, cursor=following)


@talk.tool("Send a message")
@require_provisioning("talk:write")
async def nc_talk_send_message(
    nc: Account,
    conversation: Conversation,
    message: Annotated[
        str, Field(min_length=1, max_length=32_000, description='Markdown; @"account" mentions a person.')
    ],
    *,
    reply_to: Annotated[Id | None, Field(description="Id of the message it answers.")] = None,
    silent: Annotated[bool, Field(description="Send no notifications.")] = False,
) -> MessageSent:
    """Say something in a conversation, in the person's name; it cannot be taken back with these tools."""
    if not message.strip():
        raise InvalidInput("'message' holds nothing but spaces.")
    sent = await nc.client(TalkClient).send(conversation, message, reply_to=reply_to, silent=silent)
    if sent is None:
        return MessageSent(conversation=conversation)
    return MessageSent(conversation=conversation, id=sent.id, sent=timestamp.moment(sent.sent_at))


@talk.tool("React to a message", repeatable=True)
@require_provisioning("talk:write")
async def nc_talk_set_reaction(
    nc: Account,
    conversation: Conversation,
    message_id: Id,
    emoji: Annotated[str, Field(min_length=1, max_length=20)],
    *,
    remove: bool = False,
) -> Reactions:
    """React to a message with an emoji in the person's name, or take that back with remove."""
    reactions = await nc.client(TalkClient).react(conversation, message_id, emoji, remove=remove)
    return Reactions(id=message_id, reactions=reactions)


def _last(message: Message) -> str:
    text = _snippet(message.text)
    author = message.author or message.author_id
    return text if message.system or not author else f"{author}: {text}"


def _snippet(text: str) -> str:
    line = " ".join(text.split())
    return f"{line[:_SNIPPET_CHARACTERS]}…" if len(line) > _SNIPPET_CHARACTERS else line


def _fitting(text: str) -> tuple[str, bool]:
    if sent_bytes(text) <= _MAX_JSON_BYTES:
        return text, False
    return text[:_CUT_CHARACTERS], True
