"""What a document holds beside its plain text: changes, comments, hidden things, formulas (item 13)."""

import pytest

from nextcloud_mcp_server.documents.hidden_cells import HiddenCells
from nextcloud_mcp_server.documents.sheet_formula import moved
from tests.document_files import ODF, A, S, W, docx, odf, paragraph, pdf, read, relations, xlsx, zipped


def run(text: str, about: str = "") -> str:
    return f"<w:r><w:rPr>{about}</w:rPr><w:t>{text}</w:t></w:r>"


def test_a_letter_reads_as_a_person_sees_it() -> None:
    """N23."""
    body = (
        f"<w:p>{run('We meet on ')}<w:ins w:author='Bob'>{run('Friday')}</w:ins>"
        "<w:del w:author='Bob'><w:r><w:delText>Monday</w:delText></w:r></w:del>"
        f"<w:r><w:instrText>HYPERLINK x</w:instrText></w:r>{run(' at ')}"
        f"<w:hyperlink w:anchor='x'>{run('the office')}</w:hyperlink>{run(', ')}"
        f"<w:sdt><w:sdtPr><w:alias w:val='Room'/></w:sdtPr><w:sdtContent>{run('room 7')}</w:sdtContent></w:sdt>"
        "<w:r><w:footnoteReference w:id='1'/></w:r></w:p>"
    )
    notes = f'<w:footnotes {W}><w:footnote w:id="1">{paragraph("Second floor.")}</w:footnote></w:footnotes>'

    text, end = read("word", docx(body, footnotes=notes))

    assert end == "ok"
    assert text == "We meet on Friday at the office, room 7[1]\n\n[Footnotes]\n[1] Second floor.\n"


def test_what_was_moved_stands_where_it_was_moved_to_alone() -> None:
    body = (
        f"<w:p><w:moveFromRangeStart w:id='1'/><w:moveFrom w:id='2'>{run('Moved sentence. ')}</w:moveFrom>"
        f"<w:moveFromRangeEnd w:id='1'/>{run('Stays.')}</w:p>"
        f"<w:p>{run('Then: ')}<w:moveTo w:id='3'>{run('Moved sentence.')}</w:moveTo></w:p>"
    )

    assert read("word", docx(body))[0] == "Stays.\nThen: Moved sentence.\n"


def test_each_header_and_footer_of_a_word_document_is_told_once() -> None:
    """ECMA-376, part 1, 17.10: a section has headers for first, even and other pages, each a part of its own."""
    parts = {
        "header1": f"<w:hdr {W}>{paragraph('Ada Lovelace Ltd')}</w:hdr>",
        "header2": f"<w:hdr {W}>{paragraph('Confidential')}{paragraph('Draft 3')}</w:hdr>",
        "header3": f"<w:hdr {W}>{paragraph('Ada Lovelace Ltd')}</w:hdr>",
        "header4": f"<w:hdr {W}>{paragraph('')}</w:hdr>",
        "footer1": f"<w:ftr {W}>{paragraph('IBAN DE02 1203 0000')}</w:ftr>",
        "footer2": f"<w:ftr {W}><w:p><w:del>{run('gone')}</w:del></w:p></w:ftr>",
    }

    text, end = read("word", docx(paragraph("Dear Bob"), **parts))

    assert end == "ok"
    assert text == (
        "Dear Bob\n\n[Header]\nAda Lovelace Ltd\n\n[Header]\nConfidential\nDraft 3\n\n"
        "[Footer]\nIBAN DE02 1203 0000\n"
    )


def test_a_header_that_is_named_and_missing_hides_nothing() -> None:
    members = {
        "_rels/.rels": relations(officeDocument="word/document.xml"),
        "word/document.xml": f"<w:document {W}><w:body>{paragraph('Dear Bob')}</w:body></w:document>",
        "word/_rels/document.xml.rels": relations(header="header1.xml"),
    }

    assert read("word", zipped(members)) == ("Dear Bob\n", "ok")


def odt_styles(pages: str) -> str:
    hidden = (
        '<style:style style:name="Secret"><style:text-properties text:display="none"/></style:style>'
        "<number:text>stray</number:text><text:p>stray</text:p>"
    )
    return (
        f'<office:document-styles {ODF} xmlns:style="urn:style" xmlns:number="urn:number">'
        f"<office:automatic-styles>{hidden}</office:automatic-styles><office:master-styles>{pages}"
        "</office:master-styles></office:document-styles>"
    )


