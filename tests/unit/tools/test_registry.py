import pytest

from nextcloud_mcp_server.declarations.app import App
from nextcloud_mcp_server.tools.registry import TOOLSETS, load


@pytest.mark.parametrize("name", sorted(TOOLSETS))
def test_each_entry_of_the_table_loads_the_toolset_of_its_name(name: str) -> None:
    assert load(name).name == name


def test_an_entry_that_names_something_else_than_a_toolset_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TOOLSETS, "Result", App("bookmarks"))

    with pytest.raises(
        TypeError, match=r"nextcloud_mcp_server\.apps\.bookmarks\.tools\.Result is no toolset"
    ):
        load("Result")
