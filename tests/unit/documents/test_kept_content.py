"""What a document holds beside its plain text: changes, comments, hidden things, formulas (item 13)."""

import pytest

from nextcloud_mcp_server.documents.sheet_formula import moved
from tests.document_files import ODF, A, S, W, docx, paragraph, pdf, read, relations, xlsx, zipped


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
