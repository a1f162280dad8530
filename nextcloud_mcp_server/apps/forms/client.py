"""The Forms app (API 3): forms and their submissions.

Recorded from version 5.3.5, without submissions; those, and shared forms, follow its `API_v3.md` and
`ApiController.php`. Forms counts a request for an unknown id as an attempt to guess one, and after some of these
rejects all requests from this server's address. So only listed forms are requested.
"""

import json
from typing import Final, cast

from pydantic import Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.top_k import cut

_BASE: Final = "/apps/forms/api/v3/forms"
_RESULTS: Final = "results"
_NO_FORM: Final = (
    "There is no such form among those of the person and those shared with them. "
    "Call nc_forms_get_form without a form_id for the ones there are."
)
_SENTENCES: Final = {403: "Forms does not allow this{reason}.", 404: _NO_FORM}


class FormStub(Answer):
    """A form in a list."""

    id: Id
    title: str
    state: int | None = None
    expires: int = 0
    permissions: list[str] = Field(default_factory=list[str])
    submissions: int | None = Field(default=None, validation_alias="submissionCount")

    @property
    def results(self) -> bool:
        """Whether the user may see submissions: all of them, or only their own, which needs no permission."""
        return _RESULTS in self.permissions or bool(self.submissions)


class Option(Answer):
    """One choice of a question."""

    id: Id
    text: str


class Question(Answer):
    """One question."""

    id: Id
    type: str
    text: str
    description: str | None = None
    required: bool = Field(default=False, validation_alias="isRequired")
    options: list[Option] = Field(default_factory=list[Option])

    def readable(self, answer: str) -> str:
        """Return a stored answer as text; grids and rankings are stored as ids of their options."""
        if self.type not in ("grid", "ranking"):
            return answer
        labels = {option.id: option.text for option in self.options}
        try:
            return _worded(json.loads(answer), labels)
        except (ValueError, RecursionError):
            return answer


class Form(FormStub):
    """One form with its questions."""

    description: str | None = None
    owner: str = Field(default="", validation_alias="ownerId")
    questions: list[Question] = Field(default_factory=list[Question])


class AnswerText(Answer):
    """One answer; a question with several choices has several answers."""

    question: Id = Field(validation_alias="questionId")
    text: str


class Submission(Answer):
    """The answers of one user."""

    id: Id
    by: str = Field(default="", validation_alias="userDisplayName")
    at: int = Field(validation_alias="timestamp")
    answers: list[AnswerText] = Field(default_factory=list[AnswerText])


class Submissions(Answer):
    """A page of submissions, newest first; `total` counts all matches."""

    submissions: list[Submission]
    total: int = Field(validation_alias="filteredSubmissionsCount")


_STUBS = TypeAdapter(ocs.Envelope[list[FormStub]])
_FORM = TypeAdapter(ocs.Envelope[Form])
_SUBMISSIONS = TypeAdapter(ocs.Envelope[Submissions])


class FormsClient(AppClient):
    """Reads one user's forms."""

    async def owned(self) -> list[FormStub]:
        """Fetch the forms that the user owns."""
        return (await ocs.get(self._http, _BASE, _STUBS, params={"type": "owned"}))[0]

    async def shared(self) -> list[FormStub]:
        """Fetch the forms that other users share with this user, without expired ones."""
        return (await ocs.get(self._http, _BASE, _STUBS, params={"type": "shared"}))[0]

    async def form(self, form_id: Id) -> Form:
        """Fetch a form with its questions, after the lists: three requests at most.

        Raises:
          NotFound: It is not in the lists.
        """
        for listed in (self.owned, self.shared):
            if form_id in [stub.id for stub in await listed()]:
                return (await ocs.get(self._http, f"{_BASE}/{form_id}", _FORM, sentences=_SENTENCES))[0]
        raise errors.NotFound(_NO_FORM)

    async def submissions(self, form: Form, *, query: str, limit: int, offset: int) -> Submissions:
        """Fetch a page of submissions.

        Raises:
          Forbidden: The user may not see them.
        """
        params: dict[str, str | int] = {
            "limit": limit,
            "offset": offset,
            **({"query": query} if query else {}),
        }
        path = f"{_BASE}/{form.id}/submissions"
        found, _ = await ocs.get(self._http, path, _SUBMISSIONS, params=params, sentences=_SENTENCES)
        page = cut(found.submissions, limit, offset=offset, total=found.total)
        return found.model_copy(update={"submissions": page.rows})


def _worded(value: object, labels: dict[str, str]) -> str:
    """Replace option ids by their texts: row by row in a grid, in order in a ranking."""
    if isinstance(value, dict):
        rows = cast("dict[str, object]", value).items()
        return "; ".join(
            f"{labels.get(key, key)}: {_numbers(cell, labels) or _worded(cell, labels)}" for key, cell in rows
        )
    if isinstance(value, list):
        return ", ".join(_worded(one, labels) for one in cast("list[object]", value))
    return labels.get(str(value), str(value))


def _numbers(cell: object, labels: dict[str, str]) -> str:
    """Return a row of numeric cells with its column names; empty if the cells are not numbers."""
    columns = cast("dict[str, object]", cell).items() if isinstance(cell, dict) else ()
    return ", ".join(f"{labels.get(key, key)} {number}" for key, number in columns)
