import pytest
from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.web.browser_session import BrowserSession

KEYS = (b"k" * 32,)
CONSENT_REQUEST, OTHER = "550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440001"


def session(cookie: str = "", *, scheme: str = "https") -> BrowserSession:
    headers = [(b"host", b"mcp.test"), (b"cookie", cookie.encode())]
    scope = {
        "type": "http",
        "scheme": scheme,
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": headers,
    }
    return BrowserSession.of(Request(scope), KEYS)


def ticket(made: BrowserSession) -> tuple[str, str]:
    """Give a ticket of the consent request; the answer is the cookie's name and value."""
    response = Response()
    made.give_ticket(response, CONSENT_REQUEST)
    name, _, value = response.headers.getlist("set-cookie")[-1].partition(";")[0].partition("=")
    return name, value


def test_a_check_value_is_good_for_its_consent_request_and_browser_alone() -> None:
    here, there = session(), session()
    check = here.form_check(CONSENT_REQUEST)

    assert here.accepts(CONSENT_REQUEST, check)
    assert not here.accepts(OTHER, check)
    assert not there.accepts(CONSENT_REQUEST, check)
    assert not here.accepts(CONSENT_REQUEST, "")


def test_a_ticket_shows_its_consent_request_and_a_check_value_is_none() -> None:
    here = session()
    name, value = ticket(here)
    browser = f"__Host-browser={here.browser}"

    assert session(f"{browser}; {name}={value}").holds_ticket(CONSENT_REQUEST)
    assert not session(f"{name}={value}").holds_ticket(CONSENT_REQUEST)
    assert not session(f"{browser}; {name}={here.form_check(CONSENT_REQUEST)}").holds_ticket(CONSENT_REQUEST)
    assert not here.accepts(CONSENT_REQUEST, value)


@pytest.mark.parametrize("planted", ["", "x", "A" * 23, "A" * 25, "A" * 23 + ";", "../" * 8])
def test_a_value_of_another_shape_is_replaced(planted: str) -> None:
    assert session(f"__Host-browser={planted}").browser != planted


@pytest.mark.parametrize(("scheme", "flag", "prefix"), [("https", True, "__Host-"), ("http", False, "")])
def test_the_cookies_are_out_of_reach_of_scripts_and_other_sites(
    scheme: str, prefix: str, flag: object
) -> None:
    response = Response()

    session(scheme=scheme).give_ticket(response, CONSENT_REQUEST)

    for cookie in response.headers.getlist("set-cookie"):
        flags = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert cookie.startswith(prefix)
        assert {"httponly", "samesite=lax", "path=/"} <= flags
        assert ("secure" in flags) is flag
