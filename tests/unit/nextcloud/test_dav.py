import re
import unicodedata
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud import dav

NAMES = st.text(
    st.characters(min_codepoint=0x20, exclude_characters="/\\", exclude_categories=("Cs",)),
    min_size=1,
    max_size=40,
).filter(lambda name: name not in (".", ".."))
UIDS = ("alice", "a b", "a+b", "a@b.c", "ünal", "100%", "a/b", "#?&=")


@given(st.lists(NAMES, min_size=1, max_size=5), st.sampled_from(UIDS))
def test_every_path_comes_back_from_its_own_address(names: list[str], uid: str) -> None:
    """B01, B11: names are opaque, and so is the uid."""
    tree = dav.Tree.of("files", uid)

    located = tree.locate(tree.url(names), hosts=["cloud.example.org"])

    assert located == tuple(names)


@given(NAMES)
def test_a_name_is_encoded_exactly_once(name: str) -> None:
    encoded = dav.encode([name])

    assert re.fullmatch(r"[A-Za-z0-9%._~-]+", encoded)
    assert unquote(encoded) == name


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("a%62c.txt", "a%2562c.txt"),
        ("x %2F y.flac", "x%20%252F%20y.flac"),
        ("child-ü +~#?", "child-%C3%BC%20%2B~%23%3F"),
        ("a;b=c&d", "a%3Bb%3Dc%26d"),
    ],
)
def test_characters_with_a_meaning_in_addresses_lose_it(name: str, encoded: str) -> None:
    """B01, B02, B05."""
    assert dav.encode([name]) == encoded


@pytest.mark.parametrize(
    ("uid", "encoded"),
    [("a b", "a%20b"), ("a+b", "a%2Bb"), ("a@b.c", "a%40b.c"), ("ünal", "%C3%BCnal"), ("a/b", "a%2Fb")],
)
def test_a_uid_is_one_segment(uid: str, encoded: str) -> None:
    """B11, B14: one helper builds every address."""
    assert dav.Tree.of("files", uid).url(["x"]) == f"/remote.php/dav/files/{encoded}/x"


@pytest.mark.parametrize("uid", ["", ".", ".."])
def test_a_uid_that_would_climb_is_refused(uid: str) -> None:
    with pytest.raises(InvalidInput):
        dav.Tree.of("files", uid)


def test_slashes_around_and_between_names_mean_nothing() -> None:
    assert dav.split("/a//b/") == ("a", "b")
    assert dav.split("/") == dav.split("") == ()
    assert dav.join(()) == "/"
    assert dav.join(("a", "b")) == "a/b"


def test_the_longest_name_is_accepted_and_one_byte_more_is_not() -> None:
    longest = "ü" * 127 + "x"

    assert dav.split(longest) == (longest,)
    with pytest.raises(InvalidInput, match="255 bytes"):
        dav.split(longest + "x")


def test_a_path_that_nextcloud_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidInput, match="4000 bytes"):
        dav.split("/".join(["x" * 200] * 20))


def test_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Unicode"):
        dav.split("a\ud800")


def test_a_composed_and_a_decomposed_name_are_the_same() -> None:
    """B07: compare in NFC."""
    composed, decomposed = ("Amélie.md",), (unicodedata.normalize("NFD", "Amélie.md"),)

    assert composed != decomposed
    assert dav.same(composed, decomposed)
    assert not dav.same(composed, ("Amelie.md",))


@pytest.mark.parametrize(
    "href",
    [
        "/remote.php/dav/files/anne%20marie/Docs/a%2562c.txt",
        "/remote.php/dav/files/anne%20marie/Docs/a%2562c.txt/",
        "/nextcloud/remote.php/dav/files/anne%20marie/Docs/a%2562c.txt",
        "https://cloud.example.org/remote.php/dav/files/anne%20marie/Docs/a%2562c.txt",
        "//cloud.example.org/remote.php/dav/files/anne%20marie/Docs/a%2562c.txt",
    ],
)
def test_an_href_is_found_below_any_web_root(href: str) -> None:
    """B10, B32: compared decoded, whatever stands before the service."""
    assert dav.Tree.of("files", "anne marie").locate(href, hosts=["Cloud.example.org"]) == (
        "Docs",
        "a%62c.txt",
    )


@pytest.mark.parametrize(
    "href",
    [
        "/remote.php/dav/files/bob/x",
        "/remote.php/dav/trashbin/alice/x",
        "/remote.php/dav/files/alice/../bob/x",
        "/remote.php/dav/files/alice/%2e%2e/bob/x",
        "/remote.php/dav/files/alice/a%2Fb",
        "/remote.php/dav/files/alice//x",
        "/remote.php/dav/files/alice/a%00b",
        "/remote.php/dav/files/alice/%ff",
        "/remote.php/dav/files/alice/x?y",
        "/remote.php/dav/files/alice/x#y",
        "/remote.php/dav/files",
        "/elsewhere",
        "",
        "https://evil.example/remote.php/dav/files/alice/x",
        "https://[::1/remote.php/dav/files/alice/x",
    ],
)
def test_an_href_elsewhere_is_dropped(href: str) -> None:
    assert dav.Tree.of("files", "alice").locate(href, hosts=["cloud.example.org"]) is None


def test_the_wildcards_of_like_stand_for_themselves() -> None:
    assert r"<d:literal>%100\%\_a\\b&lt;%</d:literal>" in dav.like("d:displayname", "100%_a\\b<")


def test_one_condition_stands_alone_and_several_are_joined() -> None:
    one = dav.search(
        scope="/files/a&b", properties=["d:getetag"], conditions=["<x/>"], limit=3, first=0
    ).decode()
    two = dav.search(
        scope="/files/a", properties=["d:getetag"], conditions=["<x/>", "<y/>"], limit=3, first=6
    ).decode()

    assert "<d:where><x/></d:where>" in one
    assert "<d:href>/files/a&amp;b</d:href>" in one
    assert "firstresult" not in one
    assert "<d:where><d:and><x/><y/></d:and></d:where>" in two
    assert ">6</s:firstresult>" in two
