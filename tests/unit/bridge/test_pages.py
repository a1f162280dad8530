"""A page is shown once, where the user can see it, and only with the consent that the user wants to give."""

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.bridge.browser import Browser
from nextcloud_mcp_server.bridge.elicitation import Page
from nextcloud_mcp_server.bridge.envelope import Hello, Message
from nextcloud_mcp_server.bridge.pages import Pages, Shown, host_of

pytestmark = pytest.mark.anyio

URL = "https://pay.example:8443/e1?x=1"
PAGE = Page(URL, "Pay first.", id="e1", key="k")
NOTHING: Message = {}
FORMS: Message = {"elicitation": {"form": {}}}
URLS: Message = {"elicitation": {"url": {}}}
YES: Message = {"action": "accept", "content": {"open": True}}


class ChatClient:
    """A chat client that answers each question in the same way."""

    def __init__(
        self, capabilities: Message, answer: Message | None = None, version: str = "2025-11-25"
    ) -> None:
        self.hello = Hello(version, capabilities, {})
        self.asked: list[Message] = []
        self._answer = answer

    async def request(self, method: str, params: Message) -> Message:
        assert method == "elicitation/create"
        self.asked.append(params)
        if self._answer is None:
            raise MCPError(-32603, "No")
        return self._answer


class Screen:
    """What the user sees of the browser, and of the terminal."""

    def __init__(self, *, starts: bool = True) -> None:
        self.opened: list[str] = []
        self.said: list[str] = []
        self._starts = starts
        self.browser = Browser(self.said.append, launch=self._launch)

    def _launch(self, url: str) -> bool:
        self.opened.append(url)
        return self._starts


async def shown(
    chat: ChatClient,
    screen: Screen,
    page: Page = PAGE,
    server: str = "shop",
    **options: Any,  # noqa: ANN401 - passed on
) -> Shown:
    return await Pages(chat, screen.browser, **options).show(server, page, set())


async def test_a_page_is_open_once_however_many_calls_wait_for_it_and_anew_after_they_ended() -> None:
    screen = Screen()
    pages = Pages(ChatClient(NOTHING), screen.browser)
    first, second = set[str](), set[str]()

    with pages.opened(first):
        answers = [await pages.show("shop", PAGE, first), await pages.show("shop", PAGE, first)]
        with pages.opened(second):
            answers.append(await pages.show("shop", PAGE, second))
    while_open = list(screen.opened)
    answers.append(await pages.show("shop", PAGE, set()))

    assert answers == [Shown.OPEN] * 4
    assert while_open == [URL]
    assert screen.opened == [URL, URL]


async def test_a_page_stays_open_until_the_last_call_ended() -> None:
    screen = Screen()
    pages = Pages(ChatClient(NOTHING), screen.browser)
    first, second = set[str](), set[str]()

    with pages.opened(second):
        with pages.opened(first):
            await pages.show("shop", PAGE, first)
            await pages.show("shop", PAGE, second)
        await pages.show("shop", PAGE, set())

    assert screen.opened == [URL]


@pytest.mark.parametrize(
    ("capabilities", "answer", "policy", "outcome", "counts"),
    [
        # Without a form the bridge cannot ask: it opens, unless it was told to ask.
        (NOTHING, None, "auto", Shown.OPEN, (0, 1)),
        (NOTHING, None, "ask", Shown.UNSEEN, (0, 0)),
        (NOTHING, None, "yes", Shown.OPEN, (0, 1)),
        (FORMS, YES, "auto", Shown.OPEN, (1, 1)),
        (FORMS, YES, "ask", Shown.OPEN, (1, 1)),
        (FORMS, YES, "yes", Shown.OPEN, (0, 1)),
        (FORMS, {"action": "accept"}, "auto", Shown.OPEN, (1, 1)),
        (FORMS, {"action": "accept", "content": {"open": False}}, "auto", Shown.DECLINED, (1, 0)),
        (FORMS, {"action": "accept", "content": {"open": "yes"}}, "auto", Shown.DECLINED, (1, 0)),
        (FORMS, {"action": "decline"}, "auto", Shown.DECLINED, (1, 0)),
        (FORMS, {"action": "cancel"}, "ask", Shown.DECLINED, (1, 0)),
        (FORMS, {}, "ask", Shown.DECLINED, (1, 0)),
        (FORMS, None, "auto", Shown.DECLINED, (1, 0)),
    ],
)
async def test_the_user_is_asked_where_the_policy_says_so(
    capabilities: Message, answer: Message | None, policy: str, outcome: Shown, counts: tuple[int, int]
) -> None:
    chat, screen = ChatClient(capabilities, answer), Screen()

    assert await shown(chat, screen, policy=policy) is outcome
    assert (len(chat.asked), len(screen.opened)) == counts


