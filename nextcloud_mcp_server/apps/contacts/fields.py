"""The fields of a vCard, and how single fields are changed.

Values with a label are written `work: +49 30 1234`, for reading and for writing.
"""

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from nextcloud_mcp_server.formats.content_line import escape, split
from nextcloud_mcp_server.formats.vcard import Line, VCard

_LABELLED = re.compile(r"([^:@/]{1,40}): +(.*)", re.DOTALL)
_TOKENS = re.compile(r"[A-Za-z0-9-]+(?:,[A-Za-z0-9-]+)*")
#: Types that every card has or that carry no information.
_SILENT: Final = frozenset({"internet", "pref", "voice", "text"})
_APPLE: Final = "_$!<", ">!$_"
_DIGITS = re.compile(r"[\s()/.-]")
_DATE = re.compile(r"(\d{4}|--)-?(\d\d)-?(\d\d)")
_NO_YEAR: Final = "1604"
_FAMILY, _GIVEN, _NAME_PARTS = 0, 1, 5
_STREET, _ADDRESS_PARTS = 2, 7


@dataclass(frozen=True, slots=True)
class Contact:
    """The fields of one card; a missing field is empty."""

    uid: str
    kind: str
    name: str
    given_name: str
    family_name: str
    nickname: str
    org: str
    title: str
    emails: list[str]
    phones: list[str]
    addresses: list[str]
    urls: list[str]
    birthday: str
    note: str
    categories: list[str]

    @classmethod
    def of(cls, card: VCard) -> "Contact":
        """Read the fields of a card."""
        names = _names(card)
        emails = _entries(card, "EMAIL")
        org = _org(card)
        name = _text(card, "FN") or _composed(names)[0] or org
        return cls(
            uid=_text(card, "UID"),
            kind=(_text(card, "KIND") or _text(card, "X-ADDRESSBOOKSERVER-KIND")).lower(),
            name=name or (_LABELLED.sub(r"\2", emails[0]) if emails else ""),
            given_name=names[_GIVEN],
            family_name=names[_FAMILY],
            nickname=_text(card, "NICKNAME"),
            org=org,
            title=_text(card, "TITLE"),
            emails=emails,
            phones=_entries(card, "TEL"),
            addresses=_entries(card, "ADR"),
            urls=_entries(card, "URL"),
            birthday=_birthday(card),
            note=_text(card, "NOTE"),
            categories=_categories(card),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The fields to set; None keeps a field, an empty value removes it."""

    name: str | None = None
    given_name: str | None = None
    family_name: str | None = None
    org: str | None = None
    title: str | None = None
    emails: Sequence[str] | None = None
    phones: Sequence[str] | None = None
    addresses: Sequence[str] | None = None
    urls: Sequence[str] | None = None
    birthday: str | None = None
    note: str | None = None
    categories: Sequence[str] | None = None


def apply(card: VCard, changes: Changes) -> None:
    """Set the given fields; every other line of the card is kept."""
    _rename(card, changes)
    for name, text in (("TITLE", changes.title), ("NOTE", changes.note)):
        if text is not None and text.strip() != _text(card, name):
            _set(card, name, escape(text))
    if changes.org is not None and changes.org != _org(card):
        units = [part.strip() for part in split(changes.org, ";")]
        _set(card, "ORG", ";".join(escape(unit.replace("\\;", ";")) for unit in units))
    for name, entries in (
        ("EMAIL", changes.emails), ("TEL", changes.phones), ("ADR", changes.addresses), ("URL", changes.urls)
    ):  # fmt: skip
        if entries is not None:
            _set_entries(card, name, entries)
    if changes.birthday is not None and changes.birthday != _birthday(card):
        _set_birthday(card, changes.birthday)
    if changes.categories is not None and list(changes.categories) != _categories(card):
        _set_categories(card, changes.categories)


def revise(card: VCard, now: str) -> None:
    """Set REV to `now`, such as `20261127T211308Z`, if the card has one."""
    for line in list(card.every("REV"))[:1]:
        extended = f"{now[:4]}-{now[4:6]}-{now[6:11]}:{now[11:13]}:{now[13:]}"
        card.replace(line, extended if "-" in line.value else now)


def _text(card: VCard, name: str) -> str:
    return next((line.plain.strip() for line in card.every(name)), "")


def _set(card: VCard, name: str, value: str) -> None:
    """Write a property that occurs once; further lines are translations of it (`ALTID`)."""
    line = next(card.every(name), None)
    if not value:
        for each in list(card.every(name)):
            card.remove(each)
    elif line is None:
        card.add(f"{name}:", value)
    else:
        card.replace(line, value)


# Names


def _names(card: VCard) -> list[str]:
    line = next(card.every("N"), None)
    parts = [] if line is None else line.components
    return [*parts, *[""] * _NAME_PARTS][: max(_NAME_PARTS, len(parts))]


def _composed(names: Sequence[str]) -> list[str]:
    """List the display names that the name parts may form, the shortest first."""
    family, given, more, before, after = names[:_NAME_PARTS]
    forms = (
        (given, family), (given, more, family), (before, given, family), (before, given, more, family),
        (given, family, after), (before, given, more, family, after),
    )  # fmt: skip
    return [" ".join(part for part in form if part) for form in forms]


def _rename(card: VCard, changes: Changes) -> None:
    """Set the names; keep display name and parts consistent where they were consistent before."""
    names = _names(card)
    shown = _text(card, "FN")
    follows = not any(names) or shown in _composed(names) or not shown
    new, name = list(names), changes.name
    if changes.given_name is not None:
        new[_GIVEN] = changes.given_name
    if changes.family_name is not None:
        new[_FAMILY] = changes.family_name
    if name is None and new != names and follows:
        name = _composed(new)[_composed(names).index(shown) if any(names) and shown else 0]
    elif name is not None and name != shown and new == names and follows:
        given, _, family = name.rpartition(" ")
        new = [family, given, "", "", ""] if given else ["", family, "", "", ""]
    if name and name != shown:
        _set(card, "FN", escape(name))
    if new != names:
        _set(card, "N", ";".join(escape(part) for part in new))


# Birthdays


def _birthday(card: VCard) -> str:
    line = next(card.every("BDAY"), None)
    if line is None:
        return ""
    text = line.plain
    found = _DATE.match(text)
    if found is None:
        return text
    year = "--" if _NO_YEAR in line.parameter("X-APPLE-OMIT-YEAR") and found[1] == _NO_YEAR else found[1]
    return f"{year}{'' if year == '--' else '-'}{found[2]}-{found[3]}"


def _set_birthday(card: VCard, date: str) -> None:
    """Write `1990-05-17` or `--05-17`.

    vCard 3 has no date without a year, so that is written in Apple's way.
    """
    for line in list(card.every("BDAY")):
        card.remove(line)
    if not date:
        return
    if card.version == "4.0":
        card.add("BDAY:", date.replace("-", "") if date[0] != "-" else f"--{date[2:].replace('-', '')}")
    elif date[0] == "-":
        card.add(f"BDAY;VALUE=date;X-APPLE-OMIT-YEAR={_NO_YEAR}:", f"{_NO_YEAR}-{date[2:]}")
    else:
        card.add("BDAY;VALUE=date:", date)


# Organisation and categories


def _org(card: VCard) -> str:
    line = next(card.every("ORG"), None)
    return "" if line is None else "; ".join(part.replace(";", "\\;") for part in line.components if part)


def _categories(card: VCard) -> list[str]:
    lines = card.every("CATEGORIES")
    return [text for line in lines for part in line.listed if (text := part.strip())]


def _set_categories(card: VCard, categories: Sequence[str]) -> None:
    for line in list(card.every("CATEGORIES"))[1:]:
        card.remove(line)
    _set(card, "CATEGORIES", ",".join(map(escape, categories)))


# Properties with several values


def _entries(card: VCard, name: str) -> list[str]:
    found = [(_label(card, line), _value(line)) for line in card.every(name)]
    return [f"{label}: {value}" if label else value for label, value in found if value]


def _label(card: VCard, line: Line) -> str:
    own = card.label(line)
    if own is not None:
        label = own.plain.removeprefix(_APPLE[0]).removesuffix(_APPLE[1])
        return label if label == own.plain else label.lower()
    return ",".join(dict.fromkeys(one for one in line.types if one not in _SILENT))


def _value(line: Line) -> str:
    """Return a value for display: a phone number without `tel:`, an address from the street on."""
    if line.name == "ADR":
        parts = [part.strip() for part in line.components]
        parts = [*parts, *[""] * _ADDRESS_PARTS][:_ADDRESS_PARTS]
        street = ", ".join(part for part in (parts[0], parts[1], parts[_STREET]) if part)
        shown = [part.replace("\n", ", ").replace(";", "\\;") for part in (street, *parts[_STREET + 1 :])]
        return "; ".join(shown) if any(shown) else ""
    text = line.plain.strip()
    if line.name == "TEL":
        return text[4:] if text[:4].lower() == "tel:" else text
    return text


def _same(name: str) -> Callable[[str], str]:
    """Return the function that normalises values of this property for comparison."""
    if name == "TEL":
        return lambda value: _DIGITS.sub("", value).removeprefix("tel:")
    if name == "ADR":
        return lambda value: ";".join(part.strip() for part in split(value, ";")).rstrip(";").casefold()
    return str.casefold


#: A value in the form for comparison, and a label without case; None stands for any.
_Key = tuple[str | None, str | None]


class _Left:
    """The lines of a property that no entry has taken yet, in their order; a card may have thousands."""

    def __init__(self, card: VCard, name: str, form: Callable[[str], str]) -> None:
        self._lines = {id(line): line for line in card.every(name) if _value(line)}
        self._by: dict[_Key, deque[Line]] = defaultdict(deque)
        for line in self:
            wanted, label = form(_value(line)), _label(card, line).casefold()
            for key in ((wanted, None), (None, label), (wanted, label)):
                self._by[key].append(line)

    def __iter__(self) -> Iterator[Line]:
        return iter(list(self._lines.values()))

    def take(self, *keys: _Key) -> Line | None:
        """Take the first line that is left under the first of these keys that has one."""
        for key in keys:
            lines = self._by.get(key, deque())
            while lines:
                line = lines.popleft()
                if self._lines.pop(id(line), None) is not None:
                    return line
        return None


def _set_entries(card: VCard, name: str, entries: Sequence[str]) -> None:
    """Set the values of a property; lines whose value stays are kept unchanged."""
    new: list[tuple[str | None, str]] = []
    form = _same(name)
    left = _Left(card, name, form)
    for label, value in map(_taken_apart, entries):
        wanted = form(value)
        line = left.take((wanted, None if label is None else label.casefold()), (wanted, None))
        if line is None:
            new.append((label, value))
            continue
        if name != "TEL" and not _is_written(line, value):
            line = card.replace(line, _raw(line, value))
        if label is not None and not _labelled(card, line, label):
            _relabel(card, line, label)
    for label, value in new:
        line = left.take((None, (label or "").casefold()))
        if line is None:
            _add_entry(card, name, label or "", value)
        else:
            card.replace(line, _raw(line, value))
    for line in left:
        card.remove(line)


def _is_written(line: Line, value: str) -> bool:
    """Tell whether a value equals that of a line, except for white space and empty parts at the end."""
    mine, other = (";".join(map(str.strip, split(each, ";"))).rstrip(";") for each in (_value(line), value))
    return mine == other


def _labelled(card: VCard, line: Line, label: str | None) -> bool:
    return label is not None and _label(card, line).casefold() == label.casefold()


def _taken_apart(entry: str) -> tuple[str | None, str]:
    found = _LABELLED.fullmatch(entry.strip())
    return (None, entry.strip()) if found is None else (found[1].strip(), found[2].strip())


def _raw(line: Line, value: str) -> str:
    """Write a value in the form that the line uses."""
    if line.name == "ADR":
        parts = [part.strip() for part in split(value, ";")]
        return ";".join(["", "", *(escape(part.replace("\\;", ";")) for part in parts)])
    if line.name == "URL":
        return value
    uri = line.name == "TEL" and line.plain[:4].lower() == "tel:"
    return f"tel:{_DIGITS.sub('', value)}" if uri else escape(value)


def _add_entry(card: VCard, name: str, label: str, value: str) -> None:
    value = _raw(Line("", name=name), value)
    if label and not _TOKENS.fullmatch(label):
        card.add_labelled(f"{name}:", value, label)
        return
    card.add(f"{name}{_types(label)}:", value)


def _types(label: str) -> str:
    return "".join(f";TYPE={'cell' if one == 'mobile' else one}" for one in label.lower().split(",") if one)


def _relabel(card: VCard, line: Line, label: str) -> None:
    """Change the label of a value and keep its other parameters."""
    own = card.label(line)
    if own is not None:
        card.replace(own, escape(label))
        return
    if not _TOKENS.fullmatch(label):
        card.remove(line)
        card.add_labelled(f"{line.name}:", line.plain_value, label)
        return
    kept = "".join(
        f";{key}={','.join(_quoted(one) for one in values)}"
        for key, values in line.parameters
        if key != "TYPE"
    )
    group = f"{line.group}." if line.group else ""
    card.replace(line, line.value, head=f"{group}{line.name}{_types(label)}{kept}:")


def _quoted(value: str) -> str:
    return f'"{value}"' if re.search(r"[:;,]", value) else value
