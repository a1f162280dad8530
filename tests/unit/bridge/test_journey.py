"""A chat client sees one slow call: the bridge shows the page, waits for the user, and repeats the call."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.bridge.browser import Browser
from nextcloud_mcp_server.bridge.envelope import Hello, Message
from nextcloud_mcp_server.bridge.journey import ROUNDS, Completed, Journey, Means
from nextcloud_mcp_server.bridge.pages import Pages
from nextcloud_mcp_server.bridge.remote import Remote
from nextcloud_mcp_server.bridge.task_calls import TaskCalls
from nextcloud_mcp_server.bridge.waiting import Progress
from tests.far_server import HANDSHAKE, MODERN, FarServer, remote_to

pytestmark = pytest.mark.anyio

URL = "https://pay.example/e1"
PAGE: Message = {"mode": "url", "url": URL, "message": "Pay first.", "elicitationId": "e1"}
FORM: Message = {"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": {}}}
DONE: Message = {"content": [{"type": "text", "text": "Done."}]}
ERROR, TRACK = -32042, -32000
CALL: Message = {"name": "buy", "arguments": {"n": 1}, "_meta": {"progressToken": "p"}}
URLS: Message = {"elicitation": {"url": {}}}


def wants(code: int, *pages: Message) -> MCPError:
    return MCPError(code, "Consent first", {"elicitations": list(pages or [PAGE])})


def needs(state: str | None = "s", **inputs: Message) -> Message:
    asked = {"resultType": "input_required", "inputRequests": inputs}
    return asked if state is None else {**asked, "requestState": state}


def url_input(url: str = URL) -> Message:
    return {"method": "elicitation/create", "params": {**PAGE, "url": url}}


class Trip:
    """A journey to a server that answers one after the other; the last answer stays."""

    def __init__(
        self,
        *answers: Message | MCPError,
        modern: bool = False,
        chat: Hello = HANDSHAKE,
        **means: Any,  # noqa: ANN401 - passed on
    ) -> None:
        self.answers = list(answers)
        self.server = FarServer(self._answer, modern=modern)
        self.completed = Completed()
        self.opened: list[str] = []
        self.shown = anyio.Event()
        self.notices: list[Message] = []
        self.tracked: list[Message | MCPError] = []
        self.inputs: list[Message] = []
        self.action = {"action": "decline"}
        self._chat = chat
        self._means = {"beat_seconds": 0.01, "again_seconds": 0.01, "consent_seconds": 60.0, **means}
        self._policy: Any = self._means.pop("policy", "auto")
        self._browsing: Any = self._means.pop("browsing", "open")

    @property
    def hello(self) -> Hello:
        return self._chat

    async def request(self, method: str, params: Message) -> Message:
        assert method == "elicitation/create"
        del params
        return self.action

    async def _answer(self, server: FarServer, method: str, params: Message) -> Message:
        del server, params
        answers = self.tracked if method == "elicitation/track" else self.answers
        answer = answers[0] if len(answers) == 1 else answers.pop(0)
        if isinstance(answer, MCPError):
            raise answer
        return answer

    def _launch(self, url: str) -> bool:
        self.opened.append(url)
        return True

    async def _answer_input(self, remote: Remote, request: Message) -> Message:
        del remote
        self.inputs.append(request)
        return {"action": "accept", "content": {"color": "red"}}

    async def _notify(self, method: str, params: Message) -> None:
        assert method == "notifications/progress"
        self.notices.append(params)

    @asynccontextmanager
    async def journey(self, method: str = "tools/call") -> AsyncGenerator[Journey]:
        browser = Browser(lambda _: self.shown.set(), launch=self._launch)
        pages = Pages(self, browser, policy=self._policy, browsing=self._browsing)
        async with remote_to(self.server, self._chat, acts=pages.acts) as remote:
            means = Means(pages, self.completed, self._answer_input, TaskCalls(0.01), **self._means)
            yield Journey(remote, method, CALL, Progress(CALL, self._notify), means)

    async def run(self, method: str = "tools/call") -> Message:
        outcome: Message | MCPError
        async with self.journey(method) as journey:
            try:
                outcome = await journey.run()
            except MCPError as error:
                outcome = error
        if isinstance(outcome, MCPError):
            raise outcome
        return outcome

    @property
    def sent(self) -> list[Message]:
        """The requests that the server got, without what an era adds."""
        return [
            {key: value for key, value in params.items() if key != "_meta"}
            for params in self.server.asked("tools/call")
        ]


def text_of(result: Message) -> str:
    assert result["isError"] is True
    return str(result["content"][0]["text"])


BARE = {"name": "buy", "arguments": {"n": 1}}


async def test_an_answer_that_asks_nothing_passes_as_it_came() -> None:
    failed: Message = {"isError": True, "content": [], "x": None}
    for answer in (DONE, failed):
        trip = Trip(answer)

        assert await trip.run() == answer
        assert (trip.sent, trip.notices, trip.opened) == ([BARE], [], [])


async def test_an_error_that_asks_nothing_passes_as_it_came() -> None:
    trip = Trip(MCPError(-32000, "No", {"elicitations": "none"}))

    with pytest.raises(MCPError) as caught:
        await trip.run()

    assert caught.value.error.data == {"elicitations": "none"}


async def test_input_is_answered_with_the_state_and_the_call_repeated() -> None:
    trip = Trip(needs(page=url_input(), color=FORM), DONE, modern=True)

    assert await trip.run() == DONE
    assert trip.opened == [URL]
    assert trip.inputs == [FORM]
    assert trip.sent[1] == {
        **BARE,
        "inputResponses": {
            "page": {"action": "accept"},
            "color": {"action": "accept", "content": {"color": "red"}},
        },
        "requestState": "s",
    }


async def test_a_state_that_was_not_sent_is_not_sent_back() -> None:
    trip = Trip(needs(None, page=url_input()), DONE, modern=True)

    await trip.run()

    assert trip.sent[1] == {**BARE, "inputResponses": {"page": {"action": "accept"}}}


async def test_a_server_that_only_wants_time_is_asked_again_and_after_some_rounds_from_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As at a server that holds each of the calls for a while.
    monkeypatch.setattr("nextcloud_mcp_server.bridge.journey._SHORT_SECONDS", 0.0)
    trip = Trip(*[needs(f"s{number}") for number in range(ROUNDS + 1)], DONE, modern=True, again_seconds=0.0)

    assert await trip.run() == DONE
    states = [params.get("requestState") for params in trip.sent]
    assert states == [None, *[f"s{number}" for number in range(ROUNDS - 1)], None, f"s{ROUNDS}"]


async def test_a_call_waits_for_the_servers_word_and_is_repeated_without_anything_more() -> None:
    trip = Trip(wants(ERROR), DONE, again_seconds=60.0)
    results: list[Message] = []

    async def finish() -> None:
        await trip.shown.wait()
        trip.completed.add("another")
        trip.completed.add("e1")

    async with trip.journey() as journey, anyio.create_task_group() as group:
        group.start_soon(finish)
        results.append(await journey.run())

    assert results == [DONE]
    assert trip.sent == [BARE, BARE]
    assert trip.opened == [URL]


async def test_a_word_that_came_before_the_question_counts() -> None:
    trip = Trip(wants(ERROR), DONE, again_seconds=60.0)
    trip.completed.add("e1")

    assert await trip.run() == DONE


async def test_a_server_that_says_nothing_is_asked_again_and_the_page_opened_once() -> None:
    trip = Trip(wants(ERROR), wants(ERROR), wants(ERROR), DONE)

    assert await trip.run() == DONE
    assert (len(trip.sent), trip.opened) == (4, [URL])


async def test_a_link_that_is_repeated_as_text_is_still_waited_for() -> None:
    asks = {"isError": True, "content": [{"type": "text", "text": f"First open {URL}"}]}
    trip = Trip(wants(ERROR), asks, DONE)

    assert await trip.run() == DONE
    assert trip.opened == [URL]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"status": "declined"}, "The user declined, so nothing was done."),
        ({"status": "failed", "error": "No account."}, "The consent request failed. No account."),
        ({"status": "expired"}, "The consent request failed. It ended without access."),
        ({}, "The consent request failed. It ended without access."),
    ],
)
async def test_a_tracked_consent_that_ended_ends_the_call(status: Message, said: str) -> None:
    trip = Trip(wants(TRACK))
    trip.tracked = [status]

    assert text_of(await trip.run()) == said
    assert trip.server.asked("elicitation/track") == [{"elicitationId": "e1"}]


async def test_a_tracked_consent_is_followed_until_it_is_complete() -> None:
    trip = Trip(wants(TRACK), wants(TRACK), DONE)
    trip.tracked = [MCPError(TRACK, "Still waiting"), {"status": "complete"}]

    assert await trip.run() == DONE
    assert trip.opened == [URL]


async def test_a_server_that_cannot_track_says_so() -> None:
    trip = Trip(wants(TRACK))
    trip.tracked = [MCPError(-32601, "Method not found")]

    with pytest.raises(MCPError, match="Method not found"):
        await trip.run()


async def test_a_user_who_declines_is_believed_in_each_dialect() -> None:
    forms = Hello("2025-11-25", {"elicitation": {"form": {}}}, {})
    by_error = Trip(wants(ERROR), DONE, chat=forms)
    by_input = Trip(needs(page=url_input()), DONE, modern=True, chat=forms)

    assert text_of(await by_error.run()) == "The user declined, so nothing was done."
    assert await by_input.run() == DONE
    assert len(by_error.sent) == 1
    assert by_input.sent[1]["inputResponses"] == {"page": {"action": "decline"}}
    assert by_error.opened + by_input.opened == []


async def test_a_page_that_nobody_sees_ends_the_call_at_once_with_the_link() -> None:
    trip = Trip(wants(ERROR), browsing="never")

    said = text_of(await trip.run())

    assert said.startswith("The user must consent on a web page first, which was not opened here.")
    assert f"\n\n{URL}\n\n" in said
    assert len(trip.sent) == 1


@pytest.mark.parametrize("modern", [False, True])
async def test_a_hostile_address_ends_the_call_and_stands_in_no_answer(*, modern: bool) -> None:
    url = "file:///etc/passwd"
    trip = Trip(
        needs(page=url_input(url)) if modern else wants(ERROR, {**PAGE, "url": url}), DONE, modern=modern
    )

    said = text_of(await trip.run())

    assert said == (
        "The server “far” asked to open something that is not a web page. It was not opened, and nothing was done."
    )
    assert (len(trip.sent), trip.opened) == (1, [])


async def test_a_user_who_does_not_finish_is_not_waited_for_longer_than_allowed() -> None:
    trip = Trip(wants(ERROR), consent_seconds=0.2)

    said = text_of(await trip.run())

    assert said.startswith("The user did not finish in the browser within 1 min, so nothing was done.")
    assert f"\n\n{URL}\n\n" in said


async def test_what_is_no_call_of_a_tool_ends_with_an_error() -> None:
    trip = Trip(wants(ERROR), browsing="never")

    with pytest.raises(MCPError) as caught:
        await trip.run("prompts/get")

    assert URL in caught.value.error.message


async def test_a_waiting_call_reports_progress_with_a_way_out() -> None:
    trip = Trip(*[wants(ERROR)] * 20, DONE)

    await trip.run()

    counts = [notice["progress"] for notice in trip.notices]
    assert counts == sorted(set(counts))
    assert all(notice["progressToken"] == "p" for notice in trip.notices)
    assert trip.notices[0]["message"].startswith(
        "Waiting for you in the browser, at pay.example. Cancel the call to stop; it ends by itself in 60 s."
    )


@pytest.mark.parametrize(
    ("chat", "answer", "modern"),
    [
        (Hello("2025-11-25", URLS, {}), wants(ERROR), False),
        (Hello("2025-11-25", URLS, {}), wants(TRACK), False),
        (Hello("2026-07-28", URLS, {}), needs(page=url_input()), True),
        (Hello("2026-07-28", {"sampling": {}}, {}), needs(x={"method": "sampling/createMessage"}), True),
        (Hello("2026-07-28", {"roots": {}}, {}), needs(x={"method": "roots/list"}), True),
        (Hello("2026-07-28", {"elicitation": {}}, {}), needs(x=FORM), True),
    ],
)
async def test_a_question_that_the_chat_client_understands_is_passed_on(
    chat: Hello, answer: Message | MCPError, *, modern: bool
) -> None:
    trip = Trip(answer, chat=chat, modern=modern)
    try:
        result: object = await trip.run()
    except MCPError as error:
        assert isinstance(answer, MCPError)
        result = answer if error.error == answer.error else error

    assert result == answer
    assert (len(trip.sent), trip.opened, trip.inputs) == (1, [], [])


@pytest.mark.parametrize(
    ("chat", "answer", "modern"),
    [
        # A modern client knows no errors that ask.
        (Hello("2026-07-28", URLS, {}), wants(ERROR), False),
        (MODERN, needs(page=url_input()), True),
        (Hello("2026-07-28", URLS, {}), needs(page=url_input(), x=FORM), True),
        (Hello("2025-11-25", URLS, {}), needs(x=FORM), True),
    ],
)
async def test_a_question_that_it_does_not_understand_is_answered_for_it(
    chat: Hello, answer: Message | MCPError, *, modern: bool
) -> None:
    trip = Trip(answer, DONE, chat=chat, modern=modern)

    assert await trip.run() == DONE
    assert len(trip.sent) == 2


async def test_only_the_newest_words_of_servers_are_kept() -> None:
    completed = Completed()

    for number in range(300):
        completed.add(str(number))

    assert await completed.wait({"299", "x"}, 0.01)
    assert not await completed.wait({"0"}, 0.01)