def test_each_header_and_footer_of_an_open_document_text_is_told_once() -> None:
    """ODF 1.3, part 3, 16.10: they are in the master pages of styles.xml; one that is off keeps its text."""
    pages = (
        '<style:master-page style:name="Standard"><style:header><text:p>Ada Lovelace Ltd</text:p></style:header>'
        "<style:header-left><text:p>Confidential</text:p></style:header-left>"
        '<style:header-first style:display="false"><text:p>switched off</text:p></style:header-first>'
        '<style:footer><text:p>Page <text:page-number>1</text:page-number><text:span text:style-name="Secret">!'
        "</text:span></text:p></style:footer></style:master-page>"
        '<style:master-page style:name="Wide"><style:header><text:p>Ada Lovelace Ltd</text:p></style:header>'
        "<style:footer><text:p/></style:footer></style:master-page>"
    )
    document = odf(
        "<office:text><text:p>Dear Bob</text:p></office:text>", **{"styles.xml": odt_styles(pages)}
    )

    text, end = read("opendocument", document)

    assert end == "ok"
    assert text == (
        "Dear Bob\n\n[Header]\nAda Lovelace Ltd\n\n[Header]\nConfidential\n\n[Footer]\nPage 1[hidden: !]\n"
    )


def test_the_headers_that_every_spreadsheet_has_are_no_text_of_it() -> None:
    pages = "<style:master-page><style:footer><text:p>Page 1</text:p></style:footer></style:master-page>"
    row = "<table:table-row><table:table-cell><text:p>7</text:p></table:table-cell></table:table-row>"
    body = (
        "<office:automatic-styles><number:text xmlns:number='urn:number'>.</number:text></office:automatic-styles>"
        f"<office:spreadsheet><table:table table:name='A'>{row}</table:table></office:spreadsheet>"
    )

    text, _ = read("opendocument", odf(body, **{"styles.xml": odt_styles(pages)}))

    assert text == "[Sheet: A]\n7\n\n"


@pytest.mark.parametrize("gone", ["del", "moveFrom"])
def test_paragraphs_whose_break_was_deleted_are_one(gone: str) -> None:
    mark = f"<w:pPr><w:rPr><w:{gone} w:id='1'/></w:rPr></w:pPr>"
    joined = f"<w:p>{mark}{run('We meet ')}</w:p>{paragraph('on Friday.')}"
    last = f"<w:p>{mark}{run('end')}</w:p>"
    table = (
        f"<w:tbl><w:tr><w:tc><w:p>{mark}{run('a')}</w:p></w:tc><w:tc>{paragraph('b')}</w:tc></w:tr></w:tbl>"
    )

    text, _ = read("word", docx(joined + last + table + last))

    assert text == "We meet on Friday.\nend\na\tb\nend\n"


def test_signs_of_a_font_are_written_and_unknown_ones_are_told() -> None:
    """ECMA-376, part 1, 17.3.3.30: a form's ticked box is a sign of Wingdings, with or without F000 before it."""
    signs = (
        ("Wingdings", "F0FE"),
        ("wingdings", "6F"),
        ("Symbol", "F0A3"),
        ("Webdings", "F0FE"),
        ("Symbol", "?"),
    )
    runs = "".join(f'<w:r><w:sym w:font="{font}" w:char="{char}"/></w:r>' for font, char in signs)
    hidden = '<w:r><w:rPr><w:vanish/></w:rPr><w:sym w:font="Wingdings" w:char="F0FC"/></w:r>'

    text, _ = read("word", docx(f"<w:p>{runs}{hidden}</w:p>"))

    assert text == "☑☐≤[symbol][symbol][hidden: ✓]\n"


def test_hidden_text_is_marked_whatever_hides_it() -> None:
    styles = (
        f'<w:styles {W}><w:style w:styleId="Secret"><w:name w:val="secret"/><w:rPr><w:vanish/></w:rPr></w:style>'
        '<w:style w:styleId="Open"><w:rPr><w:vanish w:val="0"/></w:rPr></w:style></w:styles>'
    )
    runs = (
        run("a"), run("b", "<w:vanish/>"), run("c", "<w:vanish/>"), run("d", '<w:vanish w:val="false"/>'),
        run("e", '<w:rStyle w:val="Secret"/>'), run("f", '<w:rStyle w:val="Open"/>'),
    )  # fmt: skip
    hidden = paragraph("all", '<w:pStyle w:val="Secret"/>')
    shown = f"<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>{run('shown')}</w:p>"
    body = f"<w:p>{''.join(runs)}</w:p>{hidden}{shown}"

    text, _ = read("word", docx(body, styles=styles))

    assert text == "a[hidden: bc]d[hidden: e]f\n[hidden: all]\nshown\n"


