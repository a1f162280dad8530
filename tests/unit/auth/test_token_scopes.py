import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.auth.scopes import BUNDLES, SCOPES, WORDS
from nextcloud_mcp_server.auth.token_scopes import AskedWords, asked, covers, effective, granted, require
from nextcloud_mcp_server.errors import TokenTooNarrow

NOTHING: set[str] = set()


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "notes:read notes:write"}, {"notes:read", "notes:write"}),
        ({"scope": "openid  notes:read profile"}, {"notes:read"}),
        ({"scope": ["notes:read", 7, None]}, {"notes:read"}),
        ({"scp": "notes:read"}, {"notes:read"}),
        ({"scp": ["notes:read"], "scope": "files:read"}, {"notes:read", "files:read"}),
        ({"scope": ""}, NOTHING),
        ({"scope": list[str]()}, NOTHING),
        ({"scope": None}, NOTHING),
        ({"scope": {"notes:read": True}}, NOTHING),
        ({"scope": "notes"}, {"notes:read", "notes:write"}),
        ({"scp": ["mail", "tasks:read"]}, {"mail:read", "tasks:read"}),
        ({"scope": "note"}, NOTHING),
        ({"scope": "notes:*"}, NOTHING),
        ({"scope": "notes:READ"}, NOTHING),
        ({"scope": "notes:read,notes:write"}, NOTHING),
        ({"scope": "notes:write"}, {"notes:write"}),
        ({"scope": "x/notes:read"}, NOTHING),
        ({"scope": "notes:reading notes:readnotes:read"}, NOTHING),
        ({"sub": "alice"}, NOTHING),
    ],
)
def test_a_token_allows_what_it_names_exactly(claims: dict[str, object], scopes: set[str]) -> None:
    assert granted(claims) == scopes


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "api://mcp/notes:read"}, {"notes:read"}),
        ({"scope": "notes:read api://other/notes:write"}, NOTHING),
        ({"scope": "read write api://mcp/mail"}, {"mail:read"}),
        ({"scope": "api://mcp/api://mcp/notes:read"}, NOTHING),
        ({"scp": "notes:read"}, {"notes:read"}),
        ({"scp": "api://mcp/notes:read"}, {"notes:read"}),
    ],
)
def test_a_prefix_is_cut_off_once(claims: dict[str, object], scopes: set[str]) -> None:
    assert granted(claims, prefix="api://mcp/") == scopes


def test_scopes_are_asked_for_with_the_prefix() -> None:
    assert asked({"notes:write", "files:read"}, prefix="api://mcp/") == (
        "api://mcp/files:read",
        "api://mcp/notes:write",
    )


READ, WRITE, FILES = "notes:read", "notes:write", "files:read"


@pytest.mark.parametrize(
    ("permitted", "token", "bound", "allowed"),
    [
        ({READ, WRITE}, None, {READ, WRITE}, {READ, WRITE}),
        ({READ, WRITE}, None, {READ}, {READ}),
        ({READ, WRITE}, {READ}, {READ, WRITE}, {READ}),
        ({READ}, {READ, WRITE}, {READ, WRITE}, {READ}),
        ({READ, WRITE, FILES}, {READ, FILES}, {READ, WRITE}, {READ}),
        ({READ}, NOTHING, {READ}, NOTHING),
    ],
)
def test_a_call_may_do_what_person_token_and_operator_allow_together(
    permitted: set[str], token: set[str] | None, bound: set[str], allowed: set[str]
) -> None:
    covered = None if token is None else frozenset(token)

    assert effective(frozenset(permitted), token=covered, bound=frozenset(bound)) == allowed


@pytest.mark.parametrize(
    ("token", "needed", "enough"),
    [
        (None, {READ, WRITE}, True),
        ({READ}, {READ}, True),
        ({READ}, NOTHING, True),
        ({READ}, {READ, WRITE}, False),
        (NOTHING, {READ}, False),
    ],
)
def test_a_token_covers_what_it_names_and_a_call_beyond_that_is_refused_with_the_scopes_to_ask_for(
    token: set[str] | None,
    needed: set[str],
    enough: object,
) -> None:
    covered, wanted = None if token is None else frozenset(token), frozenset(needed)

    assert covers(covered, wanted) is enough
    if enough:
        require(wanted, token=covered)
    else:
        with pytest.raises(TokenTooNarrow, match=f"does not cover.* ask for the scopes: .*{max(needed)}"):
            require(wanted, token=covered)


words = st.frozensets(st.sampled_from(sorted(WORDS)), max_size=6)
fine = st.frozensets(st.sampled_from(SCOPES))


@given(words=words, permitted=fine, bound=fine, needed=fine, prefix=st.sampled_from(["", "api://mcp/"]))
def test_a_token_with_bundles_behaves_as_one_that_names_their_scopes(
    words: frozenset[str],
    permitted: frozenset[str],
    bound: frozenset[str],
    needed: frozenset[str],
    prefix: str,
) -> None:
    spelled = {scope for word in words for scope in BUNDLES.get(word, {word})}
    coarse, plain = (
        granted({"scope": " ".join(f"{prefix}{word}" for word in named)}, prefix=prefix)
        for named in (words, spelled)
    )

    assert coarse == plain
    assert covers(coarse, needed) is covers(plain, needed)
    assert effective(permitted, token=coarse, bound=bound) == effective(permitted, token=plain, bound=bound)


@given(words=words, permitted=fine)
def test_no_word_of_a_token_widens_what_the_person_allowed(
    words: frozenset[str], permitted: frozenset[str]
) -> None:
    token = granted({"scope": " ".join(words)})

    assert effective(permitted, token=token, bound=frozenset(SCOPES)) <= permitted


READING = frozenset(scope for scope in SCOPES if scope.endswith(":read"))


def test_our_own_issuer_is_asked_for_little_at_first_and_for_what_a_call_needs_later() -> None:
    words = AskedWords(("read",), frozenset(SCOPES), ours=True)

    assert words.first == ("read",)
    assert words.scopes_at_sign_in == READING
    assert words.for_call(frozenset({"notes:write"})) == ("notes:write",)
    assert words.for_call(READING | {"notes:write"}) == ("read", "notes:write")


def test_another_issuer_is_asked_in_words_that_it_knows() -> None:
    bound = frozenset({READ, WRITE, FILES})
    each = AskedWords(tuple(sorted(bound)), bound, prefix="x/")
    coarse = AskedWords(("read", "write"), bound, prefix="x/")
    mixed = AskedWords((READ, "read", "notes"), bound)

    assert (
        each.first == each.for_call(bound) == each.every == ("x/files:read", "x/notes:read", "x/notes:write")
    )
    assert coarse.first == coarse.every == ("x/read", "x/write")
    assert coarse.for_call(frozenset({WRITE})) == ("x/write",)
    assert AskedWords(("read",), bound).for_call(frozenset({READ, WRITE})) == (WRITE, "read")
    assert AskedWords(("read",), bound).every == (WRITE, "read")
    assert mixed.for_call(frozenset({READ, WRITE})) == ("notes", READ)
