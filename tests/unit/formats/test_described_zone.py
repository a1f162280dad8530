from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.formats import zones
from nextcloud_mcp_server.formats.described_zone import DescribedZone
from tests.unit.formats.test_ical_time import changes_of

NAMES = ["Europe/Berlin", "America/New_York", "America/St_Johns", "Australia/Lord_Howe", "America/Santiago"]


def described(name: str) -> DescribedZone:
    found = DescribedZone.read("Own", zones.describe(ZoneInfo(name), 2026).written)
    assert found is not None
    return found


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(NAMES),
    st.integers(0, 1),
    st.sampled_from([2026, 2027]),
    st.integers(-180, 180),
    st.sampled_from([0, 60]),
)
def test_a_description_says_what_the_zone_database_says(
    name: str, which: int, year: int, minutes: int, later: int
) -> None:
    zone, own = ZoneInfo(name), described(name)
    moment = changes_of(name, year)[which] + timedelta(minutes=minutes)
    clock = moment.astimezone(zone).replace(tzinfo=None)
    # Into the hour that is skipped, where there is one.
    clock = clock + timedelta(minutes=later)

    assert moment.astimezone(own).replace(tzinfo=None) == moment.astimezone(zone).replace(tzinfo=None)
    assert moment.astimezone(own).fold == moment.astimezone(zone).fold
    assert clock.replace(tzinfo=own).utcoffset() == clock.replace(tzinfo=zone).utcoffset()
    assert clock.replace(tzinfo=own).astimezone(UTC) == clock.replace(tzinfo=zone).astimezone(UTC)


def test_two_of_one_description_are_one_zone() -> None:
    text = zones.describe(ZoneInfo("Europe/Berlin"), 2026).written
    one = described("Europe/Berlin")

    assert DescribedZone.read("Own", text) is one
    DescribedZone.read.cache_clear()
    assert DescribedZone.read("Own", text) == one
    assert len({one, DescribedZone.read("Own", text), DescribedZone.read("Other", text)}) == 2
    assert one != UTC


@pytest.mark.parametrize("text", ["", "BEGIN:VTIMEZONE\nTZID:x\nEND:VTIMEZONE\n"])
def test_a_description_that_means_nothing_is_none(text: str) -> None:
    assert DescribedZone.read("x", text) is None


def test_a_zone_names_its_time_and_its_summer() -> None:
    own = described("Europe/Berlin")
    summer = datetime(2026, 7, 1, tzinfo=own)

    assert (summer.tzname(), summer.dst()) == ("CEST", timedelta(hours=1))
    assert (own.utcoffset(None), own.dst(None), own.tzname(None)) == (None, None, None)
