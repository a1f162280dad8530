"""The sandbox's CalDAV, below /remote.php/dav/calendars."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.apps.deck.calendar import board_calendars
from nextcloud_mcp_server.sandbox.apps.deck.store import DeckStore
from nextcloud_mcp_server.sandbox.calendar_properties import (
    BOXES,
    CALENDAR,
    ICAL,
    Values,
    collection_values,
    object_values,
    pick,
)
from nextcloud_mcp_server.sandbox.calendar_scheduling import cancelled, scheduled
from nextcloud_mcp_server.sandbox.calendar_store import (
    StoredCalendar,
    StoredObject,
    check_object,
    repaired,
    uid_of,
    unfolded,
)
from nextcloud_mcp_server.sandbox.calendar_trash import check_trash, discard, restore, trashed_values
from nextcloud_mcp_server.sandbox.dav_request import Element, parse_wanted, parse_xml
from nextcloud_mcp_server.sandbox.dav_xml import (
    CAL,
    DAV,
    EMPTY_TYPE,
    FEATURES,
    OC,
    XML_TYPE,
    DavFault,
    Found,
    Markup,
    bad_request,
    element,
    escape_href,
    forbidden,
    multistatus,
    not_found,
    not_implemented,
)
from nextcloud_mcp_server.sandbox.propfind import http_date
from nextcloud_mcp_server.sandbox.state import State, User
from nextcloud_mcp_server.sandbox.transfer import check_conditions, destination_of, empty, read_body

_REPORTED = {"Content-Type": XML_TYPE, "Vary": "Brief,Prefer"}
_HEADERS = {
    **_REPORTED,
    "DAV": FEATURES.replace(
        " nc-paginate,",
        " oc-resource-sharing, calendar-access, calendar-proxy, calendar-auto-schedule, nc-calendar-trashbin, "
        "nc-calendar-webcal-cache, nc-paginate,",
    ),
}
_ALLOWED = "OPTIONS, GET, HEAD, DELETE, PROPFIND, PUT, PROPPATCH, COPY, MOVE, REPORT"


@dataclass(frozen=True, slots=True)
class _Seen:
    """A calendar as one user sees it: their own, or shared by `owner`."""

    stored: StoredCalendar
    owner: User
    read_only: bool | None = None

    @property
    def writable(self) -> bool:
        return self.stored.kind == "own" and not self.read_only


@dataclass(frozen=True, slots=True)
class CalendarRequest:
    """One request to a person's calendars; `names` is the path below them."""

    request: Request
    state: State
    user: User
    names: Sequence[str]
    base: str

    async def answer(self) -> Response:
        """Answer the request."""
        body = await read_body(self.request)
        match self.request.method, self.names:
            case "PROPFIND", ["trashbin", "objects"]:
                raise DavFault(501, "Sabre\\DAV\\Exception\\NotImplemented", "", headers=_HEADERS)
            case "PROPFIND", _:
                return multistatus(self._found(parse_wanted(body)), headers=_HEADERS)
            case (("REPORT" | "MOVE"), ["trashbin", "objects", *rest]):
                return self._answer_trash(rest, body)
            case "REPORT", [name]:
                return multistatus(self._reported(name, parse_xml(body)), headers=_REPORTED)
            case "OPTIONS", _:
                return empty(200, Allow=_ALLOWED, DAV=_HEADERS["DAV"])
            case (("MKCALENDAR" | "PROPPATCH" | "DELETE" | "POST"), [name]):
                return self._answer_calendar(name, body)
            case (("GET" | "PUT" | "DELETE"), [name, object_name]):
                return self._answer_object(name, object_name, body)
            case _:
                raise not_implemented(self.request.method)

    def _answer_trash(self, names: Sequence[str], body: bytes) -> Response:
        if self.request.method == "REPORT":
            wanted = parse_wanted(body)
            found = trashed_values(self.user).items()
            return multistatus(
                [pick(self._href("trashbin", "objects", name), one, wanted) for name, one in found],
                headers=_REPORTED,
            )
        target = destination_of(self.request, self.base)
        if len(names) != 1 or not target.startswith(f"/{self.user.uid}/trashbin/restore/"):
            raise forbidden("")
        restore(self.user, names[0])
        return empty(201)

    # What is done to a calendar

    def _answer_calendar(self, name: str, body: bytes) -> Response:
        match self.request.method:
            case "MKCALENDAR":
                return self._make(name, parse_xml(body))
            case "DELETE":
                seen = self._calendar(name)
                if self.request.headers.get("x-nc-caldav-no-trashbin") == "1":
                    del self.user.calendars[name]
                else:
                    seen.stored.deleted = True
                return empty(204)
            case "PROPPATCH":
                renamed = parse_xml(body).find("set", "prop", "displayname")
                self._calendar(name).stored.display_name = "" if renamed is None else renamed.text
                found = Found(self._href(name), {f"{{{DAV}}}displayname": None})
                return multistatus([found], headers=_REPORTED)
            case _:
                return self._share(name, parse_xml(body))

    def _make(self, name: str, asked: Element) -> Response:
        if name in self.user.calendars:
            # Also one in the trash: its name stays taken.
            raise DavFault(
                405,
                "Sabre\\DAV\\Exception\\MethodNotAllowed",
                "The resource you tried to create already exists",
                headers={"Allow": _ALLOWED},
            )
        title = asked.find("set", "prop", "displayname")
        prop = asked.find("set", "prop")
        kinds = None if prop is None else prop.find("supported-calendar-component-set", uri=CAL)
        color = None if prop is None else prop.find("calendar-color", uri=ICAL)
        self.user.calendars[name] = StoredCalendar(
            name if title is None else title.text,
            color="#0082C9" if color is None else color.text,
            kinds=("VEVENT",)
            if kinds is None
            else tuple(one.attributes["name"] for one in kinds.every("comp", uri=CAL)),
        )
        return empty(201)

    def _share(self, name: str, asked: Element) -> Response:
        for one in asked.every("set", uri=OC):
            href = one.find("href")
            uid = "" if href is None else href.text.rpartition("/")[2]
            self._calendar(name).stored.shared_with[uid] = one.find("read-write", uri=OC) is None
        return Response(b"", 200, {"Content-Type": EMPTY_TYPE})

    # What is done to an object

    def _answer_object(self, name: str, object_name: str, body: bytes) -> Response:
        seen = self._calendar(name)
        found = seen.stored.objects.get(object_name)
        unchanged = check_conditions(self.request, found)
        if unchanged is not None:
            return unchanged
        if self.request.method == "PUT":
            if not seen.writable:
                raise self._refused(seen, name, None if found is None else object_name)
            return self._put(seen, object_name, body)
        if found is None:
            raise not_found("Calendar object not found")
        if self.request.method == "GET":
            return _download(object_name, found)
        if not seen.writable:
            raise self._refused(seen, name, None)
        discard(self.state, seen.stored, object_name)
        cancelled(self.state, seen.owner, found.data)
        return empty(204)

    def _refused(self, seen: _Seen, name: str, object_name: str | None) -> DavFault:
        """Refuse a change: objects of other users look missing (`DavAclPlugin.php`)."""
        if object_name is not None and (seen.owner is not self.user or seen.stored.kind == "deck"):
            return not_found(f"Node with name '{object_name}' could not be found")
        if seen.owner is not self.user:
            return not_found(f"Calendar with name '{name}' could not be found")
        return forbidden("Access denied")

    def _put(self, seen: _Seen, name: str, body: bytes) -> Response:
        text, calendar = body.decode(errors="replace"), seen.stored
        check_object(calendar, text)
        uid, known = uid_of(text), name in calendar.objects
        if uid is not None and not known:
            if calendar.holds_uid(uid, but=name):
                raise bad_request("Calendar object with uid already exists in this calendar collection.")
            check_trash(self.state, calendar, uid)
        old = calendar.objects[name].data if known else ""
        noted = scheduled(self.state, seen.owner, old, text)
        calendar.put(name, noted or (repaired(text) if uid is None else text), self.state.clock().timestamp())
        # If the object was repaired, or scheduling added to it, it differs from the request: so the answer has no etag.
        etag = f'"{calendar.objects[name].etag}"'
        changed = noted is not None and unfolded(noted) != unfolded(text)
        told = {} if uid is None or changed else {"ETag": etag, "OC_ETag": etag}
        return empty(204 if known else 201, **told)

    # What PROPFIND finds

    def _found(self, wanted: list[str] | None) -> list[Found]:
        below = self.request.headers.get("depth", "1") != "0"
        match self.names:
            case []:
                home = pick(f"{self._href()}/", collection_values("home", Markup("<d:collection/>")), wanted)
                if not below:
                    return [home]
                seen = [self._describe(name, one, wanted) for name, one in self._calendars().items()]
                boxes = (
                    pick(f"{self._href(name)}/", collection_values(name, kind), wanted)
                    for name, kind in BOXES.items()
                )
                return [home, *seen, *boxes]
            case [name]:
                seen = self._calendar(name)
                objects = seen.stored.objects if below else {}
                found = (
                    pick(self._href(name, each), object_values(one), wanted) for each, one in objects.items()
                )
                return [self._describe(name, seen, wanted), *found]
            case [name, each] if each in self._calendar(name).stored.objects:
                return [
                    pick(
                        self._href(name, each),
                        object_values(self._calendar(name).stored.objects[each]),
                        wanted,
                    )
                ]
            case _:
                raise not_found("Calendar object not found")

    def _describe(self, name: str, seen: _Seen, wanted: list[str] | None) -> Found:
        stored, token = seen.stored, f"http://sabre.io/ns/sync/{seen.stored.changes}"
        right = "shared" if seen.read_only else stored.kind
        title = stored.display_name
        shared = {} if seen.read_only is None else {f"{{{OC}}}read-only": "1" if seen.read_only else ""}
        values: Values = {
            f"{{{DAV}}}displayname": title
            if seen.read_only is None
            else f"{title} ({seen.owner.display_name})",
            f"{{{DAV}}}sync-token": token,
            "{http://calendarserver.org/ns/}getctag": token,
            f"{{{CAL}}}supported-calendar-component-set": Markup(
                "".join(f'<cal:comp name="{kind}"/>' for kind in stored.kinds)
            ),
            f"{{{ICAL}}}calendar-color": stored.color,
            f"{{{ICAL}}}calendar-order": stored.order,
            **_sharing(seen),
            **shared,
            **collection_values(right, CALENDAR),
        }
        return pick(f"{self._href(name)}/", values, wanted)

    # What a REPORT finds

    def _reported(self, name: str, asked: Element) -> list[Found]:
        objects = self._calendar(name).stored.objects
        prop = asked.find("prop")
        wanted = [] if prop is None else [child.name for child in prop.children]
        hrefs = [unquote(one.text.rpartition("/")[2]) for one in asked.every("href")]
        if hrefs:
            found = {each: objects[each] for each in hrefs if each in objects}
        else:
            found = {each: one for each, one in objects.items() if _passes(one, asked)}
        return [pick(self._href(name, each), object_values(one), wanted) for each, one in found.items()]

    # Where things are

    def _calendars(self) -> dict[str, _Seen]:
        own = {name: _Seen(one, self.user) for name, one in self.user.calendars.items() if not one.deleted}
        boards = board_calendars(self.state.store(DeckStore), self.user.uid)
        own |= {name: _Seen(one, self.user) for name, one in boards.items()}
        for owner in self.state.users.values():
            for name, one in owner.calendars.items():
                if self.user.uid in one.shared_with and not one.deleted:
                    read_only = one.shared_with[self.user.uid]
                    own[f"{name}_shared_by_{owner.uid}"] = _Seen(one, owner, read_only)
        return own

    def _calendar(self, name: str) -> _Seen:
        seen = self._calendars().get(name)
        if seen is None:
            raise not_found(f"Node with name '{name}' could not be found")
        return seen

    def _href(self, *names: str) -> str:
        return escape_href("/".join((self.base, self.user.uid, *names)))


