"""A person with a browser, for the demo and the tests: walks our consent page and Nextcloud's."""

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urljoin

import anyio
import httpx2
from lxml import html

#: More pages than any consent has.
MOST_PAGES = 12

#: What a browser sends with a form of the page it shows.
_SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@dataclass(frozen=True, slots=True)
class Page:
    """What the browser shows."""

    url: str
    status: int
    title: str
    text: str
    refreshes: bool


class Person:
    """Clicks through pages without running scripts. Each person has a browser of their own."""

    def __init__(self, name: str, password: str, *, browser: httpx2.AsyncClient) -> None:
        self.name = name
        self._password = password
        self._browser = browser
        self.seen: list[Page] = []

    async def allow(
        self, url: str, *, only: Collection[str] | None = None, stop_at_nextcloud: bool = False
    ) -> Page:
        """Open the link that the client was given and grant what it asks for.

        `only` unticks everything else on our page; `stop_at_nextcloud` goes no further than to the
        page where Nextcloud asks. The answer is the page that stays open in the end.
        """
        response = await self._get(url)
        if "/oauth/provision" not in url:
            return await self._sign_in(response)
        response = await self._submit(response, answer="allow", only=only)
        if (link := _link(response, "/login/")) is not None:
            nextcloud = await self._get(link)
            if stop_at_nextcloud:
                return self.seen[-1]
            await self._sign_in(nextcloud)
        return await self.follow(str(response.url))

    async def decline(self, url: str) -> Page:
        """Open the link and press "Don't allow"."""
        response = await self._submit(await self._get(url), answer="deny", only=None)
        return self._look(response)

    async def follow(self, url: str) -> Page:
        """Watch a page that refreshes itself until it does not any more."""
        with anyio.fail_after(20):
            while True:
                page = self._look(await self._browser.get(url, follow_redirects=True))
                if not page.refreshes:
                    return page
                await anyio.sleep(0.1)

    async def _sign_in(self, response: httpx2.Response) -> Page:
        for _ in range(MOST_PAGES):
            page = self._look(response)
            document = html.fromstring(response.text)
            if document.forms:
                response = await self._submit(response, answer=None, only=None)
            elif (link := _link(response, "/login/")) is not None:
                response = await self._get(link)
            else:
                return page
        raise RuntimeError(f"the sign-in does not end: {self.seen[-1]}")

    async def _get(self, url: str) -> httpx2.Response:
        response = await self._browser.get(url, follow_redirects=True)
        self._look(response)
        return response

    async def _submit(
        self, response: httpx2.Response, *, answer: str | None, only: Collection[str] | None
    ) -> httpx2.Response:
        form = html.fromstring(response.text).forms[0]
        fields: dict[str, list[str]] = {}
        for field in form.xpath(".//input[@name]"):
            if field.get("type") == "checkbox" and only is None and "checked" not in field.attrib:
                continue
            if field.get("type") == "checkbox" and only is not None and field.get("value") not in only:
                continue
            fields.setdefault(field.get("name"), []).append(field.get("value") or "")
        if "password" in fields:
            fields |= {"user": [self.name], "password": [self._password]}
        if answer is not None:
            fields["answer"] = [answer]
        url = urljoin(str(response.url), form.get("action") or "")
        return await self._browser.post(url, data=fields, headers=_SAME_ORIGIN, follow_redirects=True)

    def _look(self, response: httpx2.Response) -> Page:
        document = html.fromstring(response.text or "<html></html>")
        page = Page(
            url=str(response.url),
            status=response.status_code,
            title=(document.findtext(".//title") or "").strip(),
            text=" ".join(document.text_content().split()),
            refreshes="Refresh" in response.headers,
        )
        self.seen.append(page)
        return page


def _link(response: httpx2.Response, part: str) -> str | None:
    for link in html.fromstring(response.text).xpath("//a[@href]"):
        if part in link.get("href"):
            return urljoin(str(response.url), link.get("href"))
    return None
