"""Extracts text from PDF, page by page, with a mark before each page."""

from typing import TYPE_CHECKING, BinaryIO, Final, cast

from nextcloud_mcp_server.documents.output import Output, Refused
from nextcloud_mcp_server.documents.pdf_form import FilledFields

if TYPE_CHECKING:
    from pypdf import PageObject

#: What the library raises for a damaged page, besides its own errors; the other pages can still be read.
_DAMAGE: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, RecursionError,
    TypeError, ValueError,
)  # fmt: skip


#: Annotations without text of their own: pop-up windows of others, links, and form fields, which are read
#: separately.
_SILENT: Final = frozenset({"/Popup", "/Link", "/Widget"})


def read(file: BinaryIO, out: Output) -> None:
    """Write the text of each page.

    Raises:
      Refused: It needs a password, contains no text, or is damaged.
    """
    from pypdf import PasswordType, PdfReader  # noqa: PLC0415 - only where a PDF is read
    from pypdf.errors import PyPdfError  # noqa: PLC0415 - as above

    try:
        reader = PdfReader(file, strict=False)
        # Many are protected only against changes, and open with an empty password.
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise Refused("password")
        total = len(reader.pages)
    except (PyPdfError, *_DAMAGE):
        raise Refused("broken") from None
    fields = FilledFields()
    for number in range(1, total + 1):
        try:
            text = reader.pages[number - 1].extract_text()
        except (PyPdfError, *_DAMAGE):
            out.write(f"[Page {number} of {total}: damaged]\n")
            continue
        out.write(f"[Page {number} of {total}]" if text.strip() else f"[Page {number} of {total}: no text]")
        out.body(f"{text}\n")
        for line in _comments(reader.pages[number - 1]):
            out.body(line)
        for line in fields.on(reader.pages[number - 1], damage=_DAMAGE):
            out.body(line)
        out.progress(number, total)
    if not out.anything:
        raise Refused("empty")


def _comments(page: "PageObject") -> list[str]:
    """Return the annotations of a page: notes, and comments on marked text."""
    found: list[str] = []
    try:
        for annotation in page.annotations or ():
            about = annotation.get_object()
            values = cast("dict[str, object]", about if isinstance(about, dict) else {})
            if values.get("/Subtype") in _SILENT:
                continue
            text = " ".join(str(values.get("/Contents") or "").split())
            if text:
                author = " ".join(str(values.get("/T") or "").split())
                found.append(f"[Comment by {author}] {text}" if author else f"[Comment] {text}")
    except _DAMAGE:
        found.append("[The other comments on this page are damaged]")
    return found
