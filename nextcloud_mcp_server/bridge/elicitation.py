"""Reads in an answer whether a remote server asks for input first, in every dialect of the protocol.

| dialect | how the server asks | how the bridge learns that it is done |
|---|---|---|
| INPUT, 2026-07-28 | a result with `resultType: input_required` | the call is repeated; it may be held |
| ERROR, 2025-11-25 | error -32042 | `notifications/elicitation/complete`; else the call is repeated rarely |
| TRACK, draft of SEP-1036 | error -32000 with elicitations in its data | `elicitation/track` is answered |
| TEXT | a tool error whose text holds a link that was opened for this call | the call is repeated |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import URL_ELICITATION_REQUIRED

from nextcloud_mcp_server.bridge.envelope import Message, as_list, as_object

TRACKED: Final = -32000
#: A server that asks for more pages than this at once is not answered.
MOST_PAGES = 5
_LONGEST_TEXT = 500


class Dialect(Enum):
    """The form in which a server asks."""

    INPUT = auto()
    ERROR = auto()
    TRACK = auto()
    TEXT = auto()


@dataclass(frozen=True, slots=True)
class Page:
    """A page that the server wants the user to open. `key` is that of an input request, `id` of an elicitation."""

    url: str
    message: str
    id: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a request: a result, or an error."""

    result: Message | None = None
    error: MCPError | None = None

    def value(self) -> Message:
        """Return the result.

        Raises:
            MCPError: The answer is an error.
        """
        if self.error is not None:
            raise self.error
        return self.result or {}


@dataclass(frozen=True, slots=True)
class Question:
    """What a server asks for before it runs a call. `inputs` are requests for something else than a page."""

    dialect: Dialect
    pages: tuple[Page, ...] = ()
    inputs: Mapping[str, Message] | None = None
    state: str | None = None


def read(outcome: Outcome) -> Question | None:
    """Return the question in an answer; None if the server does not ask."""
    if outcome.error is not None:
        return _in_error(outcome.error)
    result = outcome.result or {}
    if result.get("resultType") != "input_required":
        return None
    requests = as_object(result.get("inputRequests"))
    pages = tuple(_page(key, as_object(request)) for key, request in requests.items() if _is_url(request))
    inputs = {key: as_object(request) for key, request in requests.items() if not _is_url(request)}
    state = result.get("requestState")
    return Question(Dialect.INPUT, pages[:MOST_PAGES], inputs, state if isinstance(state, str) else None)


def still_asks(outcome: Outcome, opened: frozenset[str]) -> Question | None:
    """Return a question that repeats, as text for a model, a link which was opened for this call."""
    result = outcome.result or {}
    if not result.get("isError"):
        return None
    text = " ".join(str(as_object(part).get("text", "")) for part in as_list(result.get("content")))
    pages = tuple(Page(url, "") for url in sorted(opened) if url in text)
    return Question(Dialect.TEXT, pages) if pages else None


def is_url_request(params: Mapping[str, Any]) -> bool:
    """Tell whether the parameters of an `elicitation/create` ask for a page."""
    return params.get("mode") == "url"


def page_of(params: Mapping[str, Any], *, key: str = "") -> Page:
    """Read the page in the parameters of an `elicitation/create`."""
    return Page(
        plain(str(params.get("url", "")), 4000),
        plain(str(params.get("message", "")), _LONGEST_TEXT),
        str(params.get("elicitationId", "")),
        key,
    )


def plain(text: str, longest: int) -> str:
    """Remove from text of a server whatever could act on a terminal."""
    return "".join(letter for letter in text if letter.isprintable())[:longest]


def _in_error(error: MCPError) -> Question | None:
    if error.code not in (URL_ELICITATION_REQUIRED, TRACKED):
        return None
    pages = [as_object(one) for one in as_list(as_object(error.error.data).get("elicitations"))]
    if not pages or not all(is_url_request(page) for page in pages):
        return None
    dialect = Dialect.ERROR if error.code == URL_ELICITATION_REQUIRED else Dialect.TRACK
    return Question(dialect, tuple(page_of(page) for page in pages[:MOST_PAGES]))


def _is_url(request: object) -> bool:
    given = as_object(request)
    return given.get("method") == "elicitation/create" and is_url_request(as_object(given.get("params")))


def _page(key: str, request: Message) -> Page:
    return page_of(as_object(request.get("params")), key=key)
