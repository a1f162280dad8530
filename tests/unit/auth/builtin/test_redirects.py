import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.auth.builtin.redirects import (
    acceptable,
    any_matches,
    is_loopback,
    is_native,
    matches,
    shown,
)

CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"


@pytest.mark.parametrize(
    "uri",
    [
        "https://claude.ai/api/mcp/auth_callback",
        "https://app.example.org",
        "https://app.example.org:8443/cb?tenant=a%2Fb",
        "https://192.168.1.5/cb",
        "http://localhost/callback",
        "http://127.0.0.1:33418/",
        "http://127.0.0.1:1",
        "http://[::1]:65535/cb",
        CURSOR,
        "cursor:/callback",
    ],
)
def test_what_clients_use_may_be_registered(uri: str) -> None:
    assert acceptable(uri, private_schemes={"cursor"})


@pytest.mark.parametrize(
    "uri",
    [
        "http://app.example.org/cb",
        "http://localhost.evil.test/cb",
        "http://127.0.0.1.evil.test/",
        "http://127.0.0.2/cb",
        "http://localhost:0/cb",
        "http://localhost:65536/cb",
        "http://localhost:/cb",
        "https://user@app.example.org/cb",
        "https://app.example.org/cb#fragment",
        "https://app.example.org/cb#",
        "https://app.example.org\\@evil.test/",
        "https://app.example.org/\r\nLocation: https://evil.test",
        "https://app.example.org/cb\n",
        " https://app.example.org/cb",
        "https://app.example.org/%zz",
        "https://app.exämple.org/cb",
        "https://*.example.org/cb",
        # Nothing would be left to show of it.
        "https://./cb",
        "https://../cb",
        "https://app..example.org/cb",
        "https://.example.org/cb",
        "https:///cb",
        "https:app.example.org/cb",
        "//app.example.org/cb",
        "/cb",
        "",
        "HTTPS://app.example.org/cb",
        "cursor://user@host/cb",
        "cursor:",
        "vscode://vscode.github-authentication/did-authenticate",
        f"https://app.example.org/{'a' * 1000}",
    ],
)
def test_what_is_not_safe_or_not_clear_may_not(uri: str) -> None:
    assert not acceptable(uri, private_schemes={"cursor"})


@pytest.mark.parametrize(
    "uri", ["javascript:alert(1)", "data:text/html,hello", "file:///etc/passwd", "vbscript:x", "ms-word:x"]
)
def test_a_dangerous_scheme_is_refused_even_when_it_is_allowed(uri: str) -> None:
    assert not acceptable(uri, private_schemes={uri.partition(":")[0]})


def test_the_operator_may_allow_a_host_without_tls() -> None:
    uri = "http://chat.lan:3000/oauth/clients/mcp:1/callback"

    assert not acceptable(uri, private_schemes=())
    assert acceptable(uri, private_schemes=(), plain_hosts={"chat.lan"})
    assert not matches(uri, "http://chat.lan:3001/oauth/clients/mcp:1/callback")


@pytest.mark.parametrize(
    ("registered", "arrives"),
    [
        (CURSOR, CURSOR),
        ("http://localhost/callback", "http://localhost:52163/callback"),
        ("http://127.0.0.1:33418/", "http://127.0.0.1:59656/"),
        ("http://127.0.0.1:33418", "http://127.0.0.1:33418/"),
        ("http://127.0.0.1/", "http://127.0.0.1:59656"),
        ("http://[::1]:1/cb", "http://[::1]/cb"),
        ("https://app.example.org", "https://app.example.org/"),
        ("https://app.example.org/?a=b", "https://app.example.org?a=b"),
    ],
)
def test_the_registered_one_matches_on_every_port_of_this_computer(registered: str, arrives: str) -> None:
    assert matches(registered, arrives)
    assert any_matches(["https://other.example.org/", registered], arrives)


@pytest.mark.parametrize(
    ("registered", "arrives"),
    [
        ("http://localhost/callback", "http://127.0.0.1:52163/callback"),
        ("http://localhost/callback", "http://localhost:52163/callback/"),
        ("http://localhost/callback", "http://localhost:52163/other/../callback"),
        ("http://localhost/callback", "http://localhost:52163/callback?a=b"),
        ("http://localhost/callback", "https://localhost:52163/callback"),
        ("http://localhost/callback", "http://localhost:99999/callback"),
        ("http://localhost/callback", "http://evil.test\\@localhost:1/callback"),
        ("http://localhost/callback", f"http://localhost:{'0' * 1000}1/callback"),
        ("http://localhost/", f"http://localhost/?{'a' * 1000}"),
        ("https://app.example.org/cb", "https://app.example.org:443/cb"),
        ("https://localhost:1/cb", "https://localhost:2/cb"),
        ("https://app.example.org/cb", "https://app.example.org/CB"),
        ("https://app.example.org/cb", "https://app.example.org/cb?"),
        ("https://app.example.org/cb", "https://app.example.org.evil.test/cb"),
        (CURSOR, f"{CURSOR}/"),
        (CURSOR, "https://app.example.org/cb"),
    ],
)
def test_nothing_else_matches(registered: str, arrives: str) -> None:
    assert not matches(registered, arrives)
    assert not any_matches([registered], arrives)


@given(st.text(alphabet="htps:/localhost127.0.0.1[]@\\?#%a&\r\n\t ", max_size=60))
def test_no_text_matches_a_host_it_does_not_start_with(text: str) -> None:
    arrives = f"http://{text}"

    if matches("http://localhost/callback", arrives):
        assert arrives.startswith("http://localhost")
        assert arrives.endswith("/callback")
    assert not (acceptable(arrives, private_schemes=()) and ("\\" in arrives or "@" in arrives.split("/")[2]))


def test_a_person_is_shown_where_a_code_goes() -> None:
    assert shown("https://claude.ai/api/mcp/auth_callback") == "claude.ai"
    assert shown("https://cIaude.AI.:8443/callback") == "ciaude.ai"
    assert shown(CURSOR) == "cursor:"
    assert [is_loopback(uri) for uri in ("http://[::1]/", "https://claude.ai/", CURSOR)] == [
        True,
        False,
        False,
    ]
    assert [is_native(uri) for uri in ("http://[::1]/", "https://claude.ai/", CURSOR)] == [True, False, True]
