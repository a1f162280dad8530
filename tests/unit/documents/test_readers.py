"""Each kind of document, read as the worker reads it."""

import pytest

from nextcloud_mcp_server.documents import kinds
from nextcloud_mcp_server.documents.output import MAX_TEXT_BYTES
from tests.document_files import A, S, W, docx, odf, paragraph, pdf, read, relations, xlsx, zipped


def test_a_pdf_is_read_page_by_page() -> None:
    text, end = read("pdf", pdf(["Dear Alice", "", "Yours, Bob"]))

    assert end == "ok"
    assert text == ("[Page 1 of 3]\nDear Alice\n\n[Page 2 of 3: no text]\n[Page 3 of 3]\nYours, Bob\n\n")


def test_a_pdf_of_pictures_alone_has_no_text() -> None:
    _, end = read("pdf", pdf(["", ""]))

    assert end == "empty"


def test_a_page_that_is_damaged_does_not_hide_the_others() -> None:
    damaged = pdf(["first", "second"]).replace(b"<< /Length 36 >>", b"<< /Filter /X /Length 36 >>", 1)

    text, end = read("pdf", damaged)

    assert end == "ok"
    assert "[Page 1 of 2: damaged]" in text
    assert "second" in text


def test_a_word_document_keeps_headings_lists_tables_and_notes() -> None:
    styles = (
        f'<w:styles {W}><w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style></w:styles>'
    )
    notes = (
        f'<w:footnotes {W}><w:footnote w:type="separator" w:id="0">{paragraph("---")}</w:footnote>'
        f'<w:footnote w:id="1">{paragraph("See page 3.")}</w:footnote></w:footnotes>'
    )
    comments = f'<w:comments {W}><w:comment w:author="Bob">{paragraph("Really?")}</w:comment></w:comments>'
    cells = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("rent", "12&#10;000", ""))
    body = (
        paragraph("Budget", '<w:pStyle w:val="berschrift2"/>')
        + paragraph("first point", "<w:numPr/><w:tabs><w:tab/></w:tabs>")
        + '<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t><w:footnoteReference w:id="1"/></w:r>'
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
        f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"
        f"<mc:AlternateContent xmlns:mc='mc'><mc:Choice>{paragraph('in a frame')}</mc:Choice>"
        f"<mc:Fallback>{paragraph('in a frame')}</mc:Fallback></mc:AlternateContent>"
        "<w:sectPr><w:t>outside</w:t></w:sectPr>"
    )

    text, end = read("word", docx(body, styles=styles, footnotes=notes, comments=comments))

    assert end == "ok"
    assert text == (
        "## Budget\n- first point\na\tb\nc[1]\nrent\t12 000\nin a frame\n\n"
        "[Footnotes]\n[1] See page 3.\n\n[Comments]\n[Bob] Really?\n"
    )


def test_a_table_in_a_table_stays_in_its_cell() -> None:
    inner = f"<w:tbl><w:tr><w:tc>{paragraph('x')}</w:tc><w:tc>{paragraph('y')}</w:tc></w:tr></w:tbl>"

    text, _ = read("word", docx(f"<w:tbl><w:tr><w:tc>{paragraph('a')}{inner}</w:tc></w:tr></w:tbl>"))

    assert text == "a x y\n"


def test_slides_come_in_their_order_with_the_notes() -> None:
    def slide(text: str) -> str:
        return f"<p:sld {A}><a:p><a:r><a:t>{text}</a:t></a:r><a:br/><a:r><a:t>more</a:t></a:r></a:p></p:sld>"

    table = f"<p:sld {A}><a:tr><a:tc><a:p><a:t>1</a:t></a:p></a:tc><a:tc><a:p><a:t>2</a:t></a:p></a:tc></a:tr></p:sld>"
    notes = f'<p:notes {A}><a:p><a:fld type="slidenum"><a:t>7</a:t></a:fld><a:t>Smile.</a:t></a:p></p:notes>'
    order = '<p:sldIdLst><p:sldId id="256" r:id="rSlide2"/><p:sldId id="257" r:id="rSlide1"/></p:sldIdLst>'
    document = zipped(
        {
            "ppt/presentation.xml": f'<p:presentation {A} xmlns:r="http://x/relationships">{order}</p:presentation>',
            "ppt/_rels/presentation.xml.rels": relations(slide1="slides/a.xml", slide2="slides/b.xml"),
            "ppt/slides/a.xml": table,
            "ppt/slides/b.xml": slide("Hello"),
            "ppt/slides/_rels/b.xml.rels": relations(notesSlide="../notes/b.xml"),
            "ppt/notes/b.xml": notes,
        }
    )

    text, end = read("slides", document)

    assert end == "ok"
    assert text == "[Slide 1 of 2]\nHello\nmore\nNotes: Smile.\n\n[Slide 2 of 2]\n1\t2\n\n"


