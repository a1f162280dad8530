"""Makes a small PDF, so that the demo has one to read."""

from collections.abc import Sequence


def pdf(lines: Sequence[str]) -> bytes:
    """Write lines of Latin text on one page."""
    moves = " T* ".join(f"({line}) Tj" for line in lines)
    stream = f"BT /F1 12 Tf 16 TL 72 770 Td {moves} ET"
    fonts = "/Resources << /Font << /F1 4 0 R >> >>"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R {fonts} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
    )
    written, offsets = "%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    tail = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF\n"
    return f"{written}xref\n0 {size}\n0000000000 65535 f \n{table}{tail}".encode("cp1252")
