"""The Forms app (API 3): forms and their submissions.

Recorded from version 5.3.5, without submissions; those, and shared forms, follow its `API_v3.md` and
`ApiController.php`. Forms counts a request for an unknown id as an attempt to guess one, and after some of these
rejects all requests from this server's address. So only listed forms are requested.

A form that is read has results of its own: answers stand under the names of their questions, and long texts are cut.
"""

from functools import cached_property
from typing import Annotated, Final, cast

from pydantic import BeforeValidator, Field

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import untrusted
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.top_k import cut
from nextcloud_mcp_server.tools.result import OMIT_EMPTY, Moment, Result

_BASE: Final = "/apps/forms/api/v3/forms"
_RESULTS: Final = "results"
_STATES: Final = {1: "closed", 2: "archived"}
_NO_FORM: Final = (
    "There is no such form among those of the person and those shared with them. "
    "Call nc_forms_get_form without a form_id for the ones there are."
)
_SENTENCES: Final = {403: "Forms does not allow this{reason}.", 404: _NO_FORM}


def _state(value: object) -> object:
    return _STATES.get(value) if isinstance(value, int) else value


class ListedForm(Result):
    """A form in a list; `answers` counts what the person may see."""

    id: Id
    title: str
    mine: bool = Field(default_factory=bool)
    state: Annotated[str | None, BeforeValidator(_state)] = None
    expires: Annotated[Moment | None, OMIT_EMPTY] = None
    answers: int | None = Field(default=None, validation_alias="submissionCount")
    permissions: list[str] = Field(default_factory=list[str], exclude=True)

    @property
    def results(self) -> bool:
        """Whether the user may see submissions: all of them, or only their own, which needs no permission."""
        return _RESULTS in self.permissions or bool(self.answers)


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

    @cached_property
    def labels(self) -> dict[Id, str]:
        """The texts of the options by their ids."""
        return {option.id: option.text for option in self.options}

    def readable(self, answer: str) -> str:
        """Return a stored answer as text; grids and rankings are stored as ids of their options."""
        if self.type not in ("grid", "ranking"):
            return answer
        try:
            return _worded(untrusted.read_json(answer), self.labels)
        except (ValueError, RecursionError):
            return answer


class Form(ListedForm):
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
    at: Moment = Field(validation_alias="timestamp")
    answers: list[AnswerText] = Field(default_factory=list[AnswerText])


class Submissions(Answer):
    """A page of submissions, newest first; `total` counts all matches."""

    submissions: list[Submission]
    total: int = Field(validation_alias="filteredSubmissionsCount")


class FormsClient(AppClient):
    """Reads one user's forms."""

    async def owned(self) -> list[ListedForm]:
        """Fetch the forms that the user owns."""
        found = await self._request_ocs("GET", _BASE, list[ListedForm], params={"type": "owned"})
        return [form.model_copy(update={"mine": True}) for form in found]

    async def shared(self) -> list[ListedForm]:
        """Fetch the forms that other users share with this user, without expired ones."""
        return await self._request_ocs("GET", _BASE, list[ListedForm], params={"type": "shared"})

    async def form(self, form_id: Id) -> Form:
        """Fetch a form with its questions, after the lists: three requests at most.

        Raises:
          NotFound: It is not in the lists.
        """
        for listed in (self.owned, self.shared):
            if form_id in [stub.id for stub in await listed()]:
                return await self._request_ocs("GET", f"{_BASE}/{form_id}", Form, sentences=_SENTENCES)
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
        found = await self._request_ocs("GET", path, Submissions, params=params, sentences=_SENTENCES)
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
