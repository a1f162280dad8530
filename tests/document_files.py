"""Creates small documents for tests from their content."""

import io
import zipfile
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

from nextcloud_mcp_server.documents import worker
from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.output import End
from nextcloud_mcp_server.documents.process import Extract

_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006/relationships"
W: Final = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A: Final = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="p"'
S: Final = f'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="{_OFFICE}"'
ODF: Final = (
    'xmlns:office="urn:office" xmlns:text="urn:text" xmlns:table="urn:table" xmlns:draw="urn:draw" '
    'xmlns:dc="urn:dc" xmlns:presentation="urn:presentation"'
)


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    """Pack a zip file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def relations(**paths: str) -> str:
    """Return the relationships of a part: `styles="styles.xml"` gets the id rStyles."""
    each = "".join(
        f'<Relationship Id="r{name.capitalize()}" Type="{_OFFICE}/{name.rstrip("0123456789")}" Target="{target}"/>'
        for name, target in paths.items()
    )
    return f'<Relationships xmlns="{_PACKAGE}">{each}</Relationships>'


def docx(body: str, **parts: str) -> bytes:
    """Return a Word document with this body, and other parts such as `styles`."""
    return zipped(
        {
            "_rels/.rels": relations(officeDocument="word/document.xml"),
            "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": relations(**{name: f"{name}.xml" for name in parts}),
            **{f"word/{name}.xml": content for name, content in parts.items()},
        }
    )


def paragraph(text: str, about: str = "") -> str:
    """Return a paragraph of a Word document."""
    return f"<w:p><w:pPr>{about}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def xlsx(rows: str, *, strings: str = "", formats: str = "", xfs: str = "", about: str = "") -> bytes:
    """Return a workbook with one sheet."""
    book = f'<workbook {S}><workbookPr {about}/><sheets><sheet name="Costs" r:id="rWorksheet1"/></sheets></workbook>'
    other = "<cellStyleXfs><xf numFmtId='14'/></cellStyleXfs>"
    return zipped(
        {
            "xl/workbook.xml": book,
            "xl/_rels/workbook.xml.rels": relations(
                worksheet1="worksheets/one.xml", sharedStrings="sharedStrings.xml", styles="/xl/styles.xml"
            ),
            "xl/worksheets/one.xml": f"<worksheet {S}><sheetData>{rows}</sheetData></worksheet>",
            "xl/sharedStrings.xml": f"<sst {S}>{strings}</sst>",
            "xl/styles.xml": f"<styleSheet {S}>{formats}{other}<cellXfs>{xfs}</cellXfs></styleSheet>",
        }
    )


def odf(body: str, **members: str) -> bytes:
    """Return an OpenDocument file with this body."""
    content = f"<office:document-content {ODF}><office:body>{body}</office:body></office:document-content>"
    return zipped(
        {"content.xml": content, **{name.replace("__", "/"): text for name, text in members.items()}}
    )


def pdf(pages: Sequence[str], *, extra: str = "", each: str = "") -> bytes:
    """Return a PDF with one line of text per page, none for ""; `each` is added to each page object."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} {extra} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else ""
        fonts = "/Resources << /Font << /F1 3 0 R >> >>"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {5 + 2 * number} 0 R {fonts} {each} >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    written, offsets = "%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    start = len(written)
    written += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    written += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    return written.encode("latin-1")


def read(kind: Kind, data: bytes) -> tuple[str, str]:
    """Read a document like the worker, but in this process; return its text, and how it ended."""
    target, told = io.BytesIO(), io.StringIO()
    worker.work(kind, io.BytesIO(data), target, told)
    return target.getvalue().decode(), told.getvalue().splitlines()[-1].removeprefix("end ")


async def read_here(
    kind: Kind, pieces: AsyncIterable[bytes], *, report: Callable[[int, int], Awaitable[None]]
) -> Extract:
    """Read a document like the server, but without a process of its own."""
    text, end = read(kind, b"".join([piece async for piece in pieces]))
    await report(1, 1)
    return Extract(text.encode(), cast("End", end))
