from nextcloud_mcp_server.sandbox.document import Document

PAGE = """<!doctype html>
<html><head><title>Who  asks?</title><style>p { color: red }</style></head>
<body><h1>May <strong>Claude</strong> come in?</h1>
<form method="post" action="/answer"><button name="answer" value="none" hidden></button>
<input type="hidden" name="id" value="7">
<label><input type="checkbox" name="allow" value="notes" checked> <b>Read &amp; search</b> <small>All</small></label>
<label>Change <input type="CHECKBOX" name="allow"></label>
<input name="user"><input type="submit" name="go" value="Go"><input value="without a name">
</form>
<input name="outside">
<a href="/next?a=1&amp;b=2">Next</a><a name="top">Top</a>
<script>var words = "not shown";</script></body></html>"""


def test_the_title_the_heading_and_the_words_are_read_as_they_are_shown() -> None:
    document = Document.read(PAGE)

    assert document.title == "Who asks?"
    assert document.heading == "May Claude come in?"
    assert document.text == "May Claude come in? Read & search All Change Next Top"


def test_links_are_read_in_their_order() -> None:
    assert Document.read(PAGE).links == ["/next?a=1&b=2"]


def test_a_form_holds_the_fields_that_a_browser_sends() -> None:
    (form,) = Document.read(PAGE).forms

    assert form.action == "/answer"
    assert [(one.name, one.kind, one.value) for one in form.fields] == [
        ("id", "hidden", "7"),
        ("allow", "checkbox", "notes"),
        ("allow", "checkbox", "on"),
        ("user", "text", ""),
    ]


def test_a_box_to_tick_has_the_first_words_of_its_label() -> None:
    choices = Document.read(PAGE).choices

    assert [(one.label, one.ticked) for one in choices] == [("Read & search", True), ("", False)]


def test_a_radio_button_has_the_name_of_its_group_and_one_that_cannot_be_chosen_is_not_sent() -> None:
    document = Document.read(
        '<form><div role="radiogroup" aria-labelledby="n"><p><span id="n"> Notes </span> old</p>'
        '<label><input type="radio" name="a" value="off" disabled><span>Off</span></label>'
        '<label><input type="radio" name="a" value="read" checked><span>Read</span></label></div>'
        '<div role="radiogroup" aria-labelledby="f"><p id="f">Files</p>'
        '<label><input type="radio" name="b"><span>On</span></label></div></form>'
    )

    assert [(one.group, one.label, one.value, one.ticked) for one in document.choices] == [
        ("Notes", "Read", "read", True),
        ("Files", "On", "on", False),
    ]


def test_what_is_not_well_formed_is_taken_as_it_comes() -> None:
    document = Document.read("</h1></form><p>One<a href=/two>two")

    assert document.text == "One two"
    assert document.links == ["/two"]
    assert document.forms == []
