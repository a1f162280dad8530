from datetime import UTC, datetime, timedelta, tzinfo
from io import StringIO
from zoneinfo import ZoneInfo

import pytest
from dateutil import tz

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import ical, zones
from nextcloud_mcp_server.formats.zones import Zones

OUTLOOK = (
    "BEGIN:VTIMEZONE\nTZID:W. Europe Standard Time\nBEGIN:STANDARD\nDTSTART:16010101T030000\nTZOFFSETFROM:+0200\n"
    "TZOFFSETTO:+0100\nRRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10\nEND:STANDARD\nBEGIN:DAYLIGHT\n"
    "DTSTART:16010101T020000\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0200\nRRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3\n"
    "END:DAYLIGHT\nEND:VTIMEZONE\n"
)


def described(*timezones: str) -> Zones:
    return Zones(ical.read("BEGIN:VCALENDAR\n" + "".join(timezones) + "END:VCALENDAR\n"))


@pytest.mark.parametrize(
    "name", ["America/New_York", "Europe/London", "Africa/Casablanca", "Asia/Kolkata", "Australia/Lord_Howe"]
)
def test_a_zone_is_described_as_it_is(name: str) -> None:
    zone = ZoneInfo(name)

    text = zones.describe(zone, 2026).written

    theirs = tz.tzical(StringIO(text)).get()
    assert isinstance(theirs, tzinfo)
    for hours in range(0, 5 * 8766, 13):
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
        assert moment.astimezone(zone).replace(tzinfo=None) == moment.astimezone(theirs).replace(
            tzinfo=None
        ), moment


@pytest.mark.parametrize("name", ["europe/berlin", "EUROPE/BERLIN", " Europe/berlin "])
def test_a_zone_is_found_in_any_letter_case(name: str) -> None:
    assert zones.named(name) == described().get(name) == ZoneInfo("Europe/Berlin")


def test_a_zone_is_found_by_the_names_programs_give_it() -> None:
    located = "BEGIN:VTIMEZONE\nTZID:Custom\nX-LIC-LOCATION:Asia/Tokyo\nEND:VTIMEZONE\n"
    found = described(OUTLOOK, located)

    assert found.get("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    assert found.get("/freeassociation.sourceforge.net/Europe/Berlin") == ZoneInfo("Europe/Berlin")
    assert found.get("Custom") == ZoneInfo("Asia/Tokyo")
    assert found.get("Etc/UTC") is UTC
    outlook = found.get("W. Europe Standard Time")
    assert datetime(2026, 7, 1, 12, tzinfo=outlook).utcoffset() == timedelta(hours=2)
    assert (found.get("Nowhere"), found.get("../../etc/passwd"), found.get("/etc/passwd")) == (
        None,
        None,
        None,
    )
    assert zones.name_of(outlook, "W. Europe Standard Time") == "W. Europe Standard Time"
    assert (zones.name_of(None), zones.name_of(UTC)) == (None, "UTC")


@pytest.mark.parametrize(
    "broken",
    [
        OUTLOOK.replace("FREQ=YEARLY", "FREQ=SECONDLY"),
        OUTLOOK.replace("BYMONTH=3", "BYMONTH=3;BYSECOND=1,2"),
        OUTLOOK.replace("BYMONTH=3", "BYMONTH=3;BYHOUR=1,2"),
        OUTLOOK.replace("TZOFFSETTO:+0200", "TZOFFSETTO:soon"),
        OUTLOOK.replace("END:VTIMEZONE", f"X-LONG:{'x' * 20_000}\nEND:VTIMEZONE"),
    ],
)
def test_a_description_that_would_run_away_or_means_nothing_is_not_used(broken: str) -> None:
    unnamed = broken.replace("W. Europe Standard Time", "Own Zone")

    assert described(unnamed).get("Own Zone") is None
    assert described(broken).get("W. Europe Standard Time") == ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "x" * 100, "Europe", "../x", "Europe/Ber\x00lin"])
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(errors.InvalidInput, match="Europe/Berlin"):
        zones.named(name)


def test_names_that_users_make_up_do_not_stay_in_memory() -> None:
    for number in range(1_500):
        assert zones.found(f"Nowhere/Zone{number}") is None

    assert zones._known.cache_info().currsize <= 1_024  # pyright: ignore[reportPrivateUsage]
    assert zones.found("Europe/Berlin") is zones.found("Europe/Berlin")
