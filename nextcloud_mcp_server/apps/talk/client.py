"""Talk: conversations and their messages.

There are no recordings of it. The requests and responses follow the documentation and code of Talk 22
(github.com/nextcloud/spreed, whose 22.0.2 is for Nextcloud 32): `docs/conversation.md` at d2f5be2f, `docs/chat.md` at
a490c653, `docs/reaction.md` at fb4ef079, `lib/Controller/ChatController.php` at ecf3a714 and
`lib/ResponseDefinitions.php` at 2976a57d.

Reading has no side effect. Only history is requested, not new messages, since that request alone moves the read
marker. The user joins no conversation, and the user's status is not changed.

A message has a result of its own: names stand in it for placeholders, and a long one is cut.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import timestamp, untrusted
from nextcloud_mcp_server.nextcloud import ocs, outcome
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.decoding import decoded_aside
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id, number
from nextcloud_mcp_server.nextcloud.outcome import Part
from nextcloud_mcp_server.nextcloud.php_json import MAP, as_map
from nextcloud_mcp_server.nextcloud.top_k import cut
from nextcloud_mcp_server.tools.file_results import shown_as
from nextcloud_mcp_server.tools.result import Count, Flag, LongText, Moment, Result

_ROOMS: Final = "/apps/spreed/api/v4/room"
_API: Final = "/apps/spreed/api/v1"
#: Keeps the user's status, the read marker and the notifications unchanged.
_NO_TRACE: Final = {
    "lookIntoFuture": 0,
    "setReadMarker": 0,
    "markNotificationsAsRead": 0,
    "noStatusUpdate": 1,
}
_TOKEN: Final = re.compile(r"[a-z0-9]{4,30}")
_PLACEHOLDER: Final = re.compile(r"\{([\w.-]+)\}")
_MAY_WRITE: Final = 128
_KINDS: Final = {
    1: "one-to-one",
    2: "group",
    3: "public",
    4: "changelog",
    5: "former one-to-one",
    6: "note to self",
}
_SNIPPET_CHARACTERS: Final = 160
_SENTENCES: Final = {
    403: "The person may not write in that conversation: it is read-only for them.",
    404: "There is no such conversation or message, or the person is not in it: see nc_talk_list_conversations.",
    412: "That conversation is in its lobby: only its moderators can see or write anything yet.",
    413: "The message is too long for Talk, so nothing was sent. Make it shorter.",
}
#: Since Talk 24 a permission of its own: a user who may write may not be allowed to react.
_NO_REACTIONS: Final = (
    "The person may not react in that conversation: it is read-only for them, or its moderators took that permission "
    "away. Where they may write, nc_talk_send_message can say the same in words."
)
_MENTIONS: Final = frozenset({"user", "guest", "call", "group", "user-group", "circle", "federated_user"})
#: Messages that tell a client to update another message, and are not shown.
_FOR_CLIENTS: Final = frozenset(
    {"message_deleted", "message_edited", "reaction", "reaction_deleted", "reaction_revoked"}
)


def _thing(value: object) -> object:
    return as_map(value) or None


class Parameter(Answer):
    """The value of a placeholder in a message: a mentioned user, a file."""

    type: str = ""
    name: str = ""
    path: str | None = None


class Parent(Answer):
    """The message that another one replies to."""

    id: Id
    message: str = ""
    parameters: Annotated[dict[str, Parameter], MAP] = Field(
        default_factory=dict[str, Parameter], validation_alias="messageParameters"
    )

    @property
    def text(self) -> str:
        """The message with its placeholders replaced by names."""

        def shown(found: re.Match[str]) -> str:
            what = self.parameters.get(found[1])
            if what is None:
                return found[0]
            return f"@{what.name}" if what.type in _MENTIONS else what.name

        return _PLACEHOLDER.sub(shown, self.message)


class Message(Parent):
    """A message; `system` names the event of a system message."""

    # The last message of a conversation on another server has no id.
    id: Id = "0"
    sent_at: int = Field(default=0, validation_alias="timestamp")
    author: str = Field(default="", validation_alias="actorDisplayName")
    author_id: str = Field(default="", validation_alias="actorId")
    kind: str = Field(default="comment", validation_alias="messageType")
    system: str = Field(default="", validation_alias="systemMessage")
    parent: Annotated[Parent | None, BeforeValidator(_thing)] = None
    reactions: Annotated[dict[str, int], MAP] = Field(default_factory=dict[str, int])
    own_reactions: list[str] = Field(default_factory=list[str], validation_alias="reactionsSelf")
    edited_at: int | None = Field(default=None, validation_alias="lastEditTimestamp")


def snippet(text: object) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(str(text or "").split())
    return f"{line[:_SNIPPET_CHARACTERS]}…" if len(line) > _SNIPPET_CHARACTERS else line


def _last(value: object) -> str | None:
    """Return the beginning of a message, after its author."""
    if not as_map(value):
        return None
    message = Message.model_validate(value)
    text, author = snippet(message.text), message.author or message.author_id
    return text if message.system or not author else f"{author}: {text}"


def _kind(value: object) -> object:
    return _KINDS.get(value, "other") if isinstance(value, int) else value


class Conversation(Result):
    """A conversation; `read_only` is set where the person can't write."""

    conversation: str = Field(validation_alias="token")
    name: str = Field(default_factory=str, validation_alias="displayName")
    kind: Annotated[str, BeforeValidator(_kind)] = Field(validation_alias="type")
    description: Annotated[LongText | None, BeforeValidator(lambda text: snippet(text) or None)] = None
    unread: Count = Field(default=None, validation_alias="unreadMessages")
    mentioned: Flag = Field(default=None, validation_alias="unreadMention")
    last_activity: Moment = Field(
        default_factory=lambda: timestamp.moment(0), validation_alias="lastActivity"
    )
    last_message: Annotated[LongText | None, BeforeValidator(_last)] = Field(
        default=None, validation_alias="lastMessage"
    )
    favorite: Flag = Field(default=None, validation_alias="isFavorite")
    archived: Flag = Field(default=None, validation_alias="isArchived")
    call: Flag = Field(default=None, validation_alias="hasCall")
    read_only: Flag = None
    shown_as: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, value: object) -> object:
        data = as_map(value)
        permissions, name = data.get("permissions", _MAY_WRITE), data.get("displayName")
        locked = bool(data.get("readOnly")) or (isinstance(permissions, int) and not permissions & _MAY_WRITE)
        return {**data, "read_only": locked, "shown_as": shown_as(name) if isinstance(name, str) else None}


