"""Changes calendar objects, a whole series or one occurrence, and leaves everything else as it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import ical_time, recurrence
from nextcloud_mcp_server.formats.ical import Component, Line, Unreadable, escape
from nextcloud_mcp_server.formats.ical_time import DAY, Moment
from nextcloud_mcp_server.formats.recurrence import Occurrence, Series
from nextcloud_mcp_server.formats.rule import Rule

PRODUCT: Final = "-//Nextcloud MCP server//EN"
_RECURRING: Final = ("RRULE", "RDATE", "EXDATE", "EXRULE")
_HOUR: Final = timedelta(hours=1)
#: The parts of a recurrence rule that select days.
_DAY_PARTS: Final = ("BYDAY=", "BYMONTHDAY=", "BYMONTH=", "BYYEARDAY=", "BYWEEKNO=")


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of an event; None keeps a value, "" removes it.

    `end` is exclusive: the first moment or day after the event.
    """

    title: str | None = None
    start: Moment | None = None
    end: Moment | None = None
    location: str | None = None
    description: str | None = None
    rule: str | None = None
    attendees: list[str] | None = None
    categories: list[str] | None = None

    @property
    def any(self) -> bool:
        """Tell whether any field is set."""
        return self != Changes()


def new_object(kind: str, uid: str, now: datetime) -> tuple[Component, Component]:
    """Create a calendar object with one empty component of a kind; return both."""
    whole = Component.empty("VCALENDAR")
    whole.set("VERSION", "2.0")
    whole.set("PRODID", PRODUCT)
    made = Component.empty(kind)
    made.set("UID", uid)
    made.set("CREATED", _utc(now))
    whole.add(made)
    stamp(made, now)
    return whole, made


def new_event(
    uid: str, changes: Changes, *, now: datetime, organizer: str, reminder: int | None
) -> Component:
    """Create an event with these fields.

    Raises:
      InvalidInput: The fields contradict each other.
    """
    whole, event = new_object("VEVENT", uid, now)
    if changes.start is None:
        raise errors.InvalidInput("'start' is missing: an event needs one.")
    event.add(ical_time.line("DTSTART", changes.start))
    event.add(ical_time.line("DTEND", _after(changes.start)))
    _apply(whole, event, changes, organizer=organizer)
    if reminder is not None:
        alarm = Component.empty("VALARM")
        for name, value in (
            ("ACTION", "DISPLAY"),
            ("TRIGGER", f"-PT{reminder}M"),
            ("DESCRIPTION", "Reminder"),
        ):
            alarm.set(name, value)
        event.add(alarm)
    return whole


def change_all(whole: Component, series: Series, changes: Changes, *, now: datetime, organizer: str) -> None:
    """Change an event that does not recur, or a whole series.

    Raises:
      InvalidInput: The fields contradict each other or the event.
    """
    core = series.core
    if core is None:
        raise errors.InvalidInput("Only single occurrences of it are known here: send 'occurrence' too.")
    before, length = series.start, len(list(core.every("RRULE")))
    if changes.start is not None and series.recurs and changes.rule is None:
        _check_day(core, before, changes.start)
    exceptions = _Exceptions.of(series)
    _apply(whole, core, changes, organizer=organizer)
    if changes.rule == "" and length:
        core.remove("EXDATE")
        whole.remove_components(series.exceptions())
    elif changes.start is not None:
        exceptions.follow(Series(whole, "VEVENT"), whole)
    stamp(core, now)
    count_up(core)


def change_one(
    whole: Component,
    series: Series,
    occurrence: Occurrence,
    changes: Changes,
    *,
    now: datetime,
    organizer: str,
) -> None:
    """Change one occurrence of a series, in a component of its own, which is created if needed.

    Raises:
      InvalidInput: The fields contradict each other or the event.
    """
    if changes.rule is not None:
        raise errors.InvalidInput("'rrule' belongs to the whole series: send it without 'occurrence'.")
    one = single(whole, series, occurrence)
    _apply(whole, one, changes, organizer=organizer)
    stamp(one, now)
    count_up(one)


def single(whole: Component, series: Series, occurrence: Occurrence) -> Component:
    """Return the component of one occurrence alone; create it if there is none."""
    core, id_, model = series.core, occurrence.id, occurrence.component
    if id_ is None or core is None:
        return model
    own = model.first("RECURRENCE-ID")
    if own is not None and series.key(ical_time.of(own, series.zones)) == series.key(id_):
        _refuse_range(own)
        return model
    # Its values come from the series, or from a change that holds from an earlier occurrence on.
    one = model.copy()
    for name in (*_RECURRING, "RECURRENCE-ID"):
        one.remove(name)
    ical_time.put(one, "DTSTART", occurrence.start, series.zones)
    if one.first("DTEND") is not None:
        ical_time.put(one, "DTEND", occurrence.end, series.zones)
    one.add(_like_start(core, "RECURRENCE-ID", [id_]))
    _take_back(core, series, id_)
    whole.add(one)
    return one