async def test_the_question_names_server_host_and_the_whole_address_and_is_asked_once_for_a_host() -> None:
    chat, screen = ChatClient(FORMS, YES), Screen()
    pages = Pages(chat, screen.browser)
    other = Page("https://pay.example:8443/e2", "Again.")
    elsewhere = Page("https://pay.example/e3", "Another port.")

    for page in (PAGE, other, elsewhere):
        await pages.show("shop", page, set())

    assert [question["message"] for question in chat.asked] == [
        f"“shop” asks you to open a page at pay.example:8443: Pay first.\n{URL}",
        "“shop” asks you to open a page at pay.example: Another port.\nhttps://pay.example/e3",
    ]
    assert screen.opened == [URL, other.url, elsewhere.url]
    assert URL in screen.said[0]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"action": "accept"}, Shown.OPEN),
        ({"action": "decline"}, Shown.DECLINED),
        ({"action": "cancel"}, Shown.UNSEEN),
        ({"action": "refused"}, Shown.UNSEEN),
        (None, Shown.UNSEEN),
    ],
)
async def test_a_chat_client_that_shows_pages_gets_them_itself(
    answer: Message | None, outcome: Shown
) -> None:
    chat, screen = ChatClient(URLS, answer), Screen()

    assert await shown(chat, screen) is outcome
    assert chat.asked == [{"mode": "url", "message": "Pay first.", "url": URL, "elicitationId": "e1"}]
    assert (screen.opened, screen.said) == ([], [])


async def test_a_modern_chat_client_takes_no_requests_so_the_bridge_opens_the_page() -> None:
    for capabilities in (FORMS, URLS):
        chat, screen = ChatClient(capabilities, version="2026-07-28"), Screen()

        assert await shown(chat, screen) is Shown.OPEN
        assert (chat.asked, screen.opened) == ([], [URL])


@pytest.mark.parametrize(
    ("browsing", "starts", "outcome", "opened"),
    [
        ("open", True, Shown.OPEN, [URL]),
        ("open", False, Shown.UNSEEN, [URL]),
        ("show", False, Shown.OPEN, [URL]),
        ("never", True, Shown.UNSEEN, []),
    ],
)
async def test_a_page_that_nobody_sees_is_told_so(
    browsing: str, outcome: Shown, opened: list[str], *, starts: bool
) -> None:
    screen = Screen(starts=starts)

    assert await shown(ChatClient(NOTHING), screen, browsing=browsing) is outcome
    assert screen.opened == opened


async def test_rules_for_a_server_go_before_the_question() -> None:
    chat, screen = ChatClient(FORMS, {"action": "decline"}), Screen()
    rules: dict[str, Any] = {"trusted": frozenset({"shop"}), "barred": frozenset({"evil"})}

    outcomes = [
        await shown(chat, screen, PAGE, server, policy="ask", **rules) for server in ("shop", "evil", "other")
    ]

    assert outcomes == [Shown.OPEN, Shown.DECLINED, Shown.DECLINED]
    assert (len(chat.asked), screen.opened) == (1, [URL])


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://a.example/$(reboot)",
        "https://bank.example@evil.example/",
        "",
    ],
)
@pytest.mark.parametrize("capabilities", [NOTHING, FORMS, URLS])
async def test_what_is_no_page_of_the_web_is_shown_and_asked_about_nowhere(
    url: str, capabilities: Message
) -> None:
    chat, screen = ChatClient(capabilities, YES), Screen()

    assert await shown(chat, screen, Page(url, "Open."), policy="yes") is Shown.REFUSED
    assert (chat.asked, screen.opened, screen.said) == ([], [], [])


@pytest.mark.parametrize(
    ("url", "host"),
    [
        (URL, "pay.example:8443"),
        ("https://user:secret@pay.example/", "pay.example"),
        ("https://pay\x07.example/", "pay.example"),
        ("https://[::1/", "an unknown host"),
        ("file:///etc/passwd", "an unknown host"),
    ],
)
def test_a_host_is_named_without_what_could_mislead(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("capabilities", "version", "acts"),
    [
        (NOTHING, "2025-11-25", True),
        (FORMS, "2025-11-25", True),
        (URLS, "2025-11-25", False),
        (URLS, "2026-07-28", False),
    ],
)
def test_the_bridge_acts_for_a_chat_client_that_cannot_show_pages(
    capabilities: Message, version: str, *, acts: bool
) -> None:
    chat = ChatClient(capabilities, version=version)
    pages = Pages(chat, Screen().browser)

    assert (pages.acts, pages.hello) == (acts, chat.hello)
