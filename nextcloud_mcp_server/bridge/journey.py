"""One request of the chat client on its way through consent: asked, shown, waited for, repeated."""

import math
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from nextcloud_mcp_server.bridge.elicitation import (
    TRACKED,
    Dialect,
    Outcome,
    Page,
    Question,
    read,
    still_asks,
)
from nextcloud_mcp_server.bridge.envelope import Hello, Message, as_object
from nextcloud_mcp_server.bridge.pages import Pages, Shown, host_of
from nextcloud_mcp_server.bridge.remote import Remote
from nextcloud_mcp_server.bridge.task_calls import TaskCalls, Watching
from nextcloud_mcp_server.bridge.waiting import BEAT_SECONDS, Progress
from nextcloud_mcp_server.errors import NextcloudMcpError

#: How long a call waits for the user.
CONSENT_SECONDS = 600.0
#: A server that says nothing when the user is done is asked again after this time.
AGAIN_SECONDS = 30.0
#: Clients make ten rounds, and servers prepare for that; before, the call begins anew, which a server holds as well.
ROUNDS = 7
_SHORT_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 2.0
_COMPLETED_KEPT = 200

#: Answers an input request that is not a page, in place of the chat client or through it.
AnswerInput = Callable[[Remote, Message], Awaitable[Message]]


class Completed:
    """The elicitations of which remote servers have said that they are over."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        self._more = anyio.Event()

    def add(self, elicitation_id: str) -> None:
        """Remember a finished consent request, and wake the calls that wait."""
        self._ids[elicitation_id] = None
        while len(self._ids) > _COMPLETED_KEPT:
            del self._ids[next(iter(self._ids))]
        self._more.set()
        self._more = anyio.Event()

    async def wait(self, ids: set[str], seconds: float) -> bool:
        """Wait until one of these is over; return whether it is."""
        with anyio.move_on_after(seconds):
            while not ids & self._ids.keys():
                await self._more.wait()
        return bool(ids & self._ids.keys())


class _Unanswered(Exception):
    """Nobody could answer what a task asks; `outcome` is what the chat client gets."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Means:
    """What every journey of a bridge uses."""

    pages: Pages
    completed: Completed
    answer_input: AnswerInput
    tasks: TaskCalls
    consent_seconds: float = CONSENT_SECONDS
    beat_seconds: float = BEAT_SECONDS
    again_seconds: float = AGAIN_SECONDS


