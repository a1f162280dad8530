"""The end of support of each Nextcloud version, and known defects.

The ends of 32 and 33 are from Nextcloud's own schedule (github.com/nextcloud/server/wiki/
Maintenance-and-Release-Schedule). 34 was released in June and 35 in September 2026, and each is supported for one
year (docs.nextcloud.com, "Maintenance and release schedule").
"""

from datetime import date
from typing import Final

from nextcloud_mcp_server.formats import untrusted

#: The first day without support, by major version.
ENDS: Final = {
    32: date(2026, 9, 27),
    33: date(2027, 2, 18),
    34: date(2027, 7, 1),
    35: date(2027, 10, 1),
}
#: Versions whose end is not in that schedule yet, and is derived from the rule of one year.
BY_RULE: Final = frozenset({34, 35})
KNOWN_ISSUES: Final = {
    33: "app passwords may stop working after a while, above all with an app for passwords or single sign-on "
    "(nextcloud/server#58509): affected users are asked to grant access again; an update to 34 is worth a try.",
}


def major_of(version: str) -> int | None:
    """Parse the major version; None where the text does not begin with a number."""
    return untrusted.integer(version.partition(".")[0])


def support_ended(version: str, today: date) -> bool | None:
    """Tell whether support of this version has ended; None for unknown, newer versions."""
    major = major_of(version)
    if major is None or major > max(ENDS):
        return None
    end = ENDS.get(major)
    return end is None or end <= today


def end_of_support(version: str) -> str | None:
    """Return the last month of support, such as `February 2027`; None where unknown."""
    major = major_of(version) or 0
    end = ENDS.get(major)
    if end is None:
        return None
    month = f"{date.fromordinal(end.toordinal() - 1):%B %Y}"
    return f"{month} (a year after its release; no day is published yet)" if major in BY_RULE else month
