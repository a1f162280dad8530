import pytest
from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.web.cookies import Cookies, RedirectTarget

KEYS = (b"k" * 32,)
SESSION = "s" * 43
ONWARD = RedirectTarget("https://id.test/authorize?state=1", "account")


def cookies(*pairs: str) -> Cookies:
    headers = [(b"host", b"mcp.test"), *((b"cookie", pair.encode()) for pair in pairs)]
    scope = {
        "type": "http",
        "scheme": "https",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": headers,
    }
    return Cookies.of(Request(scope), KEYS)


def signed_in(session: str = SESSION, **others: str) -> Cookies:
    return cookies(*(f"__Host-{name}={value}" for name, value in {"session": session, **others}.items()))


def written(response: Response) -> dict[str, str]:
    pairs = (cookie.partition(";")[0].partition("=") for cookie in response.headers.getlist("set-cookie"))
    return {name.removeprefix("__Host-"): value.strip('"') for name, _, value in pairs}


def test_a_check_value_is_good_for_its_session_and_purpose_alone() -> None:
    check = signed_in().form_check("confirm")

    assert signed_in().accepts("confirm", check)
    assert not signed_in().accepts("cancel", check)
    assert not signed_in("t" * 43).accepts("confirm", check)
    assert not signed_in().accepts("confirm", "")


def test_without_a_session_no_check_value_is_good() -> None:
    nobody = cookies()

    assert not nobody.accepts("confirm", nobody.form_check("confirm"))


def test_two_parts_are_not_one_by_standing_together() -> None:
    assert signed_in("s" * 40).form_check("abc") != signed_in("s" * 40 + "a").form_check("bc")


@pytest.mark.parametrize(
    "pairs",
    [
        (f"__Host-session={SESSION}; __Host-session={SESSION}",),
        (f"__Host-session={SESSION}", f"__Host-session={'t' * 43}"),
        ("__Host-session=short",),
        (f"__Host-session={'s' * 201}",),
        (f"__Host-session={'s' * 42}<",),
        (f"session={SESSION}",),
    ],
)
def test_a_session_that_is_there_twice_or_has_another_shape_is_not_there(pairs: tuple[str, ...]) -> None:
    assert cookies(*pairs).session == ""


def test_where_the_browser_goes_on_to_is_bound_to_its_session_and_to_the_flow() -> None:
    response = Response()
    signed_in().set_redirect_target(response, ONWARD)
    redirect_target = written(response)["redirect"]

    assert signed_in(redirect=redirect_target).where_to("nextcloud") == ONWARD
    assert signed_in("t" * 43, redirect=redirect_target).where_to("nextcloud") is None
    assert signed_in(redirect=redirect_target, **{"sign-in": SESSION}).where_to("sign-in") is None
    payload, _, mac = redirect_target.partition(".")
    assert signed_in(redirect=f"{payload[:-4]}AAAA.{mac}").where_to("nextcloud") is None


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://id.test/a b", 'https://id.test/"', "https://id.test/\r\nX: y"]
)
def test_an_address_that_would_end_a_header_or_a_link_is_never_written(url: str) -> None:
    with pytest.raises(ConfigurationError):
        signed_in().set_redirect_target(Response(), RedirectTarget(url, "account"))


def test_a_new_session_takes_the_sign_in_and_the_way_on_with_it() -> None:
    response = Response()

    cookies().set_session(response, SESSION)

    assert written(response) == {"session": SESSION, "sign-in": "", "redirect": ""}