def answer_principal(user: User, wanted: list[str] | None, *, base: str) -> Response:
    """Answer PROPFIND on a principal: its homes, and its addresses for invitations."""
    home = escape_href(f"{base}/principals/users/{user.uid}/")
    mail = [f"mailto:{user.email}"] if user.email else []
    values: Values = {
        f"{{{CAL}}}calendar-home-set": _href(escape_href(f"{base}/calendars/{user.uid}/")),
        "{urn:ietf:params:xml:ns:carddav}addressbook-home-set": _href(
            escape_href(f"{base}/addressbooks/users/{user.uid}/")
        ),
        f"{{{CAL}}}calendar-user-address-set": Markup("".join(_href(each) for each in (*mail, home))),
        f"{{{CAL}}}schedule-inbox-URL": _href(escape_href(f"{base}/calendars/{user.uid}/inbox/")),
        f"{{{DAV}}}displayname": user.display_name,
        f"{{{DAV}}}resourcetype": Markup("<d:principal/>"),
    }
    return multistatus([pick(home, values, wanted)], headers=_HEADERS)


def _sharing(seen: _Seen) -> Values:
    if seen.stored.kind == "deck":
        return {}
    return {f"{{{OC}}}owner-principal": f"principals/users/{seen.owner.uid}", f"{{{OC}}}invite": None}