def remove_one(whole: Component, series: Series, occurrence: Occurrence, *, now: datetime) -> None:
    """Remove one occurrence from a series, and its component if it has one."""
    core, id_ = series.core, occurrence.id
    if core is None or id_ is None:
        raise errors.InvalidInput(
            "Nothing else of this series is known here: delete it without 'occurrence'."
        )
    key = series.key(id_)
    for moment, one in series.changed().items():
        if moment == key:
            _refuse_range(one.first("RECURRENCE-ID"))
            whole.replace(one, None)
    core.add(_like_start(core, "EXDATE", [id_]))
    stamp(core, now)
    count_up(core)


def _refuse_range(id_: Line | None) -> None:
    """Refuse to change one occurrence whose component also applies to all later ones."""
    if id_ is not None and id_.parameter("RANGE"):
        raise errors.InvalidInput(
            "What was changed of this occurrence holds for all that follow too, so it was left alone: "
            "change it in Nextcloud's Calendar app, or send a later 'occurrence'."
        )


def answer(components: Iterable[Component], addresses: list[str], status: str, *, now: datetime) -> None:
    """Set the user's answer (PARTSTAT) to an invitation.

    Raises:
      InvalidInput: The user is not among the attendees.
    """
    mine = {address.lower().rstrip("/") for address in addresses}
    answered = 0

    def answer_of(line: Line) -> Line:
        nonlocal answered
        if line.value.strip().lower().rstrip("/") not in mine:
            return line
        answered += 1
        return line.with_parameter("PARTSTAT", status).with_parameter("RSVP", None)

    for one in components:
        one.change("ATTENDEE", answer_of)
        stamp(one, now)
    if not answered:
        raise errors.InvalidInput(
            "The person is not among the invited of this event, so there is nothing to answer."
        )


def checked_rule(text: str, start: Moment) -> str:
    """Check a recurrence rule and return it as it is stored; a date in UNTIL includes that whole day.

    Raises:
      InvalidInput: It is invalid, or does not fit that start.
    """
    try:
        rule = Rule(text.removeprefix("RRULE:"), start)
        next(rule.between(ical_time.on_clock(start), ical_time.on_clock(start) + 3660 * DAY), None)
    except Unreadable as wrong:
        raise errors.InvalidInput(
            f"'rrule' is not accepted: {wrong}. Send one such as FREQ=WEEKLY;BYDAY=MO,WE;UNTIL=2026-12-31."
        ) from None
    if rule.until is None or rule.counts:
        if rule.until is not None:
            raise errors.InvalidInput("'rrule' cannot hold both UNTIL and COUNT.")
        return rule.written("")
    if not isinstance(start, datetime):
        return rule.written(f"{rule.until:%Y%m%d}")
    if start.tzinfo is None:
        return rule.written(f"{rule.until:%Y%m%dT%H%M%S}")
    return rule.written(_utc(rule.until.replace(tzinfo=start.tzinfo)))


def _apply(whole: Component, one: Component, changes: Changes, *, organizer: str) -> None:
    series = Series(whole, one.name)
    if changes.start is not None or changes.end is not None:
        _move(whole, one, series, changes)
    for name, text in (
        ("SUMMARY", changes.title), ("LOCATION", changes.location), ("DESCRIPTION", changes.description),
    ):  # fmt: skip
        if text is not None:
            one.set_text(name, text)
    if changes.rule:
        one.set("RRULE", checked_rule(changes.rule, series.times(one)[0]))
    elif changes.rule is not None:
        for name in ("RRULE", "RDATE"):
            one.remove(name)
    if changes.categories is not None:
        set_categories(one, changes.categories)
    if changes.attendees is not None:
        _invite(one, changes.attendees, organizer)


def set_categories(one: Component, categories: list[str]) -> None:
    """Set the categories, each trimmed; an empty list removes the property."""
    one.remove("CATEGORIES")
    if names := [name.strip() for name in categories if name.strip()]:
        one.set("CATEGORIES", ",".join(escape(name) for name in names))


def _move(whole: Component, one: Component, series: Series, changes: Changes) -> None:
    old_start, old_end = series.times(one)
    start = old_start if changes.start is None else changes.start
    is_same_kind = isinstance(start, datetime) == isinstance(old_start, datetime)
    if changes.end is not None:
        end = changes.end
    else:
        end = _moved_end(start, old_start, old_end) if is_same_kind else _after(start)
    if not recurrence.is_alike(start, end):
        raise errors.InvalidInput("'start' and 'end' must both be dates, or both be times: send both.")
    if end < start or (end == start and not isinstance(start, datetime)):
        raise errors.InvalidInput("'end' is before 'start': send a later one.")
    if changes.start is not None:
        ical_time.put(one, "DTSTART", start, series.zones)
    if one.first("DURATION") is None or changes.end is not None or not is_same_kind:
        one.remove("DURATION")
        if changes.end is not None or one.first("DTEND") is not None:
            ical_time.put(one, "DTEND", end, series.zones)
    for moment in (start, end):
        ical_time.describe_zone(whole, moment)


