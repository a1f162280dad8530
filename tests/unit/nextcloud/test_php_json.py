import pytest

from nextcloud_mcp_server.nextcloud.php_json import as_list, as_map


@pytest.mark.parametrize(
    ("written", "read"), [({"a": 1}, {"a": 1}), ({}, {}), ([], {}), (None, {}), ("x", {}), ([1], {})]
)
def test_an_empty_map_is_written_as_a_list(written: object, read: object) -> None:
    assert as_map(written) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [([1], [1]), ([], []), ({"1": "a", "3": "b"}, ["a", "b"]), ({}, []), (None, []), (7, 7)],
)
def test_a_list_with_gaps_is_written_as_a_map(written: object, read: object) -> None:
    assert as_list(written) == read
