"""The four forms in which a client is asked for consent, each with a client that supports it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import anyio
import httpx2
from anyio.abc import TaskStatus

from nextcloud_mcp_server.demo.narrator import Narrator
from nextcloud_mcp_server.demo.wire_client import (
    DRAFT_EXTENSION,
    HandshakeClient,
    Message,
    StatelessClient,
    WireClient,
)
from nextcloud_mcp_server.errors import NotAsPromised

Name = Literal["draft", "2025-11-25", "2026-07-28", "text"]

#: Repeats the tool call; the argument is added to the request's parameters.
Again = Callable[[Message], Awaitable[Message]]

_LINK = re.compile(r"https?://\S+/oauth/provision\S+")
_COMPLETE = "notifications/elicitation/complete"
_URL_MODE: Mapping[str, Any] = MappingProxyType({"elicitation": {"form": {}, "url": {}}})


@dataclass(frozen=True, slots=True)
class Ask:
    """The server's question: the link, and the value to return or to track."""

    url: str
    ticket: str = ""


class Dialect(ABC):
    """One wire form, from the client's side."""

    #: Parts of sentences: the capabilities that the client declares, and how it is asked.
    says: str
    asked_by: str
    capabilities: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, narrator: Narrator) -> None:
        self.narrator = narrator
        #: Whether the messages were shown before and are not shown again.
        self.brief = False

    def client(self, http: httpx2.AsyncClient, url: str) -> WireClient:
        """Create a client that declares the capabilities of this form."""
        return HandshakeClient(http, url, capabilities=self.capabilities)

    async def attend(
        self, client: WireClient, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Run the background work of such a client; most have none."""
        del client
        task_status.started()

    def show(self, what: str, message: Message) -> None:
        """Show a message as it is sent."""
        if self.brief:
            self.narrator.say(f"{what}.")
        else:
            self.narrator.say(f"{what}. On the wire:")
            self.narrator.wire(message)

    @abstractmethod
    def asks(self, answer: Message) -> Ask | None:
        """Return the server's question in a response, or None."""

    def asks_still(self, answer: Message) -> bool:
        """Tell whether a response asks, in this form or, after an unanswered question, as text."""
        return (self.asks(answer) or _in_text(answer)) is not None

    @abstractmethod
    async def finish(self, client: WireClient, ask: Ask, again: Again) -> Message:
        """Wait for the end of the consent request in this form; return the response to the waiting call."""


class Draft(Dialect):
    """The draft of SEP-1036: an error, then a request that is answered at the end of the consent request."""

    says = "MCP 2025-11-25 and declares that it knows the draft (elicitation/track)"
    asked_by = "An error with the code -32000 of the draft"
    capabilities = MappingProxyType({"extensions": {DRAFT_EXTENSION: {}}})

    def asks(self, answer: Message) -> Ask | None:
        """Read the data of the error."""
        return _in_error(answer, -32000)

    async def finish(self, client: WireClient, ask: Ask, again: Again) -> Message:
        """Track the consent request, and call again when it is complete."""
        self.narrator.say("→ elicitation/track: the client asks to be told how the consent request ends.")
        client.on_notice = self._progress
        async with self.narrator.waiting("The server answers when the consent request is over"):
            tracked = await client.request(
                "elicitation/track", {"elicitationId": ask.ticket, "_meta": {"progressToken": "consent"}}
            )
        client.on_notice = None
        self.show("← elicitation/track is answered", tracked)
        if tracked.get("result") != {"status": "complete"}:
            raise NotAsPromised("the consent request ended without access, so there is nothing more to show.")
        self.narrator.say("→ The client repeats its call.")
        return await again({})

    def _progress(self, notice: Message) -> None:
        params = notice.get("params", {})
        self.narrator.say(
            f"← notifications/progress: {params.get('message')} "
            f"({params.get('progress', 0):.0f} of {params.get('total', 0):.0f} s)"
        )


class UrlError(Dialect):
    """2025-11-25: an error, then a notification at the end of the consent request."""

    says = "MCP 2025-11-25 and declares that it can open web pages (elicitation.url)"
    asked_by = "An error with the code -32042 of MCP 2025-11-25"
    capabilities = _URL_MODE

    def __init__(self, narrator: Narrator) -> None:
        super().__init__(narrator)
        self._notices: dict[str, Message] = {}
        self._more = anyio.Event()

    async def attend(
        self, client: WireClient, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Listen for notifications."""
        client.on_notice = self._notice
        await client.listen(task_status=task_status)

    def asks(self, answer: Message) -> Ask | None:
        """Read the data of the error."""
        return _in_error(answer, -32042)

    async def finish(self, client: WireClient, ask: Ask, again: Again) -> Message:
        """Wait for the notification, and call again."""
        del client
        async with self.narrator.waiting("The client waits to be told"):
            while ask.ticket not in self._notices:
                await self._more.wait()
        self.show("← The server says that the consent request is over", self._notices[ask.ticket])
        self.narrator.say("→ The client repeats its call.")
        return await again({})

    def _notice(self, notice: Message) -> None:
        if notice.get("method") == _COMPLETE:
            self._notices[notice["params"]["elicitationId"]] = notice
            self._more.set()
            self._more = anyio.Event()


class InputRequired(Dialect):
    """2026-07-28: a result that asks; the repeated call is held until the end of the consent request."""

    says = "MCP 2026-07-28 and declares that it can open web pages (elicitation.url)"
    asked_by = "A result that asks for input, as in MCP 2026-07-28"
    capabilities = _URL_MODE

    def client(self, http: httpx2.AsyncClient, url: str) -> WireClient:
        """Create a client without a session."""
        return StatelessClient(http, url, capabilities=self.capabilities)

    def asks(self, answer: Message) -> Ask | None:
        """Read the one input request."""
        result = answer.get("result", {})
        if result.get("resultType") != "input_required":
            return _in_text(answer)
        requests = result.get("inputRequests", {})
        url = requests["provision"]["params"]["url"] if requests else ""
        return Ask(url, result["requestState"])

    async def finish(self, client: WireClient, ask: Ask, again: Again) -> Message:
        """Repeat the call at once; the server holds it."""
        del client
        accepted: Message = {"inputResponses": {"provision": {"action": "accept"}}}
        retry: Message = {**accepted, "requestState": ask.ticket} if ask.ticket else {}
        shown = {**retry, "requestState": f"{ask.ticket[:12]}…"}
        self.show("→ The client repeats its call at once, and gives the state back", shown)
        since = anyio.current_time()
        async with self.narrator.waiting(
            "The server holds the repeated call until the consent request is over"
        ):
            answer = await again(retry)
            # The consent request takes longer than the hold: the server asks for another round, without a link.
            while (more := self.asks(answer)) is not None and not more.url:
                answer = await again({"requestState": more.ticket})
        self.narrator.say(
            f"← The call was held for {anyio.current_time() - since:.1f} s; here is its answer."
        )
        return answer


class Text(Dialect):
    """Clients that cannot open pages: the link is sent as text, and the model repeats the call."""

    says = "MCP 2025-11-25 and declares nothing about web pages"
    asked_by = "A result in plain words, for the model to pass on"

    def asks(self, answer: Message) -> Ask | None:
        """Find the link in the text."""
        return _in_text(answer)

    async def finish(self, client: WireClient, ask: Ask, again: Again) -> Message:
        """Repeat the call; the server holds it for a short time."""
        del client
        self.narrator.say("→ The model repeats the call, as the text says.")
        async with self.narrator.waiting("The server holds the repeated call for a short time"):
            answer = await again({})
            while self.asks(answer) == ask:
                answer = await again({})
        self.narrator.say("← The repeated call goes through.")
        return answer


DIALECTS: dict[Name, type[Dialect]] = {
    "draft": Draft,
    "2025-11-25": UrlError,
    "2026-07-28": InputRequired,
    "text": Text,
}


def _in_error(answer: Message, code: int) -> Ask | None:
    error: dict[str, Any] = answer.get("error", {})
    if error.get("code") != code:
        return None
    wanted = error["data"]["elicitations"][0]
    return Ask(wanted["url"], wanted["elicitationId"])


def _in_text(answer: Message) -> Ask | None:
    result = answer.get("result", {})
    if not result.get("isError"):
        return None
    found = _LINK.search(result["content"][0]["text"])
    return Ask(found[0]) if found else None
