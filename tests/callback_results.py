"""The page that a browser sees after a callback without access."""

from base64 import urlsafe_b64decode
from urllib.parse import parse_qs, unquote, urljoin, urlsplit

import httpx2

RESULT = "/oauth/result"
#: With a fragment, so that the browser drops that of the callback's URL.
RESULT_ADDRESS = f"{RESULT}#ended"
#: Shorter values may be words of the page.
_SHORTEST_SECRET = 12


async def shown(browser: httpx2.AsyncClient, answer: httpx2.Response) -> httpx2.Response:
    """Follow the response of a callback to the result page; neither contains the code or state."""
    assert (answer.status_code, answer.headers["location"]) == (303, RESULT_ADDRESS)
    assert answer.text == ""
    headers = {"Accept": answer.request.headers["accept"]}
    page = await browser.get(urljoin(str(answer.request.url), RESULT), headers=headers)
    everything = "".join([*_headers(answer), *_headers(page), page.text])
    assert [secret for secret in secrets_of(answer.request.url) if secret in everything] == []
    return page


def secrets_of(url: httpx2.URL) -> list[str]:
    """List the code and the state in a callback's URL."""
    query = parse_qs(urlsplit(str(url)).query)
    return [
        value for name in ("code", "state") for value in query.get(name, []) if len(value) >= _SHORTEST_SECRET
    ]


def _headers(response: httpx2.Response) -> list[str]:
    """List the values of the headers, and the content of the cookie."""
    values = [unquote(value) for value in response.headers.values()]
    cookies = [value.partition("=")[2].partition(".")[0] for value in response.headers.get_list("set-cookie")]
    readable = [each.strip('"') for each in cookies if "result" in str(response.headers)]
    return [*values, *(_decoded(each) for each in readable)]


def _decoded(text: str) -> str:
    try:
        return urlsafe_b64decode(text).decode(errors="replace")
    except ValueError:
        return ""
