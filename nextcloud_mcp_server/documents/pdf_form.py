"""What was filled into the form of a PDF: names and values of its fields (ISO 32000-1, 12.7)."""

from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from pypdf import PageObject

#: Values that are told of one document, and the characters of each.
MOST_FIELDS: Final = 2_000
MOST_CHARACTERS: Final = 4_000
#: A field may belong to another one, which may be its own descendant in a damaged file.
_MOST_PARENTS: Final = 32

#: Flags of a widget (12.5.3): not shown at all, or in print alone.
_HIDDEN: Final = 0x02 | 0x20
#: Flags of a field: a button that is only pressed, a password.
_PUSH_BUTTON: Final = 0x10000
_PASSWORD: Final = 0x2000

_Values = dict[str, object]


class FilledFields:
    """Reads the filled fields page by page; one that stands on several pages is told once."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._full = False

    def on(self, page: "PageObject", *, damage: tuple[type[Exception], ...]) -> list[str]:
        """Say what was filled in on a page; `damage` is what a broken field may raise."""
        found: list[str] = []
        try:
            for annotation in page.annotations or ():
                line = _line(_values(annotation.get_object()))
                if line is None or line in self._told or self._full:
                    continue
                if len(self._told) == MOST_FIELDS:
                    self._full = True
                    found.append(f"[Only the first {MOST_FIELDS:,} fields of this form are shown]")
                else:
                    self._told.add(line)
                    found.append(line)
        except damage:
            found.append("[The other form fields on this page are damaged]")
        return found


def _line(widget: _Values) -> str | None:
    """Write a filled field; None where the annotation is none."""
    if widget.get("/Subtype") != "/Widget":
        return None
    # The widget of a field that has only one is the field itself.
    chain = _chain(widget)
    kind, value = _inherited(chain, "/FT"), _inherited(chain, "/V")
    flags = _number(_inherited(chain, "/Ff"))
    if kind == "/Sig":
        text = "" if value is None else "(signed)"
    elif (kind == "/Btn" and flags & _PUSH_BUTTON) or (kind == "/Tx" and flags & _PASSWORD):
        text = ""
    else:
        text = _text(value, _shown_as(_inherited(chain, "/Opt")) if kind == "/Ch" else {})
    if not text or (kind == "/Btn" and text == "Off"):
        return None
    names = [_plain(part.get("/T")) for part in reversed(chain)]
    name = _plain(_inherited(chain, "/TU")) or ".".join(name for name in names if name)
    hidden = ", hidden" if _number(widget.get("/F")) & _HIDDEN else ""
    return f"[Form field{hidden}] {name or 'without a name'}: {text}"


def _chain(field: _Values) -> list[_Values]:
    """List a field and those it belongs to."""
    chain = [field]
    while len(chain) < _MOST_PARENTS and (parent := _values(chain[-1].get("/Parent"))):
        chain.append(parent)
    return chain


def _inherited(chain: list[_Values], key: str) -> object:
    return next((_object(part[key]) for part in chain if key in part), None)


def _text(value: object, shown_as: dict[str, str]) -> str:
    """Write a value: a text, a name, a stream, or a list of what was chosen."""
    if isinstance(value, list):
        chosen = (_plain(one) for one in cast("list[object]", value))
        text = ", ".join(shown_as.get(one, one) for one in chosen)
    else:
        plain = _plain(value)
        text = shown_as.get(plain, plain)
    return f"{text[:MOST_CHARACTERS]}…" if len(text) > MOST_CHARACTERS else text


def _shown_as(options: object) -> dict[str, str]:
    """Read how the values of a list are shown: each option is a value, or a pair of a value and what is shown."""
    shown: dict[str, str] = {}
    for option in cast("list[object]", options) if isinstance(options, list) else ():
        pair = _object(option)
        if isinstance(pair, list):
            value, *names = (_plain(one) for one in cast("list[object]", pair)[:2])
            shown[value] = names[0] if names else value
    return shown


def _plain(value: object) -> str:
    """Write a text, a name or a stream of text on one line; what is neither has none."""
    from pypdf.generic import NameObject, StreamObject  # noqa: PLC0415 - only where a PDF is read

    found = _object(value)
    if isinstance(found, StreamObject):
        found = found.get_data()
    if isinstance(found, bytes):
        found = found.decode("utf-16" if found.startswith(b"\xfe\xff") else "utf-8", "replace")
    if not isinstance(found, str):
        return ""
    return " ".join((found.removeprefix("/") if isinstance(found, NameObject) else found).split())


def _number(value: object) -> int:
    return int(value) if isinstance(value, int) else 0


def _values(value: object) -> _Values:
    found = _object(value)
    return cast("_Values", found) if isinstance(found, dict) else {}


def _object(value: object) -> object:
    """Follow a reference to another object of the file."""
    follow = getattr(value, "get_object", None)
    return follow() if callable(follow) else value
