"""What DAV answers look like: multistatus documents, error bodies and hrefs, byte for byte."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import escape as escape_xml

from starlette.responses import Response

DAV = "DAV:"
OC = "http://owncloud.org/ns"
NC = "http://nextcloud.org/ns"
SABRE = "http://sabredav.org/ns"
CARD = "urn:ietf:params:xml:ns:carddav"
CAL = "urn:ietf:params:xml:ns:caldav"

XML_TYPE = "application/xml; charset=utf-8"
EMPTY_TYPE = "text/html; charset=UTF-8"
FEATURES = (
    "1, 3, extended-mkcol, access-control, calendarserver-principal-property-search, nc-paginate, "
    "nextcloud-checksum-update, nc-calendar-search, nc-enable-birthday-calendar"
)
LEGACY_FEATURES = "1, 3, extended-mkcol, nextcloud-checksum-update"

_PREFIXES = {DAV: "d", SABRE: "s", CAL: "cal", CARD: "card", OC: "oc", NC: "nc"}
_STATUS_LINES = {
    200: "HTTP/1.1 200 OK",
    403: "HTTP/1.1 403 Forbidden",
    404: "HTTP/1.1 404 Not Found",
    424: "HTTP/1.1 424 Failed Dependency",
}
_RESERVED = re.compile(rb"[^A-Za-z0-9_\-.~()/]")

# A property's value: None makes an empty element, Markup goes in as it is.
PropertyValue = "str | Markup | None"


class Markup(str):
    """Text that is XML already."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Found:
    """One resource of a multistatus: the properties it has, and those that failed by status."""

    href: str
    properties: Mapping[str, "str | Markup | None"]
    failed: Mapping[int, Iterable[str]] = field(default_factory=dict[int, list[str]])


class DavFault(Exception):
    """An answer that is a DAV error body."""

    def __init__(
        self,
        status: int,
        exception: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        header: str | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.exception = exception
        self.message = message
        self.headers = dict(headers or {})
        self.header = header
        self.extra = dict(extra or {})


def fault_response(fault: DavFault) -> Response:
    """Render the body that sabre/dav sends for an exception."""
    namespaces = f'xmlns:d="{DAV}" xmlns:s="{SABRE}"'
    if fault.extra:
        namespaces += f' xmlns:o="{OC}"'
    message = f"<s:message>{_text(fault.message, quotes=False)}</s:message>"
    lines = [
        f"  <s:exception>{fault.exception}</s:exception>",
        f"  {message if fault.message else '<s:message/>'}",
    ]
    if fault.header is not None:
        lines.append(f"  <s:header>{fault.header}</s:header>")
    lines += [f'  <o:{k} xmlns:o="o:">{_text(v, quotes=False)}</o:{k}>' for k, v in fault.extra.items()]
    body = "\n".join(
        ['<?xml version="1.0" encoding="utf-8"?>', f"<d:error {namespaces}>", *lines, "</d:error>\n"]
    )
    return Response(body, fault.status, {"Content-Type": XML_TYPE, **fault.headers})


def streamed_fault(fault: DavFault) -> Response:
    """Render what is left of an exception in an answer that had begun: a 207 with two documents, the first torn off.

    The tag of the first one is still open, as no attribute is known to be its last (nextcloud/server#63415).
    """
    second = bytes(fault_response(fault).body).decode()
    return Response(
        f"{_start_of_multistatus()}{second}", 207, {"Content-Type": XML_TYPE, "Vary": "Brief,Prefer"}
    )


def not_found(message: str) -> DavFault:
    """Build the 404."""
    return DavFault(404, "Sabre\\DAV\\Exception\\NotFound", message)


def forbidden(message: str) -> DavFault:
    """Build the 403."""
    return DavFault(403, "Sabre\\DAV\\Exception\\Forbidden", message)


def conflict(message: str) -> DavFault:
    """Build the 409."""
    return DavFault(409, "Sabre\\DAV\\Exception\\Conflict", message)


def file_locked(message: str) -> DavFault:
    """Build the 423."""
    return DavFault(423, "OCA\\DAV\\Connector\\Sabre\\Exception\\FileLocked", message)


def insufficient_storage(message: str) -> DavFault:
    """Build the 507."""
    return DavFault(507, "Sabre\\DAV\\Exception\\InsufficientStorage", message)


def bad_request(message: str) -> DavFault:
    """Build the 400."""
    return DavFault(400, "Sabre\\DAV\\Exception\\BadRequest", message)


def not_implemented(method: str) -> DavFault:
    """Build the 501 for a method no plugin handles."""
    return DavFault(
        501,
        "Sabre\\DAV\\Exception\\NotImplemented",
        f"There was no plugin in the system that was willing to handle this {method} method.",
    )


def invalid_path(reason: str) -> DavFault:
    """Build the 400 for a name Nextcloud does not accept."""
    return DavFault(
        400,
        "OCA\\DAV\\Connector\\Sabre\\Exception\\InvalidPath",
        reason,
        extra={"retry": "false", "reason": reason},
    )


def multistatus(found: Iterable[Found], *, headers: Mapping[str, str]) -> Response:
    """Render a 207."""
    body = "".join(_response(item) for item in found)
    start = _start_of_multistatus()
    text = f"{start}>{body}</d:multistatus>\n" if body else f"{start}/>\n"
    return Response(text, 207, dict(headers))


def _start_of_multistatus() -> str:
    namespaces = " ".join(f'xmlns:{prefix}="{uri}"' for uri, prefix in _PREFIXES.items())
    return f'<?xml version="1.0"?>\n<d:multistatus {namespaces}'


def escape_href(path: str) -> str:
    """Escape a path as sabre/dav does: with lower-case digits."""
    return _RESERVED.sub(lambda found: b"%%%02x" % found[0][0], path.encode()).decode()


def element(name: str, value: "str | Markup | None") -> str:
    """Render one property; `name` is in Clark notation."""
    uri, _, local = name[1:].partition("}")
    prefix = _PREFIXES.get(uri)
    tag, declaration = (f"{prefix}:{local}", "") if prefix else (f"x1:{local}", f' xmlns:x1="{uri}"')
    if value is None:
        return f"<{tag}{declaration}/>"
    inner = value if isinstance(value, Markup) else _text(value)
    return f"<{tag}{declaration}>{inner}</{tag}>"


def _response(item: Found) -> str:
    parts: list[str] = []
    if item.properties:
        parts.append(_propstat(200, [element(name, value) for name, value in item.properties.items()]))
    for status, names in item.failed.items():
        elements = [element(name, None) for name in names]
        if elements:
            parts.append(_propstat(status, elements))
    return f"<d:response><d:href>{item.href}</d:href>{''.join(parts)}</d:response>"


def _propstat(status: int, elements: list[str]) -> str:
    return (
        f"<d:propstat><d:prop>{''.join(elements)}</d:prop>"
        f"<d:status>{_STATUS_LINES[status]}</d:status></d:propstat>"
    )


def _text(value: str, *, quotes: bool = True) -> str:
    # A reader of XML takes a bare carriage return for a line break.
    return escape_xml(value, {'"': "&quot;", "\r": "&#13;"} if quotes else {})
