import pytest

from nextcloud_mcp_server.nextcloud import timestamp


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (1_795_813_433, "2026-11-27T21:03:53+00:00"),
        (-62_135_596_801, "1970-01-01T00:00:00+00:00"),
        (253_402_300_800, "9999-12-31T23:59:59+00:00"),
        (10**30, "9999-12-31T23:59:59+00:00"),
    ],
)
def test_a_time_that_no_calendar_has_is_the_nearest_it_has(seconds: int, shown: str) -> None:
    assert timestamp.moment(seconds).isoformat() == shown
