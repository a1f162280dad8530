"""Reads the title, heading, text, links and forms of an HTML page."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Self

_NOT_SHOWN = frozenset({"script", "style", "title", "template"})
_CHOICES = frozenset({"checkbox", "radio"})
_NOT_SENT = frozenset({"submit", "button", "image", "reset"})


@dataclass(slots=True)
class Field:
    """A field of a form. `label` is the first text of its label, `group` the name of the radio group it is in."""

    name: str
    kind: str
    value: str
    ticked: bool
    label: str = ""
    group: str = ""

    @property
    def is_choice(self) -> bool:
        """Return whether the field is a check box or a radio button."""
        return self.kind in _CHOICES


@dataclass(slots=True)
class Form:
    """A form, with the fields a browser sends."""

    action: str
    fields: list[Field] = field(default_factory=list[Field])
    # Name and value of each button that sends something of its own.
    buttons: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


@dataclass(slots=True)
class Document:
    """The contents of a page, in order."""

    title: str = ""
    heading: str = ""
    text: str = ""
    links: list[str] = field(default_factory=list[str])
    forms: list[Form] = field(default_factory=list[Form])

    @classmethod
    def read(cls, html: str) -> Self:
        """Read a page, also one that is not well-formed."""
        made = cls()
        reader = _Reader(made)
        reader.feed(html)
        reader.close()
        made.title, made.heading = _plain(made.title), _plain(made.heading)
        made.text = _plain(made.text)
        return made

    @property
    def choices(self) -> list[Field]:
        """Return the check boxes and radio buttons."""
        return [one for form in self.forms for one in form.fields if one.is_choice]


class _Reader(HTMLParser):
    def __init__(self, document: Document) -> None:
        super().__init__(convert_charrefs=True)
        self._document = document
        self._open: dict[str, int] = {}
        self._form: Form | None = None
        self._labelled: Field | None = None
        # The id of the element that names the open radio group, whether that is open, and its text.
        self._group_id, self._in_group_name, self._group = "", False, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._open[tag] = self._open.get(tag, 0) + 1
        if given.get("role") == "radiogroup":
            self._group_id = given.get("aria-labelledby", "")
        self._in_group_name = bool(self._group_id) and given.get("id") == self._group_id
        if tag == "a" and "href" in given:
            self._document.links.append(given["href"])
        elif tag == "form":
            self._form = Form(given.get("action", ""))
            self._document.forms.append(self._form)
        elif tag == "button" and given.get("name") and self._form is not None:
            self._form.buttons.append((given["name"], given.get("value", "")))
        elif tag == "input" and given.get("name") and self._form is not None:
            self._take(given, self._form)

    def handle_endtag(self, tag: str) -> None:
        self._open[tag] = max(0, self._open.get(tag, 0) - 1)
        if tag == "form":
            self._form = None
        elif tag == "label":
            self._labelled = None

    def handle_data(self, data: str) -> None:
        if self._open.get("title"):
            self._document.title += data
        if any(self._open.get(tag) for tag in _NOT_SHOWN):
            return
        if self._open.get("h1"):
            self._document.heading += data
        if self._in_group_name:
            self._group, self._in_group_name = _plain(data), False
        if self._labelled is not None and not self._labelled.label:
            self._labelled.label = _plain(data)
        self._document.text += f"{data} "

    def _take(self, given: dict[str, str], form: Form) -> None:
        kind = given.get("type", "text").lower()
        if kind in _NOT_SENT or "disabled" in given:
            return
        # One without a value sends "on" (HTML, 4.10.5.1.15).
        value = given.get("value", "on" if kind in _CHOICES else "")
        group = self._group if kind == "radio" else ""
        taken = Field(given["name"], kind, value, ticked="checked" in given, group=group)
        form.fields.append(taken)
        self._labelled = taken if self._open.get("label") else None


def _plain(text: str) -> str:
    return " ".join(text.split())