def test_a_workbook_shows_what_people_see_in_it() -> None:
    strings = "<si><t>item</t></si><si><r><t>eu</t></r><r><t>ro</t></r><rPh><t>yomi</t></rPh></si>"
    formats = '<numFmts><numFmt numFmtId="164" formatCode="&quot;day&quot; 0"/>'
    formats += '<numFmt numFmtId="165" formatCode="[$-407]d. mmm yyyy"/></numFmts>'
    xfs = "".join(f'<xf numFmtId="{number}"/>' for number in ("0", "14", "164", "165", "x"))
    rows = (
        '<row><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c><c t="s"><v>99</v></c></row>'
        '<row><c t="n"><v>0.30000000000000004</v></c><c><v>12000</v></c><c t="b"><v>1</v></c>'
        '<c t="b"><v>x</v></c></row><row><c s="1"><v>46000</v></c><c s="1"><v>46000.5</v></c>'
        '<c s="3"><v>0.25</v></c><c s="2"><v>46000</v></c></row>'
        '<row><c s="1"><v>never</v></c><c s="1"><v>9e9</v></c><c><v>n.a.</v></c><c t="e"><v>#REF!</v></c></row>'
        '<row><c t="inlineStr"><is><t>in\nline</t></is></c><c t="str"><f>A1</f><v>result</v></c><c r="XFD9"/></row>'
    )

    text, end = read("sheet", xlsx(rows, strings=strings, formats=formats, xfs=xfs))

    assert end == "ok"
    assert text == (
        "[Sheet 1 of 1: Costs]\n"
        "item\t\teuro\n"
        "0.3\t12000\tTRUE\tx\n"
        "2025-12-09\t2025-12-09 12:00:00\t06:00:00\t46000\n"
        "never\t9e9\tn.a.\t#REF!\n"
        "in line\tresult\n\n"
    )


def test_a_workbook_may_count_days_from_1904() -> None:
    rows = '<row><c s="0"><v>44538</v></c></row>'

    text, _ = read("sheet", xlsx(rows, xfs='<xf numFmtId="14"/>', about='date1904="1"'))

    assert "2025-12-09" in text


@pytest.mark.parametrize(
    ("days", "shown"),
    [
        ("1", "1900-01-01"),
        ("1.5", "1900-01-01 12:00:00"),
        ("59", "1900-02-28"),
        ("60", "1900-02-29"),
        ("60.25", "1900-02-29 06:00:00"),
        ("61", "1900-03-01"),
        ("0.25", "06:00:00"),
    ],
)
def test_a_workbook_shows_days_of_1900_as_excel_does(days: str, shown: str) -> None:
    """Excel counts 29 February 1900 (ECMA-376, part 1, 18.17.4.1: the 1900 date base)."""
    text, _ = read("sheet", xlsx(f'<row><c s="0"><v>{days}</v></c></row>', xfs='<xf numFmtId="14"/>'))

    assert text.splitlines()[1] == shown


def test_a_workbook_tells_how_long_something_took() -> None:
    """A sheet of working hours: 40 hours are stored as 1.666… days, and Excel shows 40:00 (ECMA-376, 18.8.31)."""
    formats = (
        '<numFmt numFmtId="164" formatCode="[h]:mm"/><numFmt numFmtId="165" formatCode="[Red][mm]:ss;@"/>'
        '<numFmt numFmtId="166" formatCode="[Red]0.00"/>'
    )
    xfs = "".join(f'<xf numFmtId="{number}"/>' for number in (164, 165, 166, 46, 45))
    rows = (
        '<row><c s="0"><v>1.6666666666666667</v></c><c s="1"><v>0.0625</v></c><c s="2"><v>1.5</v></c>'
        '<c s="3"><v>2.0000115740740742</v></c><c s="4"><v>0.0625</v></c></row>'
        '<row><c s="0"><v>-0.5</v></c><c s="0"><v>0</v></c><c s="0"><v>none</v></c><c s="0"><v>9e99</v></c></row>'
    )

    text, _ = read("sheet", xlsx(rows, formats=formats, xfs=xfs))

    assert text.splitlines()[1:3] == [
        "40:00:00\t1:30:00\t1.5\t48:00:01\t01:30:00",
        "-12:00:00\t0:00:00\tnone\t9e99",
    ]


