"""The documents of Deck's API."""

import hashlib
from typing import Any

from nextcloud_mcp_server.sandbox.apps.deck.store import (
    DeckBoard,
    DeckCard,
    DeckComment,
    DeckLabel,
    DeckStack,
    DeckStore,
)
from nextcloud_mcp_server.sandbox.state import State

Fields = dict[str, Any]


class DeckWriter:
    """Writes boards, stacks and cards with the names of their people; `newer` as Deck 1.18 does."""

    def __init__(self, state: State, *, newer: bool) -> None:
        self._state = state
        self._newer = newer

    def person(self, uid: str) -> Fields:
        """Write a user as Deck does."""
        user = self._state.users.get(uid)
        name = uid if user is None else user.display_name
        return {"primaryKey": uid, "uid": uid, "displayname": name, "type": 0}

    def board(self, board: DeckBoard) -> Fields:
        """Write a board."""
        return {
            "id": board.id,
            "title": board.title,
            "owner": self.person(board.owner),
            "color": board.color,
            "archived": board.archived,
            "labels": [label_json(label, board, None) for label in board.labels],
            "acl": [],
            "permissions": {f"PERMISSION_{name}": True for name in ("READ", "EDIT", "MANAGE", "SHARE")},
            "users": [self.person(uid) for uid in (board.owner, *board.people)],
            "stacks": [self.stack_head(stack) for stack in self._state.store(DeckStore).stacks_of(board.id)],
            "activeSessions": [],
            "deletedAt": board.deleted_at,
            "lastModified": board.changed_at,
            **({"shareToken": None, "externalId": None} if self._newer else {}),
            "settings": {"notify-due": "assigned", "calendar": True},
            "ETag": etag(board.changed_at),
        }

    def stack(self, stack: DeckStack, *, archived: bool) -> Fields:
        """Write a stack with its cards."""
        cards = self._state.store(DeckStore).cards_of(stack.id, archived=archived)
        whole = self.stack_head(stack)
        if not cards and not archived:
            # An empty one has no such member: `StackService::enrichStackWithCards` returns before it sets it.
            return whole
        write = self._archived if archived else self.card
        return whole | {"cards": [write(card) for card in cards]}

    def _archived(self, card: DeckCard) -> Fields:
        """Write an archived card: with its labels, if any, and without its people (`findAllArchived`)."""
        return self.card(card) | {"labels": self.labels(card) or None, "assignedUsers": None}

    def stack_head(self, stack: DeckStack) -> Fields:
        """Write a stack without its cards."""
        return {
            "id": stack.id,
            "title": stack.title,
            "boardId": stack.board_id,
            "deletedAt": 0,
            "lastModified": stack.changed_at,
            "order": stack.order,
            **({"isDoneColumn": stack.is_done_column} if self._newer else {}),
            "ETag": etag(stack.changed_at),
        }

    def card(self, card: DeckCard) -> Fields:
        """Write a card with labels, people and comments."""
        return {
            "id": card.id,
            "title": card.title,
            "description": card.description,
            "stackId": card.stack_id,
            "type": card.type,
            "lastModified": card.changed_at,
            "lastEditor": card.editor,
            "createdAt": card.created_at,
            "labels": self.labels(card),
            "assignedUsers": [self.assignment(card, uid, number) for uid, number in card.assigned.items()],
            "attachments": [] if self._newer else None,
            "attachmentCount": 0,
            "owner": self.person(card.owner),
            "order": card.order,
            "archived": card.archived,
            "done": card.done,
            "duedate": card.duedate,
            "deletedAt": card.deleted_at,
            "commentsUnread": 0,
            "commentsCount": len(card.comments),
            "ETag": etag(card.changed_at),
            "overdue": 0,
            "referenceData": None,
            **self._newer_fields(card),
        }

    def _newer_fields(self, card: DeckCard) -> Fields:
        return {"color": card.color, "startdate": card.startdate, "dependentCards": []} if self._newer else {}

    def raw(self, card: DeckCard) -> Fields:
        """Write a card as its database row, without related rows."""
        whole = self.card(card)
        del whole["overdue"], whole["referenceData"]
        absent = ["labels", "assignedUsers", "relatedStack", "relatedBoard"]
        absent += ["dependentCards"] if self._newer else ["attachments", "attachmentCount"]
        return (
            whole
            | dict.fromkeys(absent)
            | {"descriptionPrev": card.before, "owner": card.owner, "notified": False}
        )

    def labels(self, card: DeckCard) -> list[Fields]:
        """Write the labels of a card."""
        board = self._state.store(DeckStore).board_of(card)
        return [label_json(label, board, card.id) for label in board.labels if label.id in card.labels]

    def assignment(self, card: DeckCard, uid: str, number: int) -> Fields:
        """Write the assignment of a user to a card."""
        return {"id": number, "participant": self.person(uid), "cardId": card.id, "type": 0}

    def comment(self, card: DeckCard, comment: DeckComment) -> Fields:
        """Write a comment."""
        return {
            "id": comment.id,
            "objectId": card.id,
            "message": comment.text,
            "actorId": comment.author,
            "actorType": "users",
            "actorDisplayName": self.person(comment.author)["displayname"],
            "creationDateTime": comment.created_at,
            "mentions": [],
        }


def label_json(label: DeckLabel, board: DeckBoard, card_id: int | None) -> Fields:
    """Write a label, as a board or as a card has it."""
    return {
        "id": label.id,
        "title": label.title,
        "color": label.color,
        "boardId": board.id,
        "cardId": card_id,
        "lastModified": label.changed_at,
        "ETag": etag("" if label.changed_at is None else label.changed_at),
    }


def etag(changed_at: int | str) -> str:
    """Return the hash of the second of the last change; Deck's etags distinguish nothing else."""
    return hashlib.md5(str(changed_at).encode(), usedforsecurity=False).hexdigest()
