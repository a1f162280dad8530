import pytest

from nextcloud_mcp_server.apps.notes import edit
from nextcloud_mcp_server.errors import InvalidInput

NOTE = "# Plan\n\nintro\n\n## Tasks\n\n- one\n- two\n\n### Later\n\n- three\n\n## Notes\n\nend\n"


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("", "new"),
        ("a", "a\nnew"),
        ("a\n", "a\nnew"),
        ("a\r\nb", "a\r\nb\r\nnew"),
        ("a\r\nb\r\n", "a\r\nb\r\nnew"),
    ],
)
def test_text_is_appended_on_a_line_of_its_own(text: str, added: str) -> None:
    assert edit.append(text, "new") == added


def test_appended_lines_end_as_those_of_the_note() -> None:
    """B89."""
    assert edit.append("a\r\n", "b\nc\n") == "a\r\nb\r\nc\r\n"
    assert edit.append("a\n", "b\r\nc") == "a\nb\nc"


def test_a_passage_is_replaced_and_nothing_else() -> None:
    assert edit.replace("one two three", "two", "2") == "one 2 three"
    assert edit.replace("one two three", " two", "") == "one three"


def test_a_passage_over_several_lines_of_a_windows_note_is_found_and_one_line_changes() -> None:
    """B89: CRLF and byte order mark stay."""
    text = "\ufeff# T\r\na\r\nb\r\nc\r\n"

    assert edit.replace(text, "a\nb\n", "a\nB\n") == "\ufeff# T\r\na\r\nB\r\nc\r\n"
    assert edit.replace(text, "a\r\nb\r\n", "A\r\nb\r\n") == "\ufeff# T\r\nA\r\nb\r\nc\r\n"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("missing", "x", "exactly"),
        ("", "x", "exactly"),
        ("two", "two", "nothing to change"),
        ("o", "x", "2 times"),
        ("aa", "x", "2 times"),
    ],
)
def test_a_passage_that_is_not_there_exactly_once_is_refused(old: str, new: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        edit.replace("one two aaa", old, new)


def test_a_section_ends_at_the_next_heading_of_its_level() -> None:
    assert edit.replace_section(NOTE, "Tasks", "- done") == (
        "# Plan\n\nintro\n\n## Tasks\n\n- done\n\n## Notes\n\nend\n"
    )


@pytest.mark.parametrize("heading", ["Later", "### Later", " ### Later ", "### Later ###"])
def test_a_section_is_named_with_or_without_its_marks(heading: str) -> None:
    assert "### Later\n\nx\n\n## Notes" in edit.replace_section(NOTE, heading, "x")


def test_the_last_section_keeps_the_end_of_the_note() -> None:
    assert edit.replace_section(NOTE, "## Notes", "x\ny\n\n").endswith("## Notes\n\nx\ny\n")
    assert edit.replace_section("# A\nold", "A", "new\n") == "# A\nnew"


def test_a_repeated_heading_in_the_new_text_is_not_doubled() -> None:
    assert edit.replace_section(NOTE, "Notes", "## Notes\n\nx").endswith("\n\n## Notes\n\nx\n")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("# A", "# A\nx"),
        ("# A\n", "# A\nx\n"),
        ("# A\n\n\n# B\n", "# A\nx\n\n\n# B\n"),
        ("# A\r\n\r\nold\r\n\r\n# B\r\n", "# A\r\n\r\nx\r\n\r\n# B\r\n"),
        ("\ufeff# A\nold\n", "\ufeff# A\nx\n"),
    ],
)
def test_blank_lines_line_ends_and_marks_around_a_section_stay(text: str, result: str) -> None:
    """B89."""
    assert edit.replace_section(text, "A", "x") == result


def test_a_section_can_be_emptied() -> None:
    assert edit.replace_section("# A\n\nold\n\n# B\n", "A", "") == "# A\n\n\n# B\n"


def test_a_heading_inside_a_code_block_is_none() -> None:
    text = "# A\n\n````sh\n```\n# B\n``` x\n````\n\n~~~\n# C\n~~~\n\n# D\nold\n"

    assert edit.replace_section(text, "D", "new").endswith("# D\nnew\n")
    with pytest.raises(InvalidInput, match="It has: “# A”, “# D”"):
        edit.replace_section(text, "B", "x")


def test_a_heading_that_is_there_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="2 such headings"):
        edit.replace_section("# A\n\n# A\n", "A", "x")


def test_headings_of_one_name_and_different_levels_can_be_told_apart() -> None:
    assert edit.replace_section("# A\nx\n## A\ny\n", "## A", "z") == "# A\nx\n## A\nz\n"


def test_a_note_without_headings_says_so() -> None:
    with pytest.raises(InvalidInput, match="none at all"):
        edit.replace_section("#no heading\n", "no heading", "x")


def test_an_empty_heading_counts_as_one() -> None:
    assert edit.replace_section("#\nold\n", "#", "x") == "#\nx\n"
