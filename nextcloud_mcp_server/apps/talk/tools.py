"""Tools for Talk: read conversations without side effects, and send messages."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from nextcloud_mcp_server.apps.talk.client import Conversation, Message, TalkClient, snippet
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.aside import sorted_aside
from nextcloud_mcp_server.nextcloud.ids import Id, number
from nextcloud_mcp_server.nextcloud.named import having_words
from nextcloud_mcp_server.nextcloud.sanitize import sent_bytes
from nextcloud_mcp_server.nextcloud.top_k import Position
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.result import OMIT_EMPTY, Flag, LongText, Result, Text
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

talk = Toolset("talk")

_DELETED: Final = "comment_deleted"
#: A message may have 32,000 characters, some of which are escaped with eight or nine. It is sent twice in a result,
#: which may have 80,000 bytes.
_MAX_JSON_BYTES: Final = 30_000
_CUT_CHARACTERS: Final = 4_000

Token = Annotated[str, Field(description="As nc_talk_list_conversations names it.")]


class ConversationPage(Result):
    """A page of conversations, the ones with the latest messages first; go on with `cursor`."""

    items: list[Conversation]
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
    truncated: Flag = None
    system: Text = None
    deleted: Flag = None
    edited: datetime | None = None
    answers: Answered | None = None
    files: Annotated[list[str] | None, OMIT_EMPTY] = None
    reactions: Annotated[dict[str, int] | None, OMIT_EMPTY] = None
    own_reactions: Annotated[list[str] | None, OMIT_EMPTY] = None

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
            truncated=truncated,
            system=message.system,
            deleted=message.kind == _DELETED,
            edited=None if message.edited_at is None else timestamp.moment(message.edited_at),
            answers=None if parent is None else Answered(id=parent.id, text=snippet(parent.text)),
            files=files,
            reactions=message.reactions,
            own_reactions=message.own_reactions,
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
    listing = pagination.Listing(cursor, "rooms", query, unread)
    rooms = await nc.client(TalkClient).rooms()
    rooms = await sorted_aside(
        rooms, lambda room: (-room.last_activity.timestamp(), room.conversation), uid=nc.uid
    )
    shown = [room for room in rooms if room.unread or not unread]
    found = await having_words(query, shown, lambda room: (room.name,), uid=nc.uid)
    rows, cursor = listing.page(found, limit)
    return ConversationPage(items=rows, total=len(found), cursor=cursor)


@talk.tool("Read messages", read_only=True)
@require_provisioning("talk:read")
async def nc_talk_list_messages(
    nc: Account,
    conversation: Token,
    *,
    limit: Annotated[int, Field(ge=1, le=100)] = 50,
    cursor: str | None = None,
) -> MessagePage:
    """Read what was said in a conversation, the newest first; nothing is marked as read."""
    after = pagination.unseal(cursor, "messages", conversation, least=0)
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
    conversation: Token,
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
    conversation: Token,
    message_id: Id,
    emoji: Annotated[str, Field(min_length=1, max_length=20)],
    *,
    remove: bool = False,
) -> Reactions:
    """React to a message with an emoji in the person's name, or take that back with remove."""
    reactions = await nc.client(TalkClient).react(conversation, message_id, emoji, remove=remove)
    return Reactions(id=message_id, reactions=reactions)


def _fitting(text: str) -> tuple[str, bool]:
    if sent_bytes(text) <= _MAX_JSON_BYTES:
        return text, False
    return text[:_CUT_CHARACTERS], True
