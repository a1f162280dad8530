import pytest
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.bridge.elicitation import (
    MOST_PAGES,
    Dialect,
    Outcome,
    Page,
    page_of,
    read,
    still_asks,
)
from nextcloud_mcp_server.bridge.envelope import Message

PAGE: Message = {"mode": "url", "url": "https://a.example/p", "message": "Please", "elicitationId": "e"}
FORM: Message = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}


@pytest.mark.parametrize(("code", "dialect"), [(-32042, Dialect.ERROR), (-32000, Dialect.TRACK)])
def test_an_error_with_pages_is_a_question(code: int, dialect: Dialect) -> None:
    question = read(Outcome(error=MCPError(code, "x", {"elicitations": [PAGE]})))

    assert question is not None
    assert question.dialect is dialect
    assert question.pages == (Page("https://a.example/p", "Please", "e"),)


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (-32000, None),
        (-32000, {"elicitations": []}),
        (-32000, {"elicitations": "x"}),
        (-32042, {"elicitations": [{"mode": "form"}]}),
        (-32042, [PAGE]),
        (-32603, {"elicitations": [PAGE]}),
    ],
)
def test_other_errors_are_no_question(code: int, data: object) -> None:
    error = MCPError(code, "x", data)

    assert read(Outcome(error=error)) is None
    with pytest.raises(MCPError):
        Outcome(error=error).value()


def test_an_input_request_is_a_question_with_its_state() -> None:
    requests: Message = {"k": {"method": "elicitation/create", "params": PAGE}, "f": FORM}
    result: Message = {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}

    question = read(Outcome(result=result))

    assert question is not None
    assert [page.key for page in question.pages] == ["k"]
    assert question.inputs == {"f": FORM}
    assert question.state == "s"


@pytest.mark.parametrize("result", [{}, {"resultType": "complete"}, {"resultType": "task"}])
def test_a_result_of_another_kind_is_none(result: dict[str, object]) -> None:
    assert read(Outcome(result=result)) is None


def test_a_server_cannot_open_a_hundred_pages() -> None:
    question = read(Outcome(error=MCPError(-32042, "x", {"elicitations": [PAGE] * 100})))

    assert question is not None
    assert len(question.pages) == MOST_PAGES


def test_a_text_that_repeats_an_opened_link_still_asks() -> None:
    url = "https://a.example/p"
    text = {"content": [{"type": "text", "text": f"Not yet:\n\n{url}\n\nThen call again."}]}

    question = still_asks(Outcome(result={**text, "isError": True}), frozenset({url}))

    assert question is not None
    assert question.dialect is Dialect.TEXT
    assert still_asks(Outcome(result=text), frozenset({url})) is None
    assert still_asks(Outcome(result={**text, "isError": True}), frozenset({"https://b.example/"})) is None


def test_what_a_server_says_cannot_act_on_a_terminal() -> None:
    page = page_of(
        {"mode": "url", "url": "https://a.example/\x1b]8;;x", "message": "Hi\x1b[2J\u202e\n" + "x" * 900}
    )

    assert page.url == "https://a.example/]8;;x"
    assert page.message.startswith("Hi[2Jxx")
    assert len(page.message) == 500
