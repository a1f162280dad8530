"""Reads the filled fields of a PDF form: names and values (ISO 32000-1, 12.7)."""

from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from pypdf import PageObject

#: The maximum number of values of one document, and the maximum characters of each.
MOST_FIELDS: Final = 2_000
MOST_CHARACTERS: Final = 4_000
#: A field may have a parent, which in a damaged file may be its own descendant.
_MOST_PARENTS: Final = 32

#: Flags of a widget (12.5.3): never shown, or printed only.
_HIDDEN: Final = 0x02 | 0x20
#: Flags of a field: a push button, a password.
_PUSH_BUTTON: Final = 0x10000
_PASSWORD: Final = 0x2000

_Values = dict[str, object]


class FilledFields:
    """Reads the filled fields page by page; a field on several pages is returned once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._full = False

    def on(self, page: "PageObject", *, damage: tuple[type[Exception], ...]) -> list[str]:
        """Return the filled fields of a page; `damage` lists what a broken field may raise."""
        found: list[str] = []
        try:
            for annotation in page.annotations or ():
                line = _line(_values(annotation.get_object()))
                if line is None or line in self._seen or self._full:
                    continue
                if len(self._seen) == MOST_FIELDS:
                    self._full = True
                    found.append(f"[Only the first {MOST_FIELDS:,} fields of this form are shown]")
                else:
                    self._seen.add(line)
                    found.append(line)
        except damage:
            found.append("[The other form fields on this page are damaged]")
        return found


def _line(widget: _Values) -> str | None:
    """Return the line of a filled field; None where the annotation is not one."""
    if widget.get("/Subtype") != "/Widget":
        return None
    # A field with only one widget is that widget.
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
    """Return a field and its ancestors."""
    chain = [field]
    while len(chain) < _MOST_PARENTS and (parent := _values(chain[-1].get("/Parent"))):
        chain.append(parent)
    return chain


def _inherited(chain: list[_Values], key: str) -> object:
    return next((_object(part[key]) for part in chain if key in part), None)


def _text(value: object, shown_as: dict[str, str]) -> str:
    """Return a value as text: a string, a name, a stream, or a list of choices."""
    if isinstance(value, list):
        chosen = (_plain(one) for one in cast("list[object]", value))
        text = ", ".join(shown_as.get(one, one) for one in chosen)
    else:
        plain = _plain(value)
        text = shown_as.get(plain, plain)
    return f"{text[:MOST_CHARACTERS]}…" if len(text) > MOST_CHARACTERS else text


def _shown_as(options: object) -> dict[str, str]:
    """Map the values of a choice field to labels; an option is a value, or a pair of value and label."""
    shown: dict[str, str] = {}
    for option in cast("list[object]", options) if isinstance(options, list) else ():
        pair = _object(option)
        if isinstance(pair, list):
            value, *names = (_plain(one) for one in cast("list[object]", pair)[:2])
            shown[value] = names[0] if names else value
    return shown


def _plain(value: object) -> str:
    """Return a string, a name or a text stream on one line; "" for anything else."""
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
    """Resolve a reference to another object of the file."""
    follow = getattr(value, "get_object", None)
    return follow() if callable(follow) else value
