"""A user with a browser, for the demo and the tests, on the pages of this server and of Nextcloud."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import urljoin

import anyio
import httpx2

from nextcloud_mcp_server.sandbox.document import Document, Field, Form

#: More pages than any consent has, redirects included.
MOST_PAGES = 40
#: The buttons that say yes, whatever page they are on.
_YES = frozenset({("answer", "allow"), ("answer", "mine"), ("answer", "continue")})

#: The Accept header of a browser; Nextcloud shows its login page only for it.
_HTML = {"Accept": "text/html,application/xhtml+xml"}
#: What it sends besides with a form of the page it shows.
_SAME_ORIGIN = {**_HTML, "Sec-Fetch-Site": "same-origin"}


@dataclass(frozen=True, slots=True)
class Choice:
    """A radio button or check box, with its state when the page opened: `APP:read` for the choice `read` of an app."""

    name: str
    group: str
    label: str
    ticked: bool


@dataclass(frozen=True, slots=True)
class Page:
    """The page that the browser shows."""

    url: str
    status: int
    title: str
    heading: str
    text: str
    choices: tuple[Choice, ...]
    refreshes: bool


class Person:
    """A user with a browser of their own, which runs no scripts."""

    def __init__(
        self,
        name: str,
        password: str,
        *,
        browser: httpx2.AsyncClient,
        show: Callable[[Page], None] | None = None,
    ) -> None:
        self.name = name
        self._password = password
        self._browser = browser
        self._show = show
        self.seen: list[Page] = []

    async def allow(
        self, url: str, *, only: Collection[str] | None = None, stop_at_nextcloud: bool = False
    ) -> Page:
        """Open a consent link and allow what it asks for.

        `only` makes these choices on our page (`APP:read`, `APP:write`), and leaves the rest off;
        `stop_at_nextcloud` goes no further than to the page where Nextcloud asks. The answer is the page that stays
        open in the end.
        """
        response, document = await self._get(url)
        if "/oauth/provision" not in url:
            return await self._sign_in(response, document)
        response, document = await self._submit(response, document, answer="allow", only=only)
        if (link := _link(response, document)) is not None:
            nextcloud = await self._get(link)
            if stop_at_nextcloud:
                return self.seen[-1]
            await self._sign_in(*nextcloud)
        return await self.follow(str(response.url))

    async def decline(self, url: str) -> Page:
        """Open the link and press "Don't allow"."""
        await self._submit(*await self._get(url), answer="deny", only=None)
        return self.seen[-1]

    async def sign_in(self, url: str, *, until: str, only: Collection[str] | None = None) -> str:
        """Open an authorization URL, agree on every page, and return the URL below `until` to which it leads.

        The browser does not open that URL: it belongs to a program on the user's computer. `only` makes these
        choices, and leaves the rest off.
        """
        response = await self._travel("GET", url, until=until, only=only)
        onward = response.headers.get("Location") or _refresh(response) or ""
        return urljoin(str(response.url), onward)

    async def consent(self, url: str, *, only: Collection[str] | None = None, until: str = "") -> Page:
        """Open the link of a multi-user server, and agree on every page.

        `only` makes these choices, and leaves the rest off; `until` stops before a URL with this prefix.
        """
        response = await self._travel("GET", url, until=until, only=only)
        if response.is_redirect or not self.seen[-1].refreshes:
            return self.seen[-1]
        # Nextcloud does not redirect after a login flow; this server's page polls.
        if (link := _link(response, Document.read(response.text))) is not None:
            await self._sign_in(*await self._get(link))
        return await self.follow(str(response.url))

    async def follow(self, url: str) -> Page:
        """Follow a page that refreshes itself until it no longer does."""
        with anyio.fail_after(45):
            while True:
                await self._get(url)
                if not self.seen[-1].refreshes:
                    return self.seen[-1]
                await anyio.sleep(0.1)

    async def _sign_in(self, response: httpx2.Response, document: Document) -> Page:
        for _ in range(MOST_PAGES):
            if document.forms:
                response, document = await self._submit(response, document, answer=None, only=None)
            elif (link := _link(response, document)) is not None:
                response, document = await self._get(link)
            else:
                return self.seen[-1]
        raise RuntimeError(f"the sign-in does not end: {self.seen[-1]}")

    async def _travel(
        self,
        method: str,
        url: str,
        *,
        until: str,
        fields: dict[str, list[str]] | None = None,
        only: Collection[str] | None = None,
    ) -> httpx2.Response:
        """Follow redirects, refreshing pages, and the forms and links that agree."""
        for _ in range(MOST_PAGES):
            headers = _HTML if method == "GET" else _SAME_ORIGIN
            response = await self._browser.request(method, url, data=fields, headers=headers)
            method, fields = "GET", None
            if response.is_redirect:
                url = urljoin(str(response.url), response.headers["Location"])
                if until and url.startswith(until):
                    return response
                continue
            _, document = self._look(response)
            if response.is_error or (self.seen[-1].refreshes and _refresh(response) is None):
                return response
            form = _form_to_send(document)
            onward = _refresh(response) or _link(response, document)
            if until and onward is not None and onward.startswith(until):
                return response
            if onward is not None:
                url = onward
            elif form is not None:
                method, url = "POST", urljoin(str(response.url), form.action)
                fields = self._filled(form, only)
            else:
                return response
        raise RuntimeError(f"the consent request does not end: {self.seen[-1]}")

    def _filled(self, form: Form, only: Collection[str] | None) -> dict[str, list[str]]:
        fields: dict[str, list[str]] = {}
        choices = [field for field in form.fields if field.is_choice]
        if only is None and choices and not any(_allows(field) and field.ticked for field in choices):
            # Nothing is chosen beforehand where no call waits: this person lets clients read.
            only = [_choice_of(field) for field in choices if _choice_of(field).endswith(":read")]
        for field in form.fields:
            if _is_sent(field, form, only):
                fields.setdefault(field.name, []).append(field.value)
        if "password" in fields:
            fields |= {"user": [self.name], "password": [self._password]}
        return fields | {name: [value] for name, value in form.buttons if (name, value) in _YES}

    async def _get(self, url: str) -> tuple[httpx2.Response, Document]:
        return self._look(await self._browser.get(url, headers=_HTML, follow_redirects=True))

    async def _submit(
        self,
        response: httpx2.Response,
        document: Document,
        *,
        answer: str | None,
        only: Collection[str] | None,
    ) -> tuple[httpx2.Response, Document]:
        form = document.forms[0] if document.forms else Form(action="")
        fields = self._filled(form, only)
        if answer is not None:
            fields["answer"] = [answer]
        url = urljoin(str(response.url), form.action)
        return self._look(
            await self._browser.post(url, data=fields, headers=_SAME_ORIGIN, follow_redirects=True)
        )

    def _look(self, response: httpx2.Response) -> tuple[httpx2.Response, Document]:
        document = Document.read(response.text)
        page = Page(
            url=str(response.url),
            status=response.status_code,
            title=document.title,
            heading=document.heading,
            text=document.text,
            choices=tuple(
                Choice(_choice_of(one), one.group, one.label, one.ticked) for one in document.choices
            ),
            refreshes="Refresh" in response.headers,
        )
        self.seen.append(page)
        if self._show is not None:
            self._show(page)
        return response, document


def picked(row: Collection[str], only: Collection[str]) -> set[str]:
    """Return the choices of a row that say what `only` says of its app: `APP:write` is to change things."""
    apps = {choice.partition(":")[0] for choice in row}
    if not any(f"{app}:write" in only for app in apps):
        return {choice for choice in row if choice in only}
    alone = {f"{app}:change-only" for app in apps if f"{app}:read" not in only} & {*row}
    return alone or {f"{app}:change" for app in apps}


def _is_sent(field: Field, form: Form, only: Collection[str] | None) -> bool:
    if not field.is_choice:
        return True
    row = [_choice_of(one) for one in form.fields if one.name == field.name]
    return field.ticked if only is None else _choice_of(field) in picked(row, only)


def _choice_of(field: Field) -> str:
    """Name a choice by its field and value; a check box has its value alone."""
    return field.value if field.kind == "checkbox" else f"{field.name.removeprefix('allow.')}:{field.value}"


def _allows(field: Field) -> bool:
    return field.value != "off"


def _form_to_send(document: Document) -> Form | None:
    """Return the form with a button that agrees, or the only form of the page."""
    yes = next((form for form in document.forms if _YES & set(form.buttons)), None)
    return yes or (document.forms[0] if len(document.forms) == 1 else None)


def _refresh(response: httpx2.Response) -> str | None:
    """Return the URL to which a page refreshes."""
    _, _, url = response.headers.get("Refresh", "").partition("url=")
    return urljoin(str(response.url), url) if url else None


def _link(response: httpx2.Response, document: Document) -> str | None:
    """Return the link to Nextcloud's sign-in, or the next one in it."""
    found = next((link for link in document.links if "/login/" in link), None)
    return None if found is None else urljoin(str(response.url), found)
