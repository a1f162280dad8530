"""The time zones of Windows, as Outlook and Exchange name them, and the IANA zone of each.

Source of the table in `windows_zones.json`: `windowsZones` of the Unicode CLDR (territory 001). A test compares it
with the table of icalendar.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

#: Outlook on the web and Exchange write these for UTC.
_UTC_URLS: Final = ("tzone://microsoft/utc", "coordinated universal time", "(utc) coordinated universal time")


@cache
def table() -> Mapping[str, str]:
    """Read the table; hardly any calendar needs it."""
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


@cache
def _folded() -> Mapping[str, str]:
    return {name.casefold(): zone for name, zone in table().items()} | dict.fromkeys(_UTC_URLS, "Etc/UTC")


def iana_name(name: str) -> str | None:
    """Return the IANA name of a Windows zone, in any letter case; None for any other name."""
    return _folded().get(name.strip().casefold())