def test_an_opendocument_text_is_read_without_what_was_deleted() -> None:
    body = (
        "<office:text><text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        '<text:h text:outline-level="1">Title</text:h>'
        '<text:list><text:list-item><text:p>one<text:tab/>two<text:s text:c="3"/>three<text:s/>four'
        "<text:line-break/>five</text:p></text:list-item></text:list>"
        "<text:p>Said<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>by whom</text:p>"
        "</text:note-body></text:note>.<office:annotation><dc:creator>Bob</dc:creator><text:p>hm</text:p>"
        "</office:annotation></text:p></office:text>"
    )

    text, end = read("opendocument", odf(body))

    assert end == "ok"
    assert text == "# Title\n- one\ttwo   three four\nfive\n[note] by whom\n[comment by Bob] hm\nSaid1.\n"


def test_opendocument_rows_and_slides_are_read() -> None:
    def cell(text: str, more: str = "") -> str:
        return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"

    twice = cell("x", 'table:number-columns-repeated="2"')
    row = f"<table:table-row>{cell('2026-01-01')}{twice}"
    row += '<table:table-cell table:number-columns-repeated="16000"/></table:table-row>'
    sheet = f'<office:spreadsheet><table:table table:name="Costs">{row}</table:table></office:spreadsheet>'
    slides = (
        "<office:presentation><draw:page><text:p>Hello</text:p><presentation:notes><text:p>Smile.</text:p>"
        "</presentation:notes></draw:page></office:presentation>"
    )

    assert read("opendocument", odf(sheet)) == ("[Sheet: Costs]\n2026-01-01\tx\tx\n\n", "ok")
    assert read("opendocument", odf(slides)) == ("[Slide 1]\nHello\nNotes: Smile.\n\n", "ok")


def test_a_book_is_read_in_the_order_of_its_spine() -> None:
    book = (
        '<package xmlns="opf"><manifest><item id="a" href="one.xhtml"/><item id="b" href="two%20b.xhtml"/></manifest>'
        '<spine><itemref idref="b"/><itemref idref="a"/><itemref idref="lost"/></spine></package>'
    )
    document = zipped(
        {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OPS/b.opf"/></rootfiles></container>',
            "META-INF/encryption.xml": '<e><CipherReference URI="OPS/font.otf"/></e>',
            "OPS/b.opf": book,
            "OPS/one.xhtml": "<!DOCTYPE html><html><head><title>x</title></head><body><h1>One</h1></body></html>",
            "OPS/two b.xhtml": "<html><body><p>Two</p></body></html>",
        }
    )

    text, end = read("epub", document)

    assert end == "ok"
    assert text == "[Chapter 1 of 2]\nTwo\n\n[Chapter 2 of 2]\n# One\n\n"


def test_a_page_is_read_as_it_is_shown() -> None:
    page = (
        "<html><head><title>t</title><style>p{}</style></head><body><h2>Plans</h2><p>A &amp; <b>B</b>\n  again"
        "<br>c<script>alert('<p>')</script><ul><li>one<li>two</ul><pre>x\n  y</pre><svg><svg></svg>d</svg>"
        "<table><tr><th>a<th>b<tr><td><p>1</p><img alt='a cat'></td><td>2</td></tr></table>"
        "<a href='x'>end</a><td>loose</td><table><tr><td>open<table><tr><td>x</td><td>y"
    )

    text, end = read("html", page.encode())

    assert end == "ok"
    assert text == "## Plans\nA & B again\nc\n- one\n- two\nx\n  y\na\tb\n1 a cat\t2\nendloose\nopen x y\n"


@pytest.mark.parametrize(
    "page",
    [
        '<meta charset="iso-8859-1"><p>caf\u00e9'.encode("latin-1"),
        "<p>caf\u00e9".encode(),
        "<p>caf\u00e9".encode("utf-16"),
        b"\xef\xbb\xbf<p>caf\xc3\xa9",
        "<?xml version='1.0' encoding='no-such'?><p>caf\u00e9".encode(),
        '<meta charset="undefined"><p>caf\u00e9'.encode(),
    ],
)
def test_a_page_is_decoded_as_a_browser_would(page: bytes) -> None:
    assert read("html", page)[0] == "caf\u00e9\n"


