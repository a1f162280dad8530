"""The properties of the sandbox's calendars and of the objects in them."""

from nextcloud_mcp_server.sandbox.calendar_store import StoredObject
from nextcloud_mcp_server.sandbox.dav_xml import CAL, DAV, Found, Markup
from nextcloud_mcp_server.sandbox.propfind import http_date

Values = dict[str, "str | Markup | None"]

CALENDAR = Markup("<d:collection/><cal:calendar/>")
ICAL = "http://apple.com/ns/ical/"
_READ = ("d:read", "d:read-acl", "d:read-current-user-privilege-set")
_WRITE = ("d:write-properties", "d:write-content", "d:unlock", "d:bind", "d:unbind", "d:write-acl")
_RIGHTS = {
    "home": ("d:write", *_WRITE, *_READ),
    "own": ("d:write", *_WRITE, *_READ, "cal:read-free-busy"),
    # Deck until 1.16: newer ones let its cards be changed here too.
    "deck": ("d:write-properties", *_READ),
    "birthdays": ("d:write-properties", *_READ, "cal:read-free-busy"),
    "shared": ("d:write-properties", *_READ, "cal:read-free-busy"),
    "inbox": (
        "cal:schedule-deliver", "cal:schedule-deliver-invite", "cal:schedule-deliver-reply",
        "cal:schedule-query-freebusy", "d:unbind", "d:write-properties", *_READ,
    ),
    "outbox": (
        "cal:schedule-send", "cal:schedule-send-invite", "cal:schedule-send-reply", "cal:schedule-send-freebusy",
        "cal:schedule-post-vevent", *_READ,
    ),
    "trashbin": ("d:all", "d:read", "d:write", *_WRITE, "d:read-acl", "d:read-current-user-privilege-set"),
}  # fmt: skip
BOXES = {
    "inbox": Markup("<d:collection/><cal:schedule-inbox/>"),
    "outbox": Markup("<d:collection/><cal:schedule-outbox/>"),
    "trashbin": Markup('<d:collection/><x2:trash-bin xmlns:x2="http://nextcloud.com/ns"/>'),
}


def collection_values(right: str, kind: Markup) -> Values:
    """Return the properties of a collection with these rights."""
    rights = "".join(f"<d:privilege><{each}/></d:privilege>" for each in _RIGHTS[right])
    return {f"{{{DAV}}}resourcetype": kind, f"{{{DAV}}}current-user-privilege-set": Markup(rights)}


def object_values(one: StoredObject) -> Values:
    """Return the properties of an object."""
    return {
        f"{{{DAV}}}getlastmodified": http_date(one.modified_at),
        f"{{{DAV}}}getcontentlength": str(len(one.data.encode())),
        f"{{{DAV}}}resourcetype": None,
        f"{{{DAV}}}getetag": f'"{one.etag}"',
        f"{{{DAV}}}getcontenttype": f"text/calendar; charset=utf-8; component={one.kind.lower()}",
        # Without the carriage returns that a GET gives.
        f"{{{CAL}}}calendar-data": one.data.replace("\r", ""),
    }


def pick(href: str, values: Values, wanted: list[str] | None) -> Found:
    """Return the requested properties; without a list, those that are cheap to compute."""
    cheap = [name for name in values if name.startswith((f"{{{DAV}}}get", f"{{{DAV}}}resource"))]
    names = cheap if wanted is None else wanted
    missing = [name for name in names if name not in values]
    found = {name: values[name] for name in names if name in values}
    return Found(href, found, {404: missing} if missing else {})
