"""Tools for the Forms app."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from nextcloud_mcp_server.apps.forms.client import Form, FormsClient, ListedForm, Question, Submission
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.named import having_words
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.result import OMIT_EMPTY, Flag, LongText, Result, Text
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

forms = Toolset("forms")

#: The whole description is sent twice, as text and as structured content, and a result may have 80,000 bytes.
_DESCRIPTION_BYTES = 3_000
_QUESTIONS_BYTES = 12_000
_ANSWERS_BYTES = 18_000
_LONGEST_NAME = 200


class FormList(Result):
    """The forms the person made, and those shown to them."""

    forms: list[ListedForm]
    total: int
    cursor: str | None = None


class QuestionRow(Result):
    """A question; `name` is what its answers are given under."""

    name: str
    type: str
    required: Flag = None
    description: Text = None
    options: Annotated[list[str] | None, OMIT_EMPTY] = None


class AnswerRow(Result):
    """What a user answered: question → answers."""

    id: Id
    at: datetime
    by: str
    answers: dict[str, str]
    truncated: Flag = None


class FormText(Result):
    """A form and a page of what was answered, newest first; questions come with the first page alone."""

    id: Id
    title: str
    owner: str
    description: Annotated[LongText | None, OMIT_EMPTY] = None
    state: str | None = None
    expires: datetime | None = None
    questions: list[QuestionRow] | None = None
    answers: list[AnswerRow] | None = None
    total: int | None = None
    cursor: str | None = None
    note: str | None = None


@forms.tool("Read forms", read_only=True, aliases={"nc_forms_list_forms": {}})
@require_provisioning("forms:read")
async def nc_forms_get_form(
    nc: Account,
    form_id: Annotated[Id | None, Field(description="Read this one.")] = None,
    *,
    query: Annotated[str, Field(description="Words of titles, or a phrase of its answers.")] = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> FormList | FormText:
    """List the forms the person made or may see, or read one: its questions, and the answers in pages by cursor."""
    if form_id is None:
        listing = pagination.Listing(cursor, query)
        listed = [*await nc.client(FormsClient).owned(), *await nc.client(FormsClient).shared()]
        found = await having_words(query, listed, lambda one: (one.title,), uid=nc.uid)
        shown, cursor = listing.page(found)
        return FormList(forms=shown, total=len(found), cursor=cursor)
    listing = pagination.Listing(cursor, form_id, query)
    form = await nc.client(FormsClient).form(form_id)
    names = _names(form.questions)
    if not form.results:
        note = "The person may answer this form, but not see what others answered."
        return _text(form, names, first=True, note=note)
    page = await nc.client(FormsClient).submissions(form, query=query, limit=limit, offset=listing.start)
    questions = {one.id: one for one in form.questions}
    rows = pagination.fit([_answers(one, questions, names) for one in page.submissions], _ANSWERS_BYTES)
    following = listing.after(len(rows), page.total) if rows else None
    text = _text(form, names, first=cursor is None)
    return text.model_copy(update={"answers": rows, "total": page.total, "cursor": following})


def _text(form: Form, names: dict[str, str], *, first: bool, note: str | None = None) -> FormText:
    rows = [_question(one, names[one.id]) for one in form.questions]
    shown = pagination.fit(rows, _QUESTIONS_BYTES)
    if len(shown) < len(rows):
        note = f"Only the first {len(shown)} of {len(rows)} questions are shown here. {note or ''}".strip()
    [description] = pagination.fitting([form.description or ""], _DESCRIPTION_BYTES)
    return FormText(
        id=form.id,
        title=form.title,
        owner=form.owner,
        description=description,
        state=form.state,
        expires=form.expires,
        questions=shown if first else None,
        note=note if first else None,
    )


def _names(questions: Sequence[Question]) -> dict[str, str]:
    """Return the names of the questions by id; the id is appended to duplicates and empty texts."""
    texts = [question.text[:_LONGEST_NAME] for question in questions]
    counts = Counter(texts)
    return {
        one.id: text if text and counts[text] == 1 else f"{text} #{one.id}".strip()
        for one, text in zip(questions, texts, strict=True)
    }


def _question(one: Question, name: str) -> QuestionRow:
    return QuestionRow(
        name=name,
        type=one.type,
        required=one.required,
        description=one.description,
        options=pagination.fitting([option.text for option in one.options], _DESCRIPTION_BYTES),
    )


def _answers(one: Submission, questions: Mapping[Id, Question], names: dict[str, str]) -> AnswerRow:
    """Return the row of a submission; several answers to one question are joined."""
    given: dict[str, list[str]] = {}
    for answer in one.answers:
        question = questions.get(answer.question)
        name = f"deleted question #{answer.question}" if question is None else names[question.id]
        text = answer.text if question is None else question.readable(answer.text)
        given.setdefault(name, []).append(text)
    whole = ["; ".join(texts) for texts in given.values()]
    # The name counts as one more text of the result.
    shown = pagination.fitting(whole, max(0, _ANSWERS_BYTES - sum(len(name.encode()) for name in given)))
    return AnswerRow(
        id=one.id,
        at=one.at,
        by=one.by,
        answers=dict(zip(given, shown, strict=False)),
        truncated=shown != whole,
    )