@dataclass(frozen=True, slots=True)
class History:
    """A page of messages, newest first; `before` is the cursor for older ones."""

    messages: Sequence[Message]
    before: int | None


class _Reaction(Answer):
    author_id: str = Field(validation_alias="actorId")


_REACTIONS = Annotated[dict[str, list[_Reaction]], MAP]
_HISTORY = TypeAdapter(ocs.Envelope[list[Message]])
_SENT = TypeAdapter(ocs.Envelope[Message | None])
_REACTED = TypeAdapter(ocs.Envelope[_REACTIONS])


class TalkClient(AppClient):
    """Reads one user's conversations and sends messages."""

    async def rooms(self) -> list[Conversation]:
        """Fetch all of the user's conversations, unsorted."""
        return await self._request_ocs("GET", _ROOMS, list[Conversation], params={"noStatusUpdate": 1})

    async def history(self, token: str, *, limit: int, before: int | None = None) -> History:
        """Fetch messages older than `before`, or the newest, without those that only update others.

        Raises:
          NotFound: There is no such conversation, or the user is not in it.
          Forbidden: The user is in its lobby.
        """
        asked: dict[str, str | int] = {**_NO_TRACE, "limit": limit, "format": "json"}
        if before is not None:
            asked["lastKnownMessageId"] = before
        path = f"/ocs/v2.php{_API}/chat/{_checked(token)}"
        response = await self._http.request("GET", path, params=asked, sentences=_SENTENCES)
        if not response.content:
            # 304: there are none.
            return History((), None)
        found = (await decoded_aside(response, _HISTORY, uid=self._http.uid)).ocs.data
        page = cut([one for one in found if before is None or number(one.id) < before], limit)
        messages = [one for one in page.rows if one.system not in _FOR_CLIENTS]
        last = response.headers.get("X-Chat-Last-Given", "")
        if page.more:
            last = page.rows[-1].id
        return History(messages, untrusted.integer(last))

    async def send(self, token: str, text: str, *, reply_to: Id | None, silent: bool) -> Message | None:
        """Send a message; return None when Talk accepted it but shows it to no user, such as a command.

        Raises:
          NotFound: There is no such conversation, or the user is not in it.
          Forbidden: The user may not write there.
          InvalidName: There is no such message to reply to.
        """
        fields: dict[str, object] = {"message": text, "silent": silent}
        wrong = "Talk did not take the message, and sent nothing."
        if reply_to is not None:
            fields["replyTo"] = number(reply_to)
            wrong += " Is 'reply_to' a message of this conversation that can be answered?"
        path = f"{_API}/chat/{_checked(token)}"
        sentences = {**_SENTENCES, 400: wrong}
        try:
            return await ocs.send(self._http, "POST", path, _SENT, json=fields, sentences=sentences)
        except errors.TlsFailed:
            raise
        except errors.Unreachable as error:
            raise errors.TimedOut(
                "The connection broke before Talk answered, so the message may or may not be there. Look with "
                "nc_talk_list_messages before you send it again."
            ) from error

    async def react(self, token: str, message_id: Id, emoji: str, *, remove: bool) -> dict[str, int]:
        """Add or remove a reaction of the user; return the count of each reaction.

        Raises:
          NotFound: There is no such message, or no such reaction of the user.
          Forbidden: The user may not react there.
          ServerFault: Talk accepted it without effect.
          InvalidName: It is not an emoji, or the message accepts no reactions.
        """
        path = f"{_API}/reaction/{_checked(token)}/{message_id}"
        sentences = {
            **_SENTENCES,
            400: "Talk did not take that reaction. Send one emoji, for a message that a person wrote.",
            403: _NO_REACTIONS,
        }
        method, fields = ("DELETE" if remove else "POST"), {"reaction": emoji}
        found = await ocs.send(self._http, method, path, _REACTED, json=fields, sentences=sentences)
        own = any(
            person.author_id == self._http.uid
            for one, people in found.items()
            if _bare(one) == _bare(emoji)
            for person in people
        )
        wanted, here = (None, emoji) if remove else (emoji, None)
        outcome.compare("Talk", [Part("reaction", wanted, emoji if own else None, here)])
        return {one: len(people) for one, people in found.items()}


def _bare(emoji: str) -> str:
    """Remove the variation selector that asks for a coloured picture, which apps add and drop."""
    return emoji.replace("\ufe0f", "")


def _checked(token: str) -> str:
    if _TOKEN.fullmatch(token) is None:
        raise errors.InvalidInput("That is no conversation: take one from nc_talk_list_conversations.")
    return token
