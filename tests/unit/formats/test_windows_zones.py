from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from nextcloud_mcp_server.formats import zones
from nextcloud_mcp_server.formats.windows_zones import iana_name, table


def test_the_table_is_that_of_another_implementation() -> None:
    assert table() == WINDOWS_TO_OLSON


@pytest.mark.parametrize("name", sorted(table()))
def test_each_name_means_a_zone_there_is(name: str) -> None:
    zone = ZoneInfo(table()[name])

    assert zones.named(name.upper()) == (UTC if name == "UTC" else zone)


def test_what_exchange_calls_utc_is_utc_and_other_names_are_none() -> None:
    assert zones.named("tzone://Microsoft/Utc") is UTC
    assert iana_name("Europe/Berlin") is None
