import pytest

from nextcloud_mcp_server.auth.builtin.pace import Pace, network
from nextcloud_mcp_server.errors import TooManyRequests
from tests.clients_stage import Clock


def test_one_too_many_is_told_how_long_to_wait() -> None:
    clock = Clock()
    pace = Pace(2, seconds=60, monotonic=clock.monotonic)
    pace.count("a")
    clock.go(seconds=30)
    pace.check("a")
    pace.count("a")

    with pytest.raises(TooManyRequests, match="30 seconds") as caught:
        pace.check("a")

    assert caught.value.retry_after_seconds == 30
    pace.check("b")
    clock.go(seconds=30)
    pace.check("a")


def test_keys_without_end_are_not_kept() -> None:
    pace = Pace(1, seconds=60, monotonic=Clock().monotonic, most_keys=2)
    for key in "abc":
        pace.count(key)

    pace.check("a")
    for key in "bc":
        with pytest.raises(TooManyRequests):
            pace.check(key)


def test_an_ipv6_network_counts_as_one() -> None:
    assert network("2001:db8:1:2:3::4") == network("2001:db8:1:2:ffff::") == "2001:db8:1:2::"
    assert network("192.0.2.1") == "192.0.2.1"
    assert network("unknown") == "unknown"
