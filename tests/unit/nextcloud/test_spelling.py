"""Spellings of the same thing are the same, and others stay others."""

import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.auth.jwt_check import check_audience
from nextcloud_mcp_server.errors import InvalidInput, TokenRefused
from nextcloud_mcp_server.nextcloud import etag, spelling

OWN = "https://mcp.example.org/mcp"
SUFFIXES = ["", "-gzip", ";gzip", "--gzip", "-br", "-deflate", "-zstd"]


@settings(max_examples=100, deadline=None)
@given(
    name=st.text("0123456789abcdef", min_size=1, max_size=40),
    weak=st.sampled_from(["", "W/", "w/"]),
    suffix=st.sampled_from(SUFFIXES),
    inside=st.booleans(),
)
def test_an_etag_is_the_same_however_proxies_spell_it(
    name: str, weak: str, suffix: str, *, inside: bool
) -> None:
    """RFC 9110 §8.8.3 for the weak mark; the suffixes are those of Apache, nginx and Jetty."""
    written = f'{weak}"{name}{suffix}"' if inside else f'{weak}"{name}"{suffix}'

    assert etag.normalise(written) == name
    assert etag.quote(written) == f'"{name}"'


@pytest.mark.parametrize("absent", ["", " ", '""', 'W/""', '"-gzip"'])
def test_an_absent_etag_is_none(absent: str) -> None:
    assert etag.known(absent) is None
    assert etag.of({"ETag": absent}) is None
    assert etag.of({"OC-ETag": absent, "ETag": '"e"'}) == "e"


EQUAL = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["https://", "HTTPS://", "Https://"]),
    st.sampled_from(["mcp.example.org", "MCP.Example.ORG", "mcp.example.org."]),
    st.sampled_from(["", ":443", ":"]),
    st.sampled_from(["/mcp", "/%6dcp", "/%6Dcp", "/m%63%70"]),
    st.sampled_from(["", "/"]),
)


@settings(max_examples=100, deadline=None)
@given(written=EQUAL)
def test_a_token_for_another_spelling_of_this_server_is_for_this_server(written: str) -> None:
    """RFC 8707 §2 names a URI; RFC 3986 §6.2.2 and §6.2.3 say which are equivalent."""
    check_audience({"aud": written}, OWN)
    check_audience({"aud": ["other", written]}, OWN)


@pytest.mark.parametrize(
    "other",
    [
        "http://mcp.example.org/mcp",
        "https://mcp.example.org:444/mcp",
        "https://mcp.example.org:80/mcp",
        "https://mcp.example.org/MCP",
        "https://mcp.example.org/mcp/x",
        "https://mcp.example.org/mcp//",
        "https://mcp.example.org/%2Fmcp",
        "https://mcp.example.org/mcp%2F",
        "https://mcp.example.org/x/../mcp",
        "https://mcp.example.org",
        "https://mcp.example.org/mcp?x",
        "https://mcp.example.org/mcp#x",
        "https://evil@mcp.example.org/mcp",
        "https://mcp.example.org.evil.example/mcp",
        "https://mcp.example.org\\t/mcp".replace("\\t", "\t"),
        "https://mcp.example.org/m\tcp",
        "https://mcp.example.org/mcp ",
        "https://mcp.ex\u0430mple.org/mcp",
        "https://mcp.example.org:x/mcp",
        "",
    ],
)
def test_what_is_not_equivalent_stays_refused(other: str) -> None:
    with pytest.raises(TokenRefused):
        check_audience({"aud": other}, OWN)


@pytest.mark.parametrize("aud", [None, 7, [OWN, 7], {}, []])
def test_an_audience_that_cannot_be_read_is_refused(aud: object) -> None:
    with pytest.raises(TokenRefused):
        check_audience({"aud": aud}, OWN)


def test_a_name_that_is_no_address_is_compared_as_it_is() -> None:
    check_audience({"aud": "nextcloud-mcp"}, "nextcloud-mcp")
    with pytest.raises(TokenRefused):
        check_audience({"aud": "Nextcloud-MCP"}, "nextcloud-mcp")


@pytest.mark.parametrize(
    ("written", "scheme", "same"),
    [
        ("MCP.example.org", "https", "mcp.example.org"),
        ("mcp.example.org:443", "https", "mcp.example.org"),
        ("mcp.example.org.:443", "https", "mcp.example.org"),
        ("mcp.example.org:80", "http", "mcp.example.org"),
        ("mcp.example.org:80", "https", "mcp.example.org:80"),
        ("[::1]:8000", "http", "[::1]:8000"),
        ("a@b", "https", "a@b"),
        ("a/b", "https", "a/b"),
        ("a:x", "https", "a:x"),
        ("", "https", ""),
    ],
)
def test_a_host_is_written_in_one_way(written: str, scheme: str, same: str) -> None:
    assert spelling.host(written, scheme) == same


@pytest.mark.parametrize(
    ("host", "yes"),
    [
        ("10.1.2.3:8000", True),
        ("[fd00::7]:8000", True),
        ("10.1.2.3", True),
        ("mcp.example.org", False),
        ("", False),
    ],
)
def test_a_machine_that_is_named_by_its_address_is_known(host: str, *, yes: bool) -> None:
    assert spelling.is_address(host) == yes


@pytest.mark.parametrize(
    ("query", "found"),
    [("", True), ("street", True), ("PARTY street", True), ("ärger", True), ("street dance", False)],
)
def test_texts_are_found_by_all_words_in_any_letter_case(query: str, *, found: bool) -> None:
    assert spelling.has_words(query, "Street party", "A\u0308rger") is found


def test_a_query_has_so_many_different_words_and_no_more() -> None:
    """Each is looked up in each text: thousands of them took minutes on the event loop."""
    words = [f"w{number}" for number in range(101)]

    assert spelling.has_words(" ".join(words[:100] * 20), " ".join(words).upper())
    with pytest.raises(InvalidInput, match="more than 100 different words"):
        spelling.has_words(" ".join(words), "")


@pytest.mark.parametrize("start", [100, 65_530, 65_535, 65_536, 131_060])
def test_a_word_is_found_wherever_a_long_text_is_cut(start: int) -> None:
    text = "\U0001f600" + "a" * start + " Zu\u0308richsee " + "b" * 200_000

    assert spelling.has_words("z\u00dcRICHSEE a", text)
    assert not spelling.has_words("z\u00fcrichsees", text)


def test_a_text_of_megabytes_is_searched_in_little_memory() -> None:
    """A name of 16 MB with an emoji takes 64 MB, and the search for a word in it took 200 MB more."""
    text = "\U0001f600" + "A" * 1_000_000
    tracemalloc.start()
    try:
        assert not spelling.has_words("word", text)
        assert tracemalloc.get_traced_memory()[1] < sys.getsizeof(text)
    finally:
        tracemalloc.stop()