def no_home(uid: str) -> DavFault:
    """Answer that there is no such home; the homes of other users get the same answer."""
    return DavFault(
        404, "Sabre\\DAV\\Exception\\NotFound", f"Node with name '{uid}' could not be found", headers=_HEADERS
    )


def _href(text: str) -> Markup:
    return Markup(element(f"{{{DAV}}}href", text))


def _download(name: str, found: StoredObject) -> Response:
    etag, plain = f'"{found.etag}"', quote(name, safe="")
    headers = {
        "Content-Type": f"text/calendar; charset=utf-8; component={found.kind.lower()}",
        "Last-Modified": http_date(found.modified_at),
        "ETag": etag,
        "OC-ETag": etag,
        "Content-Disposition": f"attachment; filename*=UTF-8''{plain}; filename=\"{plain}\"",
    }
    return Response(found.data, 200, headers)


def _passes(one: StoredObject, asked: Element) -> bool:
    """Return whether an object is of the requested kind, and in the range."""
    whole = asked.find("filter", uri=CAL)
    outer = None if whole is None else whole.find("comp-filter", uri=CAL)
    inner = None if outer is None else outer.find("comp-filter", uri=CAL)
    if inner is None:
        return True
    span = inner.find("time-range", uri=CAL)
    fits = span is None or one.takes_place(span.attributes["start"], span.attributes["end"])
    uid = inner.find("prop-filter", "text-match", uri=CAL)
    return one.kind == inner.attributes["name"] and fits and (uid is None or uid.text == uid_of(one.data))
