import pytest

from nextcloud_mcp_server.auth.token_scopes import asked, covers, effective, granted, require
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
        ({"scope": "notes"}, NOTHING),
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
