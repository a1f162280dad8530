import pytest

from nextcloud_mcp_server.auth.scopes import SCOPES, is_writing, offered


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
