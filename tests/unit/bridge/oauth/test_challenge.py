"""`WWW-Authenticate` as servers write it."""

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.bridge.oauth.challenge import Challenge, bearer_challenge

URL = "https://mcp.example/.well-known/oauth-protected-resource"


def read(*headers: str) -> Challenge:
    return bearer_challenge(httpx2.Response(401, headers=[("WWW-Authenticate", one) for one in headers]))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        # RFC 9728 §5.1 and RFC 6750 §3.1.
        (f'Bearer resource_metadata="{URL}"', Challenge(resource_metadata=URL)),
        (
            'Bearer realm="x", error="insufficient_scope", scope="files:read files:write"',
            Challenge("insufficient_scope", "files:read files:write"),
        ),
        ("Bearer error=invalid_token", Challenge("invalid_token")),
        ("bearer ERROR=invalid_token", Challenge("invalid_token")),
        ("Bearer", Challenge()),
        # RFC 9110 §11.6.1: several challenges in one header.
        (f'Basic realm="a, b", Bearer scope="read", resource_metadata="{URL}"', Challenge(None, "read", URL)),
        ('Negotiate dG9rZW4=, Bearer scope="read"', Challenge(None, "read")),
        ('Bearer scope="read", DPoP scope="other", error="other"', Challenge(None, "read")),
        (r'Bearer scope="a \"quoted\" word"', Challenge(None, 'a "quoted" word')),
        # A name that ends with that of a parameter is another one, and a value names nothing.
        ('Bearer xscope="other", x_error="a", realm="scope=evil error=b"', Challenge()),
        ('Basic scope="read"', Challenge()),
        ("", Challenge()),
        ('Bearer scope="unended', Challenge(None, '"unended')),
    ],
)
def test_a_header_is_read(header: str, expected: Challenge) -> None:
    assert read(header).error == expected.error
    assert read(header).resource_metadata == expected.resource_metadata
    if not header.endswith("unended"):
        assert read(header) == expected


def test_the_bearer_challenge_may_be_in_a_header_of_its_own() -> None:
    assert read('Basic realm="x"', 'Bearer scope="read"') == Challenge(None, "read")


@given(st.text(max_size=60))
def test_no_header_is_too_strange(text: str) -> None:
    response = httpx2.Response(401, headers=[(b"WWW-Authenticate", text.encode())])

    assert isinstance(bearer_challenge(response), Challenge)


def test_a_long_header_takes_no_time() -> None:
    assert read(" " * 100_000) == Challenge()
    assert read('a="' + "\\" * 100_000) == Challenge()