@dataclass(slots=True)
class Journey:
    """A request to one remote server, repeated until its questions are answered."""

    remote: Remote
    method: str
    params: Message
    progress: Progress
    means: Means
    _urls: set[str] = field(default_factory=set[str])
    _rounds: int = 0
    _pause_seconds: float = 0.0
    #: Ends the wait for the user.
    _limit: anyio.CancelScope | None = None

    async def run(self) -> Message:
        """Return the result of the request.

        Raises:
            MCPError: The server answered with an error, or the user did not consent.
        """
        means = self.means
        settled: Outcome | None = None
        with means.pages.opened(self._urls):
            outcome = await self._send({})
            question = read(outcome)
            if question is None or self._passes(question):
                return outcome.value()
            host = host_of(question.pages[0].url) if question.pages else self.remote.name
            with anyio.move_on_after(means.consent_seconds) as self._limit:
                async with self.progress.waiting(
                    host, means.consent_seconds, beat_seconds=means.beat_seconds
                ):
                    settled = await self._settle(question)
        if settled is None:
            minutes = max(1, round(means.consent_seconds / 60))
            settled = self._ended(
                f"The user did not finish in the browser within {minutes} min, so nothing was done.",
                question.pages,
            )
        # Raised in the block above, an error would come out as a group, which no chat client understands.
        return settled.value()

    def _passes(self, question: Question) -> bool:
        """Tell whether the chat client understands a question in this form by itself."""
        hello = self.means.pages.hello
        if self.method.startswith("tasks/"):
            # A repetition would not begin the task anew.
            return True
        if question.dialect is not Dialect.INPUT:
            # A modern client knows no errors that ask.
            return hello.shows_urls and not hello.modern
        if not hello.modern:
            return False
        asked = [as_object(request) for request in (question.inputs or {}).values()]
        return (not question.pages or hello.shows_urls) and all(_can(hello, request) for request in asked)

    async def _settle(self, question: Question) -> Outcome:
        while True:
            more = await self._answer(question)
            if isinstance(more, Outcome):
                return more
            outcome = await self._send(more)
            asked = read(outcome) or still_asks(outcome, frozenset(self._urls))
            if asked is None:
                return outcome
            question = asked

    async def _answer(self, question: Question) -> Message | Outcome:
        """Answer a question; return what the repeated request has in addition, or an outcome that ends it."""
        actions: dict[str, Shown] = {}
        for page in question.pages:
            shown = await self.means.pages.show(self.remote.name, page, self._urls)
            if shown in (Shown.UNSEEN, Shown.REFUSED):
                return self._unseen(shown, question.pages)
            if shown is Shown.DECLINED and question.dialect is not Dialect.INPUT:
                return self._ended("The user declined, so nothing was done.", ())
            actions[page.key] = shown
        if question.dialect is Dialect.INPUT:
            return await self._input(question, actions)
        if question.dialect is Dialect.TRACK:
            return await self._track(question)
        if question.dialect is Dialect.ERROR:
            ids = {page.id for page in question.pages}
            await self.means.completed.wait(ids, self.means.again_seconds)
            return {}
        await anyio.sleep(min(_LONGEST_PAUSE_SECONDS, self.means.again_seconds))
        return {}

    async def _input(self, question: Question, actions: dict[str, Shown]) -> Message:
        responses: Message = {key: {"action": shown.value} for key, shown in actions.items()}
        for key, request in (question.inputs or {}).items():
            responses[key] = await self.means.answer_input(self.remote, request)
        self._rounds += 1
        if not responses:
            await anyio.sleep(self._pause_seconds)
            if self._rounds >= ROUNDS:
                self._rounds = 0
                return {}
        state = {} if question.state is None else {"requestState": question.state}
        return ({"inputResponses": responses} if responses else {}) | state

    async def _track(self, question: Question) -> Message | Outcome:
        for page in question.pages:
            try:
                ended = await self.remote.request("elicitation/track", {"elicitationId": page.id})
            except MCPError as error:
                if error.code != TRACKED:
                    return Outcome(error=error)
                # Its own time limit is over, and the bridge's is not.
                continue
            status = ended.get("status")
            if status == "declined":
                return self._ended("The user declined, so nothing was done.", ())
            if status != "complete":
                why = str(ended.get("error") or "It ended without access.")[:500]
                return self._ended(f"The consent request failed. {why}", ())
        return {}

    async def _send(self, more: Message) -> Outcome:
        started_at = anyio.current_time()
        try:
            outcome = Outcome(result=await self._request({**self.params, **more}))
        except MCPError as error:
            outcome = Outcome(error=error)
        except _Unanswered as ended:
            return ended.outcome
        except NextcloudMcpError as error:
            return self._ended(str(error), ())
        # A server that does not hold a call is asked ever more slowly.
        short = anyio.current_time() - started_at < _SHORT_SECONDS
        longer = min(_LONGEST_PAUSE_SECONDS, max(_SHORT_SECONDS, self._pause_seconds * 2))
        self._pause_seconds = longer if short else 0.0
        return outcome

    async def _request(self, params: Message) -> Message:
        if self.method != "tools/call":
            return await self.remote.request(self.method, params)
        watching = Watching(self.progress, self._answer_task, self._unlimited)
        return await self.means.tasks.call(self.remote, self.means.pages.hello, params, watching)

    @contextmanager
    def _unlimited(self) -> Generator[None]:
        """Let the time limit of the consent stand still while the call runs, which it does after the consent."""
        if self._limit is None:
            yield
            return
        self._limit.deadline = math.inf
        try:
            yield
        finally:
            self._limit.deadline = anyio.current_time() + self.means.consent_seconds

    async def _answer_task(self, requests: Mapping[str, Message]) -> Message:
        """Answer what a task of 2026-07-28 asks, as the same questions of a call."""
        asked = read(Outcome(result={"resultType": "input_required", "inputRequests": dict(requests)}))
        answer = await self._answer(asked) if asked is not None else {}
        if isinstance(answer, Outcome):
            raise _Unanswered(answer)
        return as_object(answer.get("inputResponses"))

    def _unseen(self, shown: Shown, pages: tuple[Page, ...]) -> Outcome:
        if shown is Shown.REFUSED:
            return self._ended(
                f"The server “{self.remote.name}” asked to open something that is not a web page. "
                "It was not opened, and nothing was done.",
                (),
            )
        return self._ended("The user must consent on a web page first, which was not opened here.", pages)

    def _ended(self, sentence: str, pages: tuple[Page, ...]) -> Outcome:
        """Word an answer that ends the call, for a model or a user; a link stands on its own line."""
        links = "\n\n".join(page.url for page in pages)
        if links:
            sentence = f"{sentence} The user opens this link in a browser:\n\n{links}\n\nWhen that is done, call again."
        if self.method != "tools/call":
            return Outcome(error=MCPError(INTERNAL_ERROR, sentence))
        return Outcome(result={"content": [{"type": "text", "text": sentence}], "isError": True})


def _can(hello: Hello, request: Message) -> bool:
    method = request.get("method")
    if method == "elicitation/create":
        return hello.shows_forms
    return hello.can({"sampling/createMessage": "sampling", "roots/list": "roots"}.get(str(method), ""))