def test_rtf_is_read() -> None:
    rtf = rb"{\rtf1\ansi\ansicpg1252{\fonttbl\f0 Arial;}\f0 Gr\'fc\'dfe \u8364? \b bold\b0\par next\par}"

    assert read("rtf", rtf) == ("Gr\u00fc\u00dfe \u20ac bold\nnext\n\n", "ok")
    assert read("rtf", b"no rtf")[1] == "broken"
    assert read("rtf", rb"{\rtf1 \u99999999? x}")[1] == "broken"


def test_an_email_tells_who_what_and_what_is_attached() -> None:
    mail = (
        "From: =?utf-8?q?J=C3=BCrgen?= <j@example.org>\r\nTo: alice@example.org,\r\n bob@example.org\r\n"
        "Subject: Plans\r\nDate: Fri, 27 Nov 2026 21:03:53 +0000\r\nMIME-Version: 1.0\r\n"
        "Content-Type: multipart/mixed; boundary=X\r\n\r\n--X\r\n"
        "Content-Type: text/html; charset=no-such\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
        "<p>Hello <b>there</b></p>\r\n"
        "--X\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=a.pdf\r\n"
        "Content-Transfer-Encoding: base64\r\n\r\nAAAA\r\n"
        "--X\r\nContent-Type: message/rfc822\r\n\r\nFrom: carol@example.org\r\nSubject: Inner\r\n\r\n"
        "inside\r\n--X--\r\n"
    )

    text, end = read("mail", mail.encode())

    assert end == "ok"
    assert text == (
        "From: J\u00fcrgen <j@example.org>\nTo: alice@example.org, bob@example.org\n"
        "Date: Fri, 27 Nov 2026 21:03:53 +0000\nSubject: Plans\n\nHello there\n"
        "[Attached: a.pdf, application/pdf, 3 bytes]\n\n[Attached e-mail]\nFrom: carol@example.org\nSubject: Inner\n\n"
        "inside\n"
    )
    assert read("mail", b"\0\1\2")[1] == "broken"


def test_a_plain_email_without_text_is_told_by_its_headers() -> None:
    bare = b"From: a@example.org\r\nContent-Type: image/png\r\n\r\n"

    assert read("mail", bare)[0] == "From: a@example.org\n\n"


def test_control_characters_and_rows_of_blank_lines_are_left_out() -> None:
    text, _ = read("mail", b"From: a@example.org\r\n\r\na\0b\x1b[31mc\r\n\r\n\r\n\r\nd\x0ce\r\n")

    assert text == "From: a@example.org\n\nab[31mc\n\nd\ne\n\n"


def test_a_document_longer_than_is_kept_is_cut_at_a_character() -> None:
    long = "<p>" + "\u00e9" * 100_000
    text, end = read("html", (long * 25).encode())

    assert end == "long"
    assert MAX_TEXT_BYTES - 2 <= len(text.encode()) <= MAX_TEXT_BYTES
    assert set(text) == {"\u00e9", "\n"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a/B.PDF", "pdf"),
        ("x.docx", "word"),
        ("x.ods", "opendocument"),
        ("x.htm", "html"),
        ("x.eml", "mail"),
        ("pdf", None),
        ("a.pdf/readme", None),
        ("x.txt", None),
    ],
)
def test_a_name_tells_the_kind(path: str, kind: str | None) -> None:
    assert kinds.by_name(path) == kind


def test_a_type_or_the_first_bytes_tell_the_kind_too() -> None:
    assert kinds.by_content("application/octet-stream", b"%PDF-1.7") == "pdf"
    assert kinds.by_content("text/plain", b"{\\rtf1") == "rtf"
    assert kinds.by_content("message/rfc822", b"") == "mail"
    assert kinds.by_content("text/plain", b"x") is None
    assert kinds.outdated("x.doc", "") == "Word document of the old format"
    assert kinds.outdated("x", "application/vnd.ms-excel") == "Excel workbook of the old format"
    assert kinds.outdated("x.txt", "") is None


def test_a_sheet_that_names_a_missing_part_is_empty() -> None:
    book = f'<workbook {S}><sheets><sheet name="A" r:id="rNone"/></sheets></workbook>'

    assert read("sheet", zipped({"xl/workbook.xml": book})) == ("[Sheet 1 of 1: A]\n\n", "empty")
