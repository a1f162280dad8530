from datetime import UTC, datetime
from typing import Any, SupportsIndex

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.forms import tools
from nextcloud_mcp_server.apps.forms.client import Question
from nextcloud_mcp_server.apps.forms.tools import forms
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.forms.store import FormStore, StoredForm
from nextcloud_mcp_server.tools import answer
from tests.dav_fakes import account_in, call_in

MOMENT = 1_795_874_660


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


def add(sandbox: Sandbox, **fields: Any) -> StoredForm:  # noqa: ANN401 - what a form has
    form = StoredForm(len(sandbox.state.store(FormStore)) + 1, "hash", "alice", MOMENT, **fields)
    sandbox.state.store(FormStore).append(form)
    return form


async def call(account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    return await call_in(forms, account, f"nc_forms_{tool}", **arguments)


async def test_forms_are_listed_with_whose_they_are_and_whether_they_are_open(
    alice: Account, sandbox: Sandbox
) -> None:
    add(sandbox, title="Old", state=2, expires=MOMENT)

    mine = await call(alice, "list_forms")
    shared = await call(account_in(sandbox, "bob"), "list_forms")
    found = await call(alice, "list_forms", query="PARTY street")

    assert [(row.title, row.mine, row.state, row.answers) for row in mine.forms] == [
        ("Old", True, "archived", 0),
        ("Street party", True, None, 1),
    ]
    assert mine.forms[0].expires == datetime.fromtimestamp(MOMENT, UTC)
    assert [(row.title, row.mine, row.answers) for row in shared.forms] == [("Street party", False, 1)]
    assert ([row.title for row in found.forms], found.total, found.cursor) == (["Street party"], 1, None)


async def test_a_form_is_read_with_its_questions_and_answers(alice: Account) -> None:
    read = await call(alice, "get_form", form_id=1)
    none = await call(alice, "get_form", form_id=1, query="cake")

    assert [row.model_dump(exclude_none=True) for row in read.questions] == [
        {"name": "Do you come?", "type": "multiple_unique", "required": True, "options": ["Yes", "No"]},
        {"name": "What do you bring?", "type": "short"},
    ]
    [row] = read.answers
    assert (row.by, row.answers) == (
        "Bob Builder",
        {"Do you come?": "Yes", "What do you bring?": "A salad"},
    )
    assert (read.owner, read.total, read.cursor, row.truncated) == ("alice", 1, None, None)
    assert (none.answers, none.total) == ([], 0)


async def test_a_user_that_answered_sees_their_own_answers_alone(sandbox: Sandbox) -> None:
    sandbox.state.store(FormStore)[0].answer("carol", "Carol", MOMENT, [(1, "No")])

    read = await call(account_in(sandbox, "bob"), "get_form", form_id=1)

    assert [(row.by, row.answers["Do you come?"]) for row in read.answers] == [("Bob Builder", "Yes")]
    assert (read.total, read.note) == (1, None)


async def test_a_user_that_may_only_answer_sees_the_questions_alone(sandbox: Sandbox) -> None:
    sandbox.state.store(FormStore)[0].submissions.clear()

    read = await call(account_in(sandbox, "bob"), "get_form", form_id=1)

    assert (len(read.questions), read.answers, read.total) == (2, None, None)
    assert "not see what others answered" in read.note


async def test_questions_of_one_text_are_told_apart_and_deleted_ones_named(
    alice: Account, sandbox: Sandbox
) -> None:
    form = add(sandbox, title="Odd")
    for text in ("Same?", "Same?", ""):
        form.ask("multiple", text, "A", "B")
    form.answer("bob", "Bob", MOMENT, [(1, "A"), (1, "B"), (2, "A"), (3, "B"), (9, "gone")])

    read = await call(alice, "get_form", form_id=form.id)

    assert read.answers[0].answers == {
        "Same? #1": "A; B", "Same? #2": "A", "#3": "B", "deleted question #9": "gone",
    }  # fmt: skip


async def test_following_the_cursor_gives_every_answer_once(alice: Account, sandbox: Sandbox) -> None:
    form = add(sandbox, title="Long", description="d" * 9_000)
    for number in range(30):
        form.ask("long", f"{number} {'q' * 3_000}", *("o" * 200 for _ in range(30)))
    for number in range(40):
        form.answer("bob", "Bob", MOMENT, [(1, f"{number} {'a' * 900}")])
    form.answer("bob", "Bob", MOMENT, [(number, "\x01" * 4_000) for number in range(1, 31)])

    first = await call(alice, "get_form", form_id=form.id, limit=10)
    seen, page = [*first.answers], first
    while page.cursor is not None:
        page = await call(alice, "get_form", form_id=form.id, limit=10, cursor=page.cursor)
        assert answer.result(page)
        assert page.questions is None
        seen += page.answers

    assert answer.result(first)
    assert first.note == f"Only the first {len(first.questions)} of 30 questions are shown here."
    assert (len(seen), len({row.id for row in seen}), first.total) == (41, 41, 41)
    assert (seen[0].truncated, seen[1].truncated) == (True, None)


async def test_asking_for_missing_forms_throttles_no_user(alice: Account, sandbox: Sandbox) -> None:
    for number in range(2, 20):
        with pytest.raises(errors.NotFound, match="no such form"):
            await call(alice, "get_form", form_id=number)

    assert (await call(alice, "get_form", form_id=1)).total == 1
    assert not any(record.path.endswith("/forms/2") for record in sandbox.requests.records)


class Compared(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    times = 0

    def __getitem__(self, part: SupportsIndex | slice) -> "Compared":
        return Compared(super().__getitem__(part))

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_a_form_of_thousands_of_questions_is_named_in_linear_time() -> None:
    """20,000 questions that begin alike took four seconds, in which no other user was answered."""
    texts = [Compared("a" * 200 + str(number)) for number in range(500)]
    questions = [Question.model_construct(id=str(number), text=text) for number, text in enumerate(texts)]
    Compared.times = 0

    names = tools._names(questions)  # pyright: ignore[reportPrivateUsage]

    assert len(set(names.values())) == 500
    assert Compared.times <= 5 * 500


def test_the_options_of_a_question_are_put_in_order_once_for_all_answers() -> None:
    options = [{"id": 5, "text": "five"}, {"id": 6, "text": "six"}]
    ranking = Question.model_validate({"id": 1, "type": "ranking", "text": "q", "options": options})

    assert [ranking.readable("[5,6]"), ranking.readable("[6]")] == ["five, six", "six"]
    assert ranking.labels is ranking.labels
