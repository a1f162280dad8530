"""Models of Deck's responses: boards with stacks, cards and comments (API 1.0 of Deck 1.16)."""

import hashlib
import json
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id


class Participant(Answer):
    """A user or a group; lists that Deck answers faster have only the id."""

    uid: str
    name: str = Field(default="", validation_alias="displayname")


def _participant(value: object) -> object:
    return {"uid": value} if isinstance(value, str) else value


def _listed(value: object) -> object:
    """Return an empty list for an empty value.

    Deck sends null for what it did not look up, and PHP writes an empty map as a list.
    """
    return value or []


def _given(value: object) -> object:
    """Tell whether Deck looked a value up; it sends null for one that it did not look up."""
    return value is not None


Person = Annotated[Participant, BeforeValidator(_participant)]


class Label(Answer):
    """A label of a board."""

    id: Id
    title: str


class Assignment(Answer):
    """A user on a card; type 0 is a user, 1 a group, 7 a team."""

    participant: Person
    type: int = 0


class Permissions(Answer):
    """The permissions of the user on a board."""

    edit: bool = Field(default=False, validation_alias="PERMISSION_EDIT")
    manage: bool = Field(default=False, validation_alias="PERMISSION_MANAGE")


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
    labels: Annotated[list[Label], BeforeValidator(_listed)] = Field(default_factory=list[Label])
    assigned: Annotated[list[Assignment], BeforeValidator(_listed)] = Field(
        default_factory=list[Assignment], validation_alias="assignedUsers"
    )
    #: Whether Deck sends the assigned users; for archived cards in a list it does not.
    people_known: Annotated[bool, BeforeValidator(_given)] = Field(
        default=False, validation_alias="assignedUsers"
    )
    attachments: int | None = Field(default=None, validation_alias="attachmentCount")
    comments: int = Field(default=0, validation_alias="commentsCount")
    last_modified: int = Field(default=0, validation_alias="lastModified")

    @property
    def etag(self) -> str:
        """A hash of the card's state.

        Deck's own etag is the second of the last change. It misses a change in the same second, and it changes for
        every card of a stack in which one was moved.
        """
        state = [
            self.title, self.description, self.stack_id, self.archived, self.done, self.duedate, self.startdate,
            self.color, sorted(label.id for label in self.labels),
            sorted((one.type, one.participant.uid) for one in self.assigned),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:16]

    @property
    def people(self) -> list[str]:
        """The uids of the assigned users, without groups and teams."""
        return [one.participant.uid for one in self.assigned if one.type == 0]


class Stack(Answer):
    """A stack (a column) of a board."""

    id: Id
    title: str
    order: int = 0
    deleted_at: int = Field(default=0, validation_alias="deletedAt")
    cards: Annotated[list[Card], BeforeValidator(_listed)] = Field(default_factory=list[Card])


class Board(Answer):
    """A board; lists leave out labels, users and stacks."""

    id: Id
    title: str
    owner: Person
    archived: bool = False
    deleted_at: int = Field(default=0, validation_alias="deletedAt")
    permissions: Permissions = Field(default_factory=Permissions)
    shared: int = 0
    labels: Annotated[list[Label], BeforeValidator(_listed)] = Field(default_factory=list[Label])
    people: Annotated[list[Person], BeforeValidator(_listed)] = Field(
        default_factory=list[Participant], validation_alias="users"
    )
    stacks: Annotated[list[Stack], BeforeValidator(_listed)] = Field(default_factory=list[Stack])


class Comment(Answer):
    """A comment on a card."""

    id: Id
    message: str
    actor: str = Field(default="", validation_alias="actorDisplayName")
    created_at: datetime = Field(validation_alias="creationDateTime")
