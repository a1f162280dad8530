import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.auth.scopes import BUNDLES, SCOPES, WORDS, expand, is_writing, offered, shorten
from nextcloud_mcp_server.tools.registry import TOOLSETS, load
from nextcloud_mcp_server.tools.toolset import ToolSpec

TOOLS: list[ToolSpec] = [spec for name in TOOLSETS for spec in load(name).tools]
READING = {scope for scope in SCOPES if scope.endswith(":read")}
scopes_of_a_person = st.frozensets(st.sampled_from(SCOPES))


@pytest.mark.parametrize(
    ("toolsets", "read_only", "scopes"),
    [
        (("notes", "files"), False, {"notes:read", "notes:write", "files:read", "files:write"}),
        (("notes", "files"), True, {"notes:read", "files:read"}),
        (("notes",), False, {"notes:read", "notes:write"}),
        (("notes",), True, {"notes:read"}),
        ((), False, set[str]()),
        (("unheard-of",), False, set[str]()),
    ],
)
def test_settings_bound_what_can_be_permitted(
    toolsets: tuple[str, ...], *, read_only: bool, scopes: set[str]
) -> None:
    assert offered(toolsets, read_only=read_only) == scopes


def test_writing_scopes_are_told_by_their_end() -> None:
    assert {scope.partition(":")[2] for scope in SCOPES if is_writing(scope)} == {"write"}
    assert {scope.partition(":")[2] for scope in SCOPES if not is_writing(scope)} == {"read"}


@pytest.mark.parametrize(
    ("words", "scopes"),
    [
        ("read", READING),
        ("write", set(SCOPES) - READING),
        ("read write", set(SCOPES)),
        ("notes", {"notes:read", "notes:write"}),
        ("mail", {"mail:read"}),
        ("notes files:read", {"notes:read", "notes:write", "files:read"}),
        ("notes:read", {"notes:read"}),
        # RFC 6749 §3.3: case-sensitive; what is not known is ignored.
        ("READ Notes notes:* notes: :read all openid", set[str]()),
        ("", set[str]()),
    ],
)
def test_a_bundle_stands_for_its_scopes_and_an_unknown_word_for_none(words: str, scopes: set[str]) -> None:
    assert expand(words.split()) == scopes


def test_each_app_has_a_bundle_of_its_own_and_no_word_has_two_meanings() -> None:
    apps = {scope.partition(":")[0] for scope in SCOPES}

    assert BUNDLES.keys() == {"read", "write", *apps}
    assert not BUNDLES.keys() & set(SCOPES)
    assert {"read", "write"}.isdisjoint(apps)
    assert expand(WORDS) == set(SCOPES)
    # A scope token of RFC 6749 §3.3 that no issuer has to quote.
    assert all(word.isascii() and word.replace(":", "").isalpha() for word in WORDS)


@given(words=st.frozensets(st.sampled_from(sorted(WORDS)) | st.text(max_size=8)))
def test_what_words_stand_for_is_what_each_of_them_does(words: frozenset[str]) -> None:
    assert expand(words) == {scope for word in words for scope in expand([word])}
    assert expand(expand(words)) == expand(words)


@given(scopes=scopes_of_a_person, of=scopes_of_a_person)
def test_the_short_form_means_the_same_wherever_it_is_used(
    scopes: frozenset[str], of: frozenset[str]
) -> None:
    short = shorten(scopes & of, of=of)

    assert expand(short) & of == scopes & of
    assert len(short) <= len(scopes & of)


def test_everything_and_all_reading_are_asked_for_in_one_or_two_words() -> None:
    assert shorten(SCOPES) == ("read", "write")
    assert shorten(READING) == ("read",)
    assert shorten({*READING, "notes:write"}) == ("read", "notes:write")
    assert shorten({"notes:read"}, of={"notes:read", "notes:write"}) == ("notes:read",)
    assert shorten({"notes:read"}) == ("notes:read",)
    assert shorten(()) == ()


def test_a_tool_that_needs_a_word_of_its_own_says_so_by_scopes_and_never_by_a_bundle() -> None:
    assert {scope for spec in TOOLS for scope in spec.scopes} <= set(SCOPES)