def test_a_text_box_is_read_once() -> None:
    """N23."""
    box = f"<w:txbxContent>{paragraph('in the box')}</w:txbxContent>"
    body = (
        f"<w:p>{run('before')}<w:r><mc:AlternateContent xmlns:mc='mc'><mc:Choice>{box}</mc:Choice>"
        f"<mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )

    assert read("word", docx(body))[0] == "in the box\nbefore\n"


def test_a_formula_without_a_result_is_shown_and_one_with_a_result_is_not() -> None:
    rows = (
        '<row><c r="A1"><v>2</v></c><c r="B1"><f>A1*2</f></c><c r="C1"><f>A1*3</f><v>6</v></c>'
        '<c r="D1"><f>SUM(A1:A3)</f><v></v></c></row>'
        '<row><c r="A2"><f t="shared" ref="A2:A4" si="0">$A$1+A1*B$1</f></c>'
        '<c r="B2" t="str"><f>""</f><v></v></c></row>'
        '<row><c r="A3"><f t="shared" si="0"/></c><c r="B3"><f t="shared" si="9"/></c></row>'
    )

    text, end = read("sheet", xlsx(rows))

    assert end == "ok"
    assert text == ('[Sheet 1 of 1: Costs]\n2\t=A1*2\t6\t=SUM(A1:A3)\n=$A$1+A1*B$1\t=""\n=$A$1+A2*B$1\n\n')


@pytest.mark.parametrize(
    ("formula", "start", "end", "expected"),
    [
        ("A1+B2", "C1", "D3", "B3+C4"),
        ("$A1+B$2+$C$3", "D1", "E2", "$A2+C$2+$C$3"),
        ("Z1", "A1", "B1", "AA1"),
        ("SUM(A1:A9)*LOG10(B1)", "C1", "C2", "SUM(A2:A10)*LOG10(B2)"),
        ("'Q1 A1'!A1&\"A1\"", "B1", "B2", "'Q1 A1'!A2&\"A1\""),
        ("Costs!A1", "B1", "B2", "Costs!A2"),
        ("A1", "B1", "odd", "A1"),
    ],
)
def test_a_shared_formula_moves_with_its_cell(formula: str, start: str, end: str, expected: str) -> None:
    """ECMA-376, part 1, 18.17.2: what follows a `$` stays, the rest moves with the cell."""
    assert moved(formula, start, end) == expected


def workbook(sheet_parts: str, **members: str) -> bytes:
    sheets = (
        '<sheet name="Open" r:id="rWorksheet1"/><sheet name="Old" state="hidden" r:id="rWorksheet2"/>'
        '<sheet name="Deep" state="veryHidden" r:id="rWorksheet3"/>'
    )
    sheet = f'<worksheet {S}><sheetData><row><c r="A1"><v>1</v></c></row></sheetData></worksheet>'
    return zipped(
        {
            "xl/workbook.xml": f"<workbook {S}><sheets>{sheets}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": relations(
                worksheet1="worksheets/1.xml", worksheet2="worksheets/2.xml", person="persons/person.xml"
            ),
            "xl/worksheets/1.xml": sheet,
            "xl/worksheets/2.xml": sheet,
            "xl/worksheets/_rels/1.xml.rels": sheet_parts,
            **{name.replace("__", "/") + ".xml": text for name, text in members.items()},
        }
    )


def test_hidden_sheets_are_named_as_such_and_comments_follow_their_sheet() -> None:
    notes = (
        f"<comments {S}><authors><author>Bob</author></authors><commentList>"
        '<comment ref="B2" authorId="0"><text><r><t>Please </t></r><r><t>check</t></r></text></comment>'
        '<comment ref="C3" authorId="0"><text><t>[Threaded comment] Your version of Excel ...</t></text></comment>'
        '<comment ref="D4" authorId="7"><text><t>nobody</t></text></comment></commentList></comments>'
    )
    talk = (
        '<ThreadedComments xmlns="t"><threadedComment ref="C3" personId="{1}"><text>Is it final?</text>'
        "</threadedComment>"
        '<threadedComment ref="C3" personId="{9}"><text>Yes</text></threadedComment></ThreadedComments>'
    )
    persons = '<personList xmlns="t"><person displayName="Carol" id="{1}"/></personList>'
    parts = relations(comments="../comments1.xml", threadedComment="../talk.xml")

    text, end = read(
        "sheet", workbook(parts, xl__comments1=notes, xl__talk=talk, xl__persons__person=persons)
    )

    assert end == "ok"
    assert text == (
        "[Sheet 1 of 3: Open]\n1\n[Comments]\n"
        "[C3, Carol] Is it final?\n[C3] Yes\n[B2, Bob] Please check\n[D4] nobody\n\n"
        "[Sheet 2 of 3: Old (hidden)]\n1\n\n[Sheet 3 of 3: Deep (hidden)]\n\n"
    )


def test_a_workbook_names_its_hidden_rows_and_columns() -> None:
    """ECMA-376, part 1, 18.3.1.13 and 18.3.1.73: a row may leave its number out."""
    hidden = ('min="3" max="5" hidden="1"', 'min="6" max="6" hidden="true"', 'min="28" max="28" hidden="1"')
    columns = "".join(f"<col {each}/>" for each in hidden)
    rows = (
        '<row r="1"><c r="A1"><v>1</v></c></row><row r="3" hidden="1"><c r="A3"><v>3</v></c></row>'
        '<row hidden="1"/><row r="9" hidden="0"/><row r="10" hidden="1"/>'
    )
    sheet = f"<worksheet {S}><cols>{columns}</cols><sheetData>{rows}</sheetData></worksheet>"

    text, _ = read("sheet", workbook("", xl__worksheets__1=sheet))

    assert text.partition("\n[Sheet 2")[0] == (
        "[Sheet 1 of 3: Open]\n1\n3\n[Hidden: columns C to F, AB; rows 3 to 4, 10]\n"
    )


def test_an_opendocument_sheet_names_its_hidden_rows_and_columns() -> None:
    cell = "<table:table-cell><text:p>x</text:p></table:table-cell>"
    body = (
        '<office:body><office:spreadsheet><table:table table:name="One">'
        '<table:table-column table:number-columns-repeated="2"/>'
        '<table:table-column table:visibility="collapse"/>'
        f"<table:table-row>{cell}</table:table-row>"
        '<table:table-row table:number-rows-repeated="3" table:visibility="collapse"/>'
        f'<table:table-row table:visibility="filter">{cell}</table:table-row></table:table>'
        f'<table:table table:name="Two"><table:table-row>{cell}</table:table-row></table:table>'
        "</office:spreadsheet></office:body>"
    )

    text, _ = read(
        "opendocument",
        zipped({"content.xml": f"<office:document-content {ODF}>{body}</office:document-content>"}),
    )

    assert [line for line in text.splitlines() if line] == [
        "[Sheet: One]", "x", "x", "[Hidden: column C; rows 2 to 5]", "[Sheet: Two]", "x",
    ]  # fmt: skip


def test_what_a_filter_hides_is_named_up_to_a_bound() -> None:
    hidden = HiddenCells()
    for number in range(1, 100_001, 2):
        hidden.add_rows(number, number)

    assert hidden.line().startswith("[Hidden: rows 1, 3, 5,")
    assert hidden.line().endswith("37, 39, and more]")


def test_an_opendocument_says_what_is_hidden_and_who_commented() -> None:
    styles = (
        '<office:automatic-styles><style:style xmlns:style="s" style:name="T1">'
        '<style:text-properties text:display="none"/>'
        '</style:style><style:style xmlns:style="s" style:name="T2"><style:text-properties text:display="true"/>'
        "</style:style></office:automatic-styles>"
    )
    body = (
        '<office:body><office:text><text:p>a<text:span text:style-name="T1">b</text:span>'
        '<text:span text:style-name="T2">c</text:span><text:hidden-text text:string-value="d"/></text:p>'
        '<text:p text:style-name="T1">all</text:p>'
        "<text:p>Said<office:annotation><dc:creator>Bob</dc:creator><dc:date>2026</dc:date><text:p>hm</text:p>"
        "</office:annotation>.</text:p></office:text></office:body>"
    )
    content = f"<office:document-content {ODF}>{styles}{body}</office:document-content>"

    text, end = read("opendocument", zipped({"content.xml": content}))

    assert end == "ok"
    assert text == "a[hidden: b]c[hidden: d]\n[hidden: all]\n[comment by Bob] hm\nSaid.\n"


def test_an_opendocument_section_that_is_hidden_hides_all_that_it_holds() -> None:
    """ODF 1.3, part 3: `text:display="none"` of a section hides it, with those in it."""

    def section(display: str, content: str) -> str:
        return f'<text:section text:display="{display}">{content}</text:section>'

    inside = section("true", "<text:p>b</text:p>")
    body = f"<office:text>{section('none', f'<text:p>a</text:p>{inside}')}{inside}<text:p>c</text:p></office:text>"

    text, _ = read("opendocument", odf(body))

    assert text == "[hidden: a]\n[hidden: b]\nb\nc\n"


def test_how_a_word_is_pronounced_is_no_part_of_a_cell() -> None:
    """ECMA-376, part 1, 18.4.6: a phonetic run stands beside the text, also in a cell of its own text."""
    word = "<is><r><t>東</t></r><r><t>京</t></r><rPh sb='0' eb='2'><t>トウキョウ</t></rPh></is>"

    text, _ = read("sheet", xlsx(f'<row><c t="inlineStr">{word}</c><c><v>1</v></c></row>'))

    assert text.splitlines()[1] == "東京\t1"


def test_an_opendocument_sheet_shows_formulas_comments_and_what_is_hidden() -> None:
    styles = (
        '<office:automatic-styles><style:style xmlns:style="s" style:name="ta2"><style:table-properties '
        'table:display="false"/></style:style></office:automatic-styles>'
    )
    note = "<office:annotation><dc:creator>Bob</dc:creator><text:p>why?</text:p></office:annotation>"
    body = (
        '<office:body><office:spreadsheet><table:table table:name="Old" table:style-name="ta2"><table:table-row>'
        f'<table:table-cell office:value-type="float" office:value="2"><text:p>2</text:p>{note}</table:table-cell>'
        '<table:table-cell table:formula="of:=SUM([.A1:.A3])*[$Other.B2]"/>'
        '<table:table-cell table:formula="of:=[.A1]" office:value-type="float" office:value="2"><text:p>2</text:p>'
        "</table:table-cell></table:table-row></table:table></office:spreadsheet></office:body>"
    )
    content = f"<office:document-content {ODF}>{styles}{body}</office:document-content>"

    text, _ = read("opendocument", zipped({"content.xml": content}))

    assert text == "[Sheet: Old (hidden)]\n2 [comment by Bob] why?\t=SUM(A1:A3)*$Other.B2\t2\n\n"


def test_a_pdf_shows_what_people_wrote_on_its_pages() -> None:
    notes = (
        "/Annots [<< /Type /Annot /Subtype /Text /Rect [0 0 9 9] /T (Bob) /Contents (Too long?) >> "
        "<< /Type /Annot /Subtype /Highlight /Rect [0 0 9 9] /Contents (check) >> "
        "<< /Type /Annot /Subtype /Highlight /Rect [0 0 9 9] >> "
        "<< /Type /Annot /Subtype /Popup /Rect [0 0 9 9] /Contents (Too long?) >> null] "
    )
    document = pdf(["Dear Alice"]).replace(
        b"/Type /Page /Parent", b"/Type /Page " + notes.encode() + b"/Parent"
    )

    text, end = read("pdf", document)

    assert end == "ok"
    assert text == "[Page 1 of 1]\nDear Alice\n\n[Comment by Bob] Too long?\n[Comment] check\n"


def test_damaged_notes_do_not_hide_the_page() -> None:
    document = pdf(["Dear Alice"]).replace(b"/Type /Page /Parent", b"/Type /Page /Annots 7 /Parent")

    assert read("pdf", document) == ("[Page 1 of 1]\nDear Alice\n\n", "ok")


def form(widgets: str, *, text: str = "Application") -> bytes:
    return pdf([text], each=f"/Annots [{widgets}]")


def field(about: str) -> str:
    return f"<< /Type /Annot /Subtype /Widget /Rect [0 0 9 9] {about} >> "


@pytest.mark.parametrize(
    ("about", "line"),
    [
        ("/FT /Tx /T (city) /V (Berlin)", "[Form field] city: Berlin"),
        ("/FT /Tx /T (path) /V (/home/ada)", "[Form field] path: /home/ada"),
        ("/FT /Tx /T (f1_01) /TU (First name) /V (Ada)", "[Form field] First name: Ada"),
        ("/FT /Tx /T (letter) /V (two\\nlines)", "[Form field] letter: two lines"),
        ("/FT /Tx /T (odd) /V <FEFF00C400D6>", "[Form field] odd: ÄÖ"),
        ("/Parent << /T (address) /FT /Tx /V (Berlin) >> /T (city)", "[Form field] address.city: Berlin"),
        ("/Parent << /T (street) /FT /Tx /V (Elm) >>", "[Form field] street: Elm"),
        ("/FT /Btn /T (agree) /V /Yes /AS /Yes", "[Form field] agree: Yes"),
        (
            "/FT /Ch /T (country) /V (de) /Opt [[(de) (Germany)] [(fr) (France)]]",
            "[Form field] country: Germany",
        ),
        ("/FT /Ch /T (tags) /V [(a) (b)] /Opt [(a) (b) (c)]", "[Form field] tags: a, b"),
        ("/FT /Sig /T (by) /V << /Type /Sig >>", "[Form field] by: (signed)"),
        ("/FT /Tx /V (nameless)", "[Form field] without a name: nameless"),
        ("/FT /Tx /T (trap) /F 2 /V (unseen)", "[Form field, hidden] trap: unseen"),
    ],
)
def test_a_pdf_shows_what_was_filled_into_its_form(about: str, line: str) -> None:
    """ISO 32000-1, 12.7: values and names are inherited, a choice may have a name of its own."""
    text, end = read("pdf", form(field(about)))

    assert end == "ok"
    assert text == f"[Page 1 of 1]\nApplication\n\n{line}\n"


@pytest.mark.parametrize(
    "about",
    [
        "/FT /Tx /T (empty)",
        "/FT /Tx /T (blank) /V ()",
        "/FT /Tx /T (odd) /V 7",
        "/FT /Btn /T (agree) /V /Off",
        "/FT /Btn /Ff 65536 /T (send) /V /Pressed",
        "/FT /Tx /Ff 8192 /T (password) /V (secret)",
        "/FT /Sig /T (by)",
    ],
)
def test_what_was_not_filled_in_is_not_told_and_no_password_is(about: str) -> None:
    assert read("pdf", form(field(about)))[0] == "[Page 1 of 1]\nApplication\n\n"


def test_a_filled_form_without_any_other_text_is_no_empty_document() -> None:
    text, end = read("pdf", form(field("/FT /Tx /T (city) /V (Berlin)") * 2, text=""))

    assert (text, end) == ("[Page 1 of 1: no text]\n[Form field] city: Berlin\n", "ok")


def test_the_fields_of_a_form_are_bounded() -> None:
    long = field(f"/FT /Tx /T (long) /V ({'x' * 5000})")
    many = "".join(field(f"/FT /Tx /T (f{number}) /V (v)") for number in range(2_005))

    lines = read("pdf", form(long + many))[0].splitlines()

    assert lines[3] == f"[Form field] long: {'x' * 4000}…"
    assert lines[-1] == "[Only the first 2,000 fields of this form are shown]"
    assert len(lines) == 3 + 2_001


def test_a_damaged_field_does_not_hide_the_page() -> None:
    """A field that belongs to itself, and one of no kind at all."""
    document = form(field("/FT /Tx /T (city) /V (Berlin)") + "7 ")

    text, end = read("pdf", document)

    assert end == "ok"
    assert "[Form field] city: Berlin" in text


def test_a_presentation_tells_hidden_slides_and_comments() -> None:
    comments = (
        f"<p:cmLst {A}><p:cm authorId='0'><p:pos x='1'/><p:text>Shorter, please</p:text></p:cm></p:cmLst>"
    )
    document = zipped(
        {
            "ppt/presentation.xml": f'<p:presentation {A} xmlns:r="http://x/relationships"><p:sldId r:id="rSlide1"/>'
            "</p:presentation>",
            "ppt/_rels/presentation.xml.rels": relations(slide1="slides/a.xml"),
            "ppt/slides/a.xml": f'<p:sld {A} show="0"><a:p><a:t>Hello</a:t></a:p></p:sld>',
            "ppt/slides/_rels/a.xml.rels": relations(comments="../comments/c.xml"),
            "ppt/comments/c.xml": comments,
        }
    )

    assert read("slides", document)[0] == (
        "[Slide 1 of 1]\n[This slide is hidden]\nHello\n[Comment] Shorter, please\n\n"
    )
