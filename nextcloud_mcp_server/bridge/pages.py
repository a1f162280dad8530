"""Shows the user the pages that remote servers ask for: in the chat client if it can, else in the browser."""

from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum
from typing import Literal, Protocol
from urllib.parse import urlsplit

from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.bridge.browser import UnsafeUrl, page_url
from nextcloud_mcp_server.bridge.elicitation import Page, plain
from nextcloud_mcp_server.bridge.envelope import Hello, Message, as_object

#: When the bridge asks before it opens a page: if the chat client can show a question; always; never.
Policy = Literal["auto", "ask", "yes"]
#: Whether pages are opened; else whether the user gets to see their links and opens them, or calls are ended.
Browsing = Literal["open", "show", "never"]

_CONFIRM: Message = {
    "type": "object",
    "properties": {"open": {"type": "boolean", "title": "Open the page", "default": True}},
    "required": ["open"],
}


class Shown(Enum):
    """What became of a page."""

    #: It is open, or the user has its link and opens it.
    OPEN = "accept"
    DECLINED = "decline"
    #: Nobody could see it; the link has to go into the answer.
    UNSEEN = "cancel"
    #: It has an address that is not opened, and that nobody should be sent to.
    REFUSED = "refused"


class Browser(Protocol):
    """Opens pages in the user's browser."""

    async def show(self, url: str, purpose: str) -> bool:
        """Print a URL and open it; return whether a browser was started."""
        ...


class Chat(Protocol):
    """The chat client, as far as it can be asked."""

    @property
    def hello(self) -> Hello:
        """How it described itself."""
        ...

    async def request(self, method: str, params: Message) -> Message:
        """Send it a request and return the result."""
        ...


class Pages:
    """Opens each page once, however many calls wait for it."""

    def __init__(
        self,
        chat: Chat,
        browser: Browser,
        *,
        policy: Policy = "auto",
        browsing: Browsing = "open",
        trusted: frozenset[str] = frozenset(),
        barred: frozenset[str] = frozenset(),
    ) -> None:
        self._chat = chat
        self._browser = browser
        self._policy = policy
        self._browsing = browsing
        self._trusted = trusted
        self._barred = barred
        self._open: dict[str, int] = {}
        self._allowed: set[str] = set()

    @property
    def hello(self) -> Hello:
        """How the chat client described itself."""
        return self._chat.hello

    @property
    def acts(self) -> bool:
        """Tell whether the bridge shows pages in place of a chat client that cannot."""
        return not self._chat.hello.shows_urls

    @contextmanager
    def opened(self, urls: set[str]) -> Generator[None]:
        """Remember, while the block runs, that pages are open; a later call opens them anew."""
        # The set grows while the call goes on, so it is counted by its address at the end.
        try:
            yield
        finally:
            for url in urls:
                left = self._open.get(url, 1) - 1
                if left > 0:
                    self._open[url] = left
                else:
                    self._open.pop(url, None)

    async def show(self, server: str, page: Page, urls: set[str]) -> Shown:
        """Show one page; `urls` are those that this call has shown, and gets this one."""
        if page.url in urls:
            return Shown.OPEN
        if page.url in self._open:
            self._remember(page.url, urls)
            return Shown.OPEN
        shown = await self._show(server, page)
        if shown is Shown.OPEN:
            self._remember(page.url, urls)
        return shown

    async def _show(self, server: str, page: Page) -> Shown:
        if server in self._barred:
            return Shown.DECLINED
        try:
            page_url(page.url)
        except UnsafeUrl:
            return Shown.REFUSED
        if not self.acts and not self._chat.hello.modern:
            return await self._show_in_chat(page)
        if self._browsing == "never":
            return Shown.UNSEEN
        if not await self._may_open(server, page):
            return Shown.UNSEEN if self._policy == "ask" and not self._can_ask() else Shown.DECLINED
        started = await self._browser.show(page.url, f"{server}: {page.message}")
        return Shown.OPEN if started or self._browsing == "show" else Shown.UNSEEN

    async def _show_in_chat(self, page: Page) -> Shown:
        params: Message = {"mode": "url", "message": page.message, "url": page.url}
        params["elicitationId"] = page.id or page.key or page.url
        try:
            answer = await self._chat.request("elicitation/create", params)
        except MCPError:
            return Shown.UNSEEN
        return _answered(answer)

    def _can_ask(self) -> bool:
        return self._chat.hello.shows_forms and not self._chat.hello.modern

    async def _may_open(self, server: str, page: Page) -> bool:
        host = host_of(page.url)
        if self._policy == "yes" or server in self._trusted or host in self._allowed:
            return True
        if not self._can_ask():
            return self._policy == "auto"
        sentence = f"“{server}” asks you to open a page at {host}: {page.message}\n{page.url}"
        try:
            answer = await self._chat.request(
                "elicitation/create", {"mode": "form", "message": sentence, "requestedSchema": _CONFIRM}
            )
        except MCPError:
            return False
        if _answered(answer) is Shown.OPEN and as_object(answer.get("content")).get("open", True) is True:
            self._allowed.add(host)
            return True
        return False

    def _remember(self, url: str, urls: set[str]) -> None:
        urls.add(url)
        self._open[url] = self._open.get(url, 0) + 1


def host_of(url: str) -> str:
    """Return the host of a URL, with its port."""
    try:
        return plain(urlsplit(url).netloc.rpartition("@")[2], 100) or "an unknown host"
    except ValueError:
        return "an unknown host"


def _answered(answer: Message) -> Shown:
    action = answer.get("action")
    return Shown(action) if action in ("accept", "decline", "cancel") else Shown.UNSEEN
