"""Extracts text from e-mails (.eml): addresses, date, subject, text, and the names of attachments."""

from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from typing import BinaryIO, Final, cast

from nextcloud_mcp_server.documents import charset, html_text
from nextcloud_mcp_server.documents.output import Output, Refused

_HEADERS: Final = ("From", "To", "Cc", "Date", "Subject")
#: The maximum depth of nested e-mails: deeper ones are named and not read.
MAX_DEPTH: Final = 5


def read(file: BinaryIO, out: Output) -> None:
    """Write the visible headers, the text, and the names of the attachments.

    Raises:
      Refused: It is not an e-mail.
    """
    message = BytesParser(EmailMessage, policy=policy.default).parse(file)
    if not any(message.get(name) for name in _HEADERS):
        raise Refused("broken")
    _write(message, out, depth=0)


def _write(message: EmailMessage, out: Output, *, depth: int) -> None:
    for name in _HEADERS:
        if values := _header(message, name):
            out.body(f"{name}: {', '.join(values)}")
    out.write("")
    body = message.get_body(("plain", "html"))
    if body is not None:
        text = _text(body)
        if body.get_content_subtype() == "html":
            html_text.write(text, out)
        else:
            out.body(text)
    for part in message.iter_attachments():
        _attached(part, out, depth=depth)


def _attached(part: MIMEPart, out: Output, *, depth: int) -> None:
    kind, inside = part.get_content_type(), part.get_payload()
    if kind == "message/rfc822" and isinstance(inside, list) and depth < MAX_DEPTH:
        out.write("\n[Attached e-mail]")
        _write(cast("EmailMessage", inside[0]), out, depth=depth + 1)
        return
    name = " ".join((part.get_filename() or "without a name").split())
    size = len(cast("bytes", part.get_payload(decode=True) or b""))
    out.body(f"[Attached: {name}, {kind}, {size} bytes]")


def _text(part: MIMEPart) -> str:
    data = cast("bytes", part.get_payload(decode=True) or b"")
    return charset.decode(data, declared=part.get_content_charset())


def _header(message: EmailMessage, name: str) -> list[str]:
    """Return the values of a header; some programs put non-ASCII bytes there, in any encoding."""
    values: list[str] = []
    for raw_name, value in message.raw_items():
        if raw_name.lower() == name.lower():
            text = str(value)
            if not text.isascii():
                text = charset.decode(text.encode("utf-8", "surrogateescape"))
            values.append(" ".join(str(policy.default.header_factory(name, _unfolded(text))).split()))
    return values


def _unfolded(text: str) -> str:
    return " ".join(text.splitlines())
