import pytest

from nextcloud_mcp_server.auth.token_scopes import asked, granted

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
