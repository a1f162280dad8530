"""Determines which files are documents, by name, media type or first bytes, and names their kinds."""

from typing import Final, Literal

Kind = Literal["pdf", "word", "sheet", "slides", "opendocument", "epub", "html", "rtf", "mail"]

NAMES: Final[dict[Kind, str]] = {
    "pdf": "PDF",
    "word": "Word document",
    "sheet": "Excel workbook",
    "slides": "PowerPoint presentation",
    "opendocument": "OpenDocument file",
    "epub": "e-book (EPUB)",
    "html": "HTML page",
    "rtf": "RTF document",
    "mail": "e-mail",
}
#: Kinds that are text themselves, so that they can be read as stored, and edited.
TEXTS: Final = frozenset[Kind]({"html", "rtf", "mail"})

_ENDINGS: Final[dict[str, Kind]] = {
    "pdf": "pdf",
    **dict.fromkeys(("docx", "docm", "dotx"), "word"),
    **dict.fromkeys(("xlsx", "xlsm", "xltx"), "sheet"),
    **dict.fromkeys(("pptx", "pptm", "ppsx"), "slides"),
    **dict.fromkeys(("odt", "ott", "ods", "ots", "odp", "otp"), "opendocument"),
    "epub": "epub",
    **dict.fromkeys(("html", "htm", "xhtml"), "html"),
    "rtf": "rtf",
    "eml": "mail",
}
_TYPES: Final[tuple[tuple[str, Kind], ...]] = (
    ("application/pdf", "pdf"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml", "word"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml", "sheet"),
    ("application/vnd.openxmlformats-officedocument.presentationml", "slides"),
    ("application/vnd.oasis.opendocument.", "opendocument"),
    ("application/epub+zip", "epub"),
    ("application/rtf", "rtf"),
    ("message/rfc822", "mail"),
)
_OLD: Final = {
    "doc": "Word document of the old format",
    "xls": "Excel workbook of the old format",
    "ppt": "PowerPoint presentation of the old format",
}
_OLD_TYPES: Final = {
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
}


def by_name(path: str) -> Kind | None:
    """Return the kind of a document by its extension; None for other files."""
    return _ENDINGS.get(_ending(path))


def by_content(content_type: str, start: bytes) -> Kind | None:
    """Return the kind of a document without a known extension, by its media type or first bytes."""
    if start.startswith(b"%PDF-"):
        return "pdf"
    if start.startswith(b"{\\rtf"):
        return "rtf"
    return next((kind for start_, kind in _TYPES if content_type.startswith(start_)), None)


def outdated(path: str, content_type: str) -> str | None:
    """Return the name of a format of before 2007, whose text cannot be extracted; None for others."""
    return _OLD.get(_OLD_TYPES.get(content_type, _ending(path)))


def _ending(path: str) -> str:
    stem, _, ending = path.rpartition("/")[2].rpartition(".")
    return ending.lower() if stem else ""
