import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import state_etag


def test_equal_states_have_one_etag_in_whatever_order_their_members_are() -> None:
    etag = state_etag.of({"a": 1, "b": ["ä", None]})

    assert etag == state_etag.of({"b": ["ä", None], "a": 1})
    assert etag != state_etag.of({"a": 1, "b": [None, "ä"]})
    assert len(etag) == 16


@pytest.mark.parametrize("sent", ["e1", '"e1"', ' "e1" '])
def test_the_etag_that_was_read_is_accepted_in_quotes_too(sent: str) -> None:
    state_etag.require(sent, "e1")


@pytest.mark.parametrize("sent", ["", "*", "e2", 'W/"e1"'])
def test_any_other_etag_is_refused_with_the_one_of_now(sent: str) -> None:
    with pytest.raises(errors.EtagMismatch, match="changed since it was read") as refused:
        state_etag.require(sent, "e1")

    assert refused.value.current_etag == "e1"
