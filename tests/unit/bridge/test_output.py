import mcp_types as types
import pytest

from nextcloud_mcp_server.bridge import output

TEXT = types.TextContent(type="text", text="one")


def test_a_table_has_aligned_columns_and_is_as_wide_as_the_terminal() -> None:
    lines = output.table(("A", "B"), [["x", "y" * 50], ["long", "z\n\x1b[31m"]], width=30)

    assert lines == ["A     B", f"x     {'y' * 23}…", "long  z\\n\\x1b[31m"]


def test_a_table_that_is_read_by_a_program_is_whole() -> None:
    assert output.table(("A",), [["y" * 500]])[1] == "y" * 500


def test_texts_of_a_result_are_lines_and_structured_content_follows() -> None:
    result = types.CallToolResult(content=[TEXT, TEXT], structured_content={"ü": 1})

    assert output.call_text(result) == 'one\none\n---\n{\n  "ü": 1\n}'


def test_structured_content_that_is_the_text_is_printed_once() -> None:
    text = types.TextContent(type="text", text='{\n  "a": 1\n}')

    assert output.call_text(types.CallToolResult(content=[text], structured_content={"a": 1})) == text.text


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (
            types.ImageContent(type="image", data="aGFsbG8h", mime_type="image/png"),
            "[base64 image/png] 6 bytes",
        ),
        (types.AudioContent(type="audio", data="aGFs", mime_type="audio/wav"), "[base64 audio/wav] 3 bytes"),
        (types.ResourceLink(type="resource_link", uri="a:b", name="n", title="T"), "[resource a:b] T"),
        (
            types.EmbeddedResource(
                type="resource", resource=types.TextResourceContents(uri="a:b", text="inside", mime_type=None)
            ),
            "inside",
        ),
        (
            types.EmbeddedResource(
                type="resource", resource=types.BlobResourceContents(uri="a:b", blob="aGFs", mime_type=None)
            ),
            "[base64 application/octet-stream] 3 bytes",
        ),
    ],
)
def test_content_that_is_no_text_is_described(block: types.ContentBlock, text: str) -> None:
    assert output.content_text(block) == text


def test_a_binary_resource_is_whole_for_programs() -> None:
    blob = types.BlobResourceContents(uri="a:b", blob="aGFs", mime_type="image/png")

    assert output.resource_text(blob, whole=True) == "[base64 image/png] aGFs"
    assert output.resource_bytes(blob) == b"hal"
    assert output.resource_bytes(types.TextResourceContents(uri="a:b", text="ü")) == "ü".encode()


def test_a_blob_that_is_no_base64_is_refused() -> None:
    with pytest.raises(ValueError, match="no base64"):
        output.resource_bytes(types.BlobResourceContents(uri="a:b", blob="?"))


def test_a_prompt_shows_who_says_what() -> None:
    messages = [
        types.PromptMessage(role="user", content=TEXT),
        types.PromptMessage(role="assistant", content=types.TextContent(type="text", text="two")),
    ]

    assert output.prompt_text(types.GetPromptResult(messages=messages)) == "[user]\none\n\n[assistant]\ntwo"


def test_a_long_result_is_cut_where_the_user_set_a_limit() -> None:
    assert output.shortened("x" * 41, 10) == "x" * 40 + "\n[1 more characters are left out]"
    assert output.shortened("x" * 40, 10) == "x" * 40
    assert output.shortened("x" * 41, None) == "x" * 41


def test_nothing_in_a_text_acts_on_the_terminal() -> None:
    assert output.safe("a\tb\r\nc\x1b[2J\u202e\x9b\x07") == "a\tb\nc\\x1b[2J\\u202e\\x9b\\x07"


@pytest.mark.parametrize(
    ("support", "word"), [(None, "Forbidden"), ("required", "Required"), ("optional", "Optional")]
)
def test_the_support_of_tasks_is_one_word(support: str | None, word: str) -> None:
    execution = None if support is None else {"taskSupport": support}
    tool = types.Tool.model_validate({"name": "x", "inputSchema": {"type": "object"}, "execution": execution})

    assert output.task_support(tool) == word