def _moved_end(start: Moment, old_start: Moment, old_end: Moment) -> Moment:
    """Return the end of an event that keeps its length: elapsed time, or for days calendar time."""
    if all(isinstance(each, datetime) and each.tzinfo is not None for each in (start, old_start, old_end)):
        passes = ical_time.instant(old_end, UTC).astimezone(UTC) - ical_time.instant(
            old_start, UTC
        ).astimezone(UTC)
        if passes < DAY:
            return ical_time.later(start, passes, old_end)
    return ical_time.storable(recurrence.after(start, recurrence.length(old_start, old_end), old_end))


def _after(start: Moment) -> Moment:
    return ical_time.later(start, _HOUR, start) if isinstance(start, datetime) else start + DAY


def _check_day(core: Component, before: Moment, start: Moment) -> None:
    moved = ical_time.on_clock(start).date() != ical_time.on_clock(before).date()
    if moved and any(part in line.value.upper() for line in core.every("RRULE") for part in _DAY_PARTS):
        raise errors.InvalidInput(
            "The rule of this series names its days, so moving it to another day needs the new 'rrule' too."
        )


def _like_start(core: Component, name: str, values: Iterable[Moment]) -> Line:
    """Write times in the form of the series' start: with its type and time zone."""
    start = core.first("DTSTART")
    head = "" if start is None else start.parameters
    return Line.of(f"{name}{head}", ",".join(ical_time.written(value) for value in values), core.newline)


def _take_back(core: Component, series: Series, id_: Moment) -> None:
    """Remove an EXDATE, so that the occurrence exists again."""
    newline, key = core.newline, series.key(id_)

    def without(line: Line) -> Line | None:
        values = [value for value, _ in ical_time.every(line, series.zones)]
        kept = [value for value in values if series.key(value) != key]
        if len(kept) == len(values):
            return line
        return Line.of(line.head, ",".join(map(ical_time.written, kept)), newline) if kept else None

    core.change("EXDATE", without)


class _Exceptions:
    """The properties that identify single occurrences, to move them with the series."""

    def __init__(self, start: Moment, changed: dict[datetime, Component], removed: set[datetime]) -> None:
        self._start = start
        self._changed = changed
        self._removed = removed

    @classmethod
    def of(cls, series: Series) -> "_Exceptions":
        return cls(series.start, series.changed(), series.removed())

    def follow(self, series: Series, whole: Component) -> None:
        """Update them after the start of the series has moved; unmoved occurrences move along."""
        core, start = series.core, series.start
        if core is None or not (self._changed or self._removed):
            return
        if isinstance(start, datetime) != isinstance(self._start, datetime):
            raise errors.InvalidInput(
                "Single occurrences of this series were changed or deleted, so it cannot change between all-day and "
                "timed: create a new series and delete this one."
            )
        shift = ical_time.on_clock(start) - ical_time.on_clock(self._start)
        if self._removed:
            core.remove("EXDATE")
            core.add(
                _like_start(core, "EXDATE", [series.restored(key + shift) for key in sorted(self._removed)])
            )
        for key, one in self._changed.items():
            old_id = one.first("RECURRENCE-ID")
            new_id = _like_start(core, "RECURRENCE-ID", [series.restored(key + shift)])
            if old_id is not None:
                one.replace(old_id, new_id.with_parameter("RANGE", old_id.parameter("RANGE") or None))
            if ical_time.on_clock(ical_time.like(series.times(one)[0], self._start)) == key:
                _move(whole, one, series, Changes(start=series.restored(key + shift)))


def _invite(one: Component, attendees: list[str], organizer: str) -> None:
    """Set the attendees; those already invited keep their answers."""
    if attendees and not organizer:
        raise errors.InvalidInput(
            "Inviting needs an e-mail address of one's own: the person sets it in Nextcloud."
        )
    wanted = {f"mailto:{_address(each)}": each for each in attendees}
    one.change(
        "ATTENDEE", lambda line: None if wanted.pop(line.value.strip().lower(), None) is None else line
    )
    for address in wanted:
        one.add(
            Line.of(
                "ATTENDEE;CUTYPE=INDIVIDUAL;ROLE=REQ-PARTICIPANT;PARTSTAT=NEEDS-ACTION;RSVP=TRUE", address
            )
        )
    if attendees and one.first("ORGANIZER") is None:
        one.add(Line.of("ORGANIZER", organizer))


def _address(text: str) -> str:
    address = text.strip().removeprefix("mailto:").lower()
    name, at, host = address.partition("@")
    if not (name and at and host) or any(each in address for each in ' ,;:"<>\\\r\n\t') or "@" in host:
        raise errors.InvalidInput("'attendees' must be e-mail addresses such as ana@example.org.")
    return address


def stamp(one: Component, now: datetime) -> None:
    """Set DTSTAMP and LAST-MODIFIED."""
    for name in ("DTSTAMP", "LAST-MODIFIED"):
        one.set(name, _utc(now))


def count_up(one: Component) -> None:
    """Increase SEQUENCE: this is a newer version than the one sent to attendees."""
    text = one.text("SEQUENCE")
    one.set("SEQUENCE", str(int(text) + 1 if text.isdecimal() and len(text) < len("100000000") else 1))


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"
