"""Deck's boards, stacks, cards and comments (API 1.0 of Deck 1.16), and what the tools answer.

A card has results of its own: the client's `Card` also holds what must be sent back, and lists need less of it.
"""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AliasPath, BeforeValidator, ConfigDict, Field

from nextcloud_mcp_server.nextcloud import state_etag
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.php_json import LIST, as_map
from nextcloud_mcp_server.tools.result import Count, Document, Flag, LongText, Result

_NAMES = {0: "", 1: "group: ", 7: "team: "}


def _given(value: object) -> object:
    """Tell whether Deck looked a value up; it sends null for one that it did not look up."""
    return value is not None


def _participant(value: object) -> object:
    return {"uid": value} if isinstance(value, str) else value


def _owner(value: object) -> object:
    data = as_map(value) or {"uid": value}
    return data.get("displayname") or data.get("uid")


class Participant(Answer):
    """A user or a group; lists that Deck answers faster have only the id."""

    uid: str
    name: str = Field(default="", validation_alias="displayname")


Person = Annotated[Participant, BeforeValidator(_participant)]


class Label(Answer):
    """A label of a board."""

    id: Id
    title: str


class Assignment(Answer):
    """A user on a card; type 0 is a user, 1 a group, 7 a team."""

    participant: Person
    type: int = 0


Labels = Annotated[list[Label], LIST]


class Card(Answer):
    """One card, with every field that must be sent back when it is changed.

    Further fields of a newer Deck are kept: a PUT that leaves one out clears it.
    """

    model_config = ConfigDict(extra="allow")

    id: Id
    title: str
    description: Annotated[str, BeforeValidator(lambda value: value or "")] = ""  # pyright: ignore[reportUnknownLambdaType]
    stack_id: Id = Field(validation_alias="stackId")
    type: str = "plain"
    owner: Person
    order: int = 0
    archived: bool = False
    done: str | None = None
    duedate: str | None = None
    startdate: str | None = None
    color: str | None = None
    labels: Labels = Field(default_factory=list[Label])
    assigned: Annotated[list[Assignment], LIST] = Field(
        default_factory=list[Assignment], validation_alias="assignedUsers"
    )
    #: Whether Deck sends the assigned users; for archived cards in a list it does not.
    people_known: Annotated[bool, BeforeValidator(_given)] = Field(
        default=False, validation_alias="assignedUsers"
    )
    attachments: int | None = Field(default=None, validation_alias="attachmentCount")
    comments: int = Field(default=0, validation_alias="commentsCount")

    @property
    def etag(self) -> str:
        """A hash of the card's state.

        Deck's own etag is the second of the last change. It misses a change in the same second, and it changes for
        every card of a stack in which one was moved.
        """
        return state_etag.of([
            self.title, self.description, self.stack_id, self.archived, self.done, self.duedate, self.startdate,
            self.color, sorted(label.id for label in self.labels),
            sorted((one.type, one.participant.uid) for one in self.assigned),
        ])  # fmt: skip

    @property
    def people(self) -> list[str]:
        """The uids of the assigned users, without groups and teams."""
        return [one.participant.uid for one in self.assigned if one.type == 0]

    @property
    def state(self) -> dict[str, Any]:
        """The members of `CardState`."""
        return {
            "id": self.id,
            "stack_id": self.stack_id,
            "title": self.title,
            "etag": self.etag,
            "due": self.duedate,
            "done": self.done,
            "labels": [label.title for label in self.labels] or None,
            "assignees": [f"{_NAMES.get(one.type, '')}{one.participant.uid}" for one in self.assigned]
            or None,
        }


class Stack(Result):
    """A column of a board."""

    id: Id
    title: str
    order: int = Field(default=0, exclude=True)
    cards: Annotated[list[Card], LIST] = Field(default_factory=list[Card], exclude=True)


class Board(Result):
    """One board."""

    id: Id
    title: str
    owner: Annotated[str, BeforeValidator(_owner)]
    can_edit: bool = Field(default_factory=bool, validation_alias=AliasPath("permissions", "PERMISSION_EDIT"))
    archived: Flag = None
    deleted_at: int = Field(default=0, validation_alias="deletedAt", exclude=True)
    #: Lists leave out these.
    labels: Labels = Field(default_factory=list[Label], exclude=True)
    people: Annotated[list[Person], LIST] = Field(
        default_factory=list[Participant], validation_alias="users", exclude=True
    )
    stacks: Annotated[list[Stack], LIST] = Field(default_factory=list[Stack], exclude=True)


class Boards(Result):
    """The boards the person can see."""

    boards: list[Board]
    cursor: str | None = None


class CardState(Result):
    """What a card is now, and what changing it needs."""

    id: Id
    stack_id: Id
    title: str
    etag: str
    due: str | None = None
    done: str | None = None
    labels: list[str] | None = None
    assignees: list[str] | None = None


class CardRow(CardState):
    """A card in a list, with what changing it needs."""

    comments: Count = None
    has_description: bool | None = None


class BoardPage(Result):
    """A board and a page of its cards, stack by stack; `total` counts the cards that were found."""

    id: Id
    title: str
    can_edit: bool
    labels: list[str]
    members: list[str]
    stacks: list[Stack]
    cards: list[CardRow]
    total: int
    archived: bool | None = None
    cursor: str | None = None


class Comment(Result):
    """One comment."""

    by: str = Field(default_factory=str, validation_alias="actorDisplayName")
    at: datetime = Field(validation_alias="creationDateTime")
    text: LongText = Field(validation_alias="message")


class CardText(CardState, Document):
    """A card with its description as content, or a page of it; sizes and offsets are bytes."""

    archived: Flag = None
    attachments: Count = None
    comments: list[Comment] | None = None
    comments_total: int
    size: int
    next_offset: int | None = None


class CardWritten(CardState):
    """What the card is now; `note` says what Deck stored otherwise than it was sent."""

    archived: Flag = None
    note: str | None = None


class CardDeleted(Result):
    """What was deleted, and how to undo it."""

    deleted: str
    undo: str
