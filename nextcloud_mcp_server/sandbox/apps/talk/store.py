"""The data of Talk: conversations, messages, and how far users have read."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class TalkMessage:
    """A message; `system` is the kind of a system message, which no user wrote."""

    id: int
    author: str
    text: str
    sent_at: int
    system: str = ""
    kind: str = "comment"
    parameters: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    parent: int | None = None
    reference: str = ""
    silent: bool = False
    edited_at: int | None = None
    # Who reacted with what.
    reactions: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


@dataclass(slots=True)
class TalkRoom:
    """A conversation: between two (1), in a group (2) or public (3)."""

    id: int
    token: str
    kind: int
    name: str
    people: list[str]
    read_only: bool = False
    lobby: bool = False
    # What is left to its people where a moderator took permissions away; None leaves them all.
    permissions: int | None = None
    messages: list[TalkMessage] = field(default_factory=list[TalkMessage])
    # The last message that each person has read.
    read: dict[str, int] = field(default_factory=dict[str, int])

    def find(self, message_id: int | None) -> TalkMessage | None:
        """Find a message."""
        return next((one for one in self.messages if one.id == message_id), None)


@dataclass(slots=True)
class TalkStore:
    """The conversations of all users."""

    rooms: dict[str, TalkRoom] = field(default_factory=dict[str, TalkRoom])
    # The users that Talk counts as online because of a request of their client.
    seen_online: set[str] = field(default_factory=set[str])
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)

    def add_room(self, token: str, kind: int, name: str, people: list[str]) -> TalkRoom:
        """Add a conversation."""
        room = self.rooms[token] = TalkRoom(next(self.ids), token, kind, name, people)
        return room

    def say(self, room: TalkRoom, author: str, text: str, sent_at: int) -> TalkMessage:
        """Add a message of a user."""
        message = TalkMessage(next(self.ids), author, text, sent_at)
        room.messages.append(message)
        return message
