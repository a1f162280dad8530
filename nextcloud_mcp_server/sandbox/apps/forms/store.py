"""Forms of the sandbox."""

from dataclasses import dataclass, field
from typing import Any

Fields = dict[str, Any]

_RESULTS = ["results", "results_delete"]


@dataclass(slots=True)
class StoredForm:
    """One form; the users in `shown_to` see it in their lists and may answer it."""

    id: int
    hash: str
    owner: str
    made_at: int
    title: str = ""
    description: str = ""
    state: int | None = None
    expires: int = 0
    locked_until: int | None = None
    questions: list[Fields] = field(default_factory=list[Fields])
    submissions: list[Fields] = field(default_factory=list[Fields])
    shown_to: set[str] = field(default_factory=set[str])

    def permissions(self, uid: str) -> list[str]:
        """Return the permissions of a user."""
        return ["edit", "embed", *_RESULTS, "submit"] if uid == self.owner else ["submit"]

    def seen_by(self, uid: str) -> list[Fields]:
        """Return the submissions that a user may see."""
        return [one for one in self.submissions if uid in {self.owner, one["userId"]}]

    def stub(self, uid: str) -> Fields:
        """Write the form as in a list."""
        whole = self.whole(uid)
        kept = (
            "id",
            "hash",
            "title",
            "expires",
            "lastUpdated",
            "permissions",
            "state",
            "lockedBy",
            "lockedUntil",
        )
        found = {name: whole[name] for name in kept} | {"partial": True}
        if uid != self.owner and self.seen_by(uid):
            # Only lists have this permission, for users who answered.
            found["permissions"] = [*whole["permissions"], "results"]
        return found | ({"submissionCount": whole["submissionCount"]} if "submissionCount" in whole else {})

    def whole(self, uid: str) -> Fields:
        """Write the form with its questions."""
        seen = len(self.seen_by(uid))
        count = {"submissionCount": seen} if seen or uid == self.owner else {}
        return count | {
            "id": self.id,
            "hash": self.hash,
            "title": self.title,
            "description": self.description,
            "ownerId": self.owner,
            "fileId": None,
            "fileFormat": None,
            "created": self.made_at,
            "access": {"permitAllUsers": False, "showToAllUsers": False},
            "expires": self.expires,
            "isAnonymous": False,
            "submitMultiple": False,
            "allowEditSubmissions": False,
            "showExpiration": False,
            "lastUpdated": self.made_at,
            "submissionMessage": None,
            "state": self.state,
            "lockedBy": None if self.locked_until is None else self.owner,
            "lockedUntil": self.locked_until,
            "maxSubmissions": None,
            "confirmationEmailEnabled": False,
            "confirmationEmailSubject": None,
            "confirmationEmailBody": None,
            "confirmationEmailQuestionId": None,
            "allowComments": False,
            "questions": [{**question, "extraSettings": []} for question in self.questions],
            "shares": [],
            "permissions": self.permissions(uid),
            "canSubmit": True,
            "isMaxSubmissionsReached": False,
        }

    def ask(self, kind: str, text: str, *options: str, required: bool = False) -> Fields:
        """Add a question; ids count within the form."""
        number = len(self.questions) + 1
        made: Fields = {
            "id": number,
            "formId": self.id,
            "order": number,
            "type": kind,
            "isRequired": required,
            "text": text,
            "name": "",
            "description": "",
            "extraSettings": {},
            "options": [
                {"id": 100 * number + place, "questionId": number, "text": option, "order": place}
                for place, option in enumerate(options, 1)
            ],
            "accept": [],
        }
        self.questions.append(made)
        return made

    def answer(self, uid: str, name: str, at: int, answers: list[tuple[int, str]]) -> None:
        """Add the answers of a user, by the ids of the questions; the newest is the first."""
        number = len(self.submissions) + 1
        written = [
            {"id": 10 * number + place, "submissionId": number, "questionId": question, "text": text}
            for place, (question, text) in enumerate(answers)
        ]
        submission = {"id": number, "formId": self.id, "userId": uid, "timestamp": at, "answers": written}
        self.submissions.insert(0, submission | {"userDisplayName": name})


class FormStore(list[StoredForm]):
    """The forms of all users."""
