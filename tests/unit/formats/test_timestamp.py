from datetime import date

import pytest

from nextcloud_mcp_server.formats import timestamp


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-11-27", "2026-11-27T00:00:00"),
        ("2026-11-27T15:00:00z", "2026-11-27T15:00:00+00:00"),
        (" 2026-11-27t15:00:00.5-03:30\n", "2026-11-27T15:00:00.500000-03:30"),
    ],
)
def test_a_time_of_a_client_is_read_as_rfc_3339_allows_it(text: str, shown: str) -> None:
    assert timestamp.read(text).isoformat() == shown


@pytest.mark.parametrize("text", ["2026-12-08", "20261208", "2026-W50-2", "2026W502", " 2026-12-08\n"])
def test_a_date_is_one_in_each_form_of_iso_8601(text: str) -> None:
    assert timestamp.day(text) == date.fromisocalendar(2026, 50, 2)


@pytest.mark.parametrize("text", ["2026-12-08T00:00", "20261208T000000Z", "2026-13-08", "2026-W54-1", ""])
def test_what_has_a_time_or_is_none_is_no_date(text: str) -> None:
    assert timestamp.day(text) is None
