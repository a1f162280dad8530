import json

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.forms.client import FormsClient, Question
from tests.dav_fakes import Network, http_over, network, recorded

OPTIONS = [{"id": number, "text": text} for number, text in enumerate(("Taste", "Price", "Good", "Bad"), 1)]
STUB = {"ocs": {"data": [{"id": 1, "title": "Rec form", "permissions": ["results"]}]}}


def client(*answers: httpx2.Response) -> tuple[FormsClient, Network]:
    net = network(*answers)
    return FormsClient(http_over(net)), net


async def test_an_unknown_form_is_not_asked_for_because_that_counts_as_an_attack() -> None:
    forms, net = client(recorded("forms/list"), recorded("forms/list"))

    with pytest.raises(errors.NotFound, match="Call nc_forms_get_form without"):
        await forms.form("1")

    assert [dict(request.url.params)["type"] for request in net.seen] == ["owned", "shared"]


async def test_a_form_that_went_meanwhile_is_missing_and_not_the_app() -> None:
    forms, _ = client(httpx2.Response(200, json=STUB), recorded("forms/get_404"))

    with pytest.raises(errors.NotFound, match="no such form"):
        await forms.form("1")


async def test_a_form_comes_with_its_questions_and_answers() -> None:
    forms, net = client(httpx2.Response(200, json=STUB), recorded("forms/get"), recorded("forms/submissions"))

    form = await forms.form("1")
    found = await forms.submissions(form, query="", limit=5, offset=10)

    assert (form.title, form.owner, form.results) == ("Rec form", "alice", True)
    assert [(question.text, question.type) for question in form.questions] == [("Name?", "short")]
    assert (found.submissions, found.total) == ([], 0)
    assert dict(net.seen[2].url.params) == {"format": "json", "limit": "5", "offset": "10"}


@pytest.mark.parametrize(
    ("kind", "stored", "words"),
    [
        ("short", "[1]", "[1]"),
        ("ranking", json.dumps([2, 1]), "Price, Taste"),
        ("grid", json.dumps({"1": 3, "2": [3, "4"]}), "Taste: Good; Price: Good, Bad"),
        ("grid", json.dumps({"1": {"3": 4, "4": 1}}), "Taste: Good 4, Bad 1"),
        ("grid", json.dumps({"1": 9}), "Taste: 9"),
        ("ranking", "no JSON", "no JSON"),
    ],
)
def test_answers_that_are_ids_become_words(kind: str, stored: str, words: str) -> None:
    question = Question.model_validate({"id": 1, "type": kind, "text": "How?", "options": OPTIONS})

    assert question.readable(stored) == words
