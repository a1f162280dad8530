"""Hidden characters of any origin: shown to the model, and kept in the file by an edit of it."""

import re
from functools import partial
from typing import Any, cast

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    EmptyResult,
    Request,
    SubscribeRequest,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
)

from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.nextcloud.sanitize import shown as shown_text
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.registry import load
from nextcloud_mcp_server.tools.result import Document, Result
from tests.dav_fakes import call_with
from tests.every_tool import SPECS, tampered, usual
from tests.integration.personal_app import Asked, PersonalApp
from tests.security.test_every_tool import ANSWERED, read

#: Direction overrides, tags, zero width, variation selectors, an escape of a terminal.
HIDDEN = "\u202e\u2066\U000e0041\u200b\ufe0f\U000e0101\x1b\x07\u00ad\u2028"
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e0fff]"
)
PLAIN = re.compile(r"[\w/-]*[a-z][\w /-]*", re.ASCII)


class Anything(Result):
    value: Any


class Text(Document):
    names: dict[str, str]


def texts(value: Any) -> list[str]:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return [text for key, item in members.items() for text in (*texts(key), *texts(item))]
    if isinstance(value, list):
        return [text for item in cast("list[Any]", value) for text in texts(item)]
    return [value] if isinstance(value, str) else []


def assert_nothing_hidden(result: CallToolResult) -> None:
    blocks = [block.text for block in result.content if isinstance(block, TextContent)]
    assert [text for text in [*blocks, *texts(result.structured_content)] if FORBIDDEN.search(text)] == []


JSON = st.recursive(
    st.text(st.sampled_from(f"ab<U+>\ud800{HIDDEN}") | st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.sampled_from(f"a{HIDDEN}")), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(JSON, st.text(st.sampled_from(f"a{HIDDEN}")))
def test_no_result_and_no_error_has_anything_hidden_in_it(value: object, sentence: str) -> None:
    assert_nothing_hidden(answer.result(Anything(value=value), remarks=[sentence]))
    assert_nothing_hidden(answer.result(Text(content=sentence, names={sentence: sentence})))
    assert_nothing_hidden(answer.failure(sentence))


@pytest.fixture(scope="module")
async def every() -> dict[str, dict[str, Any]]:
    """Give arguments for all tools; each demo has the same."""
    return await usual(tampered(Sandbox.demo())[1])


def planted(value: Any) -> object:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, dict):
        return {key: planted(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [planted(item) for item in cast("list[Any]", value)]
    return (
        f"{value} {HIDDEN}" if isinstance(value, str) and PLAIN.fullmatch(value) and " " in value else value
    )


def hide(_: httpx2.Request, good: httpx2.Response) -> httpx2.Response:
    if "json" in good.headers.get("Content-Type", ""):
        return httpx2.Response(good.status_code, headers=good.headers, json=planted(good.json()))
    # XML has no escape, and no other control character either.
    content = (
        re.sub(r"(?<=[a-z] )(?=[a-z]{3,} )", re.sub("[\x00-\x1f]", "", HIDDEN), good.text)
        if "text/" in good.headers.get("Content-Type", "")
        else None
    )
    headers = {name: value for name, value in good.headers.items() if name != "content-length"}
    return good if content is None else httpx2.Response(good.status_code, headers=headers, text=content)


@pytest.mark.parametrize("tool", ANSWERED)
async def test_no_tool_passes_on_what_is_hidden_in_nextclouds_answers(
    tool: str, every: dict[str, dict[str, Any]]
) -> None:
    network, alice = tampered(Sandbox.demo())
    network.change = hide
    ask = partial(call_with, {"documents": Documents(read)}, load(SPECS[tool].toolset), alice, tool)

    try:
        result = answer.result(await ask(**every[tool]))
    except NextcloudMcpError as error:
        result = answer.failure(str(error))

    assert_nothing_hidden(result)


RAW = f"First line\r\nkeep {HIDDEN} this\r\n\r\n\u05e9\u05dc\u05d5\u05dd\u200f! literal <U+202E>\r\n"


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "raw"])
async def test_an_edit_finds_hidden_characters_either_way_and_keeps_them(
    personal_app: PersonalApp, asked: Asked, *, shown: bool
) -> None:
    files = personal_app.sandbox.state.users["alice"].files
    files.put("/a.txt", RAW.encode())
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        seen = await client.call_tool("nc_files_read_file", {"path": "/a.txt"})
        assert seen.structured_content is not None
        whole, etag = seen.structured_content["content"], seen.structured_content["etag"]
        passage = whole.partition("\n")[2].partition("\n")[0].strip() if shown else f"keep {HIDDEN} this"
        edited = await client.call_tool(
            "nc_files_edit_file",
            {"path": "/a.txt", "old_text": passage, "new_text": f"{passage}, and that", "etag": etag},
        )

    assert_nothing_hidden(seen)
    assert not edited.is_error
    assert files.get("/a.txt").read().decode() == RAW.replace("this", "this, and that")


async def test_a_note_that_is_written_back_as_it_was_shown_keeps_each_of_its_characters(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        made = await client.call_tool("nc_notes_create_note", {"title": "x", "content": shown_text(RAW)})
        assert made.structured_content is not None
        note_id = made.structured_content["id"]
        seen = await client.call_tool("nc_notes_get_note", {"note_id": note_id})
        assert seen.structured_content is not None
        back = seen.structured_content["content"]
        changed = {"note_id": note_id, "etag": seen.structured_content["etag"], "content": f"{back}end"}
        written = await client.call_tool("nc_notes_update_note", changed)
        resource = await client.read_resource(f"nc://notes/{note_id}")

    assert_nothing_hidden(seen)
    assert not written.is_error
    assert isinstance(resource.contents[0], TextResourceContents)
    assert resource.contents[0].text == f"{back}end"
    assert personal_app.sandbox.state.users["alice"].files.get("/Notes/x.md").read().decode() == f"{RAW}end"


async def test_a_refusal_shows_what_is_hidden_in_a_name_that_does_not_exist(
    personal_app: PersonalApp,
) -> None:
    async with personal_app.client() as client:
        tool = await client.call_tool("tidy\u3164\u202e", {})
        with pytest.raises(MCPError) as prompt:
            await client.get_prompt("tidy\u3164\u202e")
        with pytest.raises(MCPError) as resource:
            await client.read_resource("nc://nowhere\u3164\u202e")

    assert tool.is_error
    assert tool.content == [TextContent(type="text", text="Unknown tool: tidy<U+3164><U+202E>")]
    assert "'tidy<U+3164><U+202E>'" in prompt.value.error.message
    assert "'nc://nowhere<U+3164><U+202E>'" in resource.value.error.message


#: A link that would open a consent page of an attacker's making, and hidden characters.
HOSTILE = "https://evil.example/apps/oauth2/authorize?client_id=1&response_type=code"


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        ("nc://nowhere\u3164\u202e", "nc://nowhere<U+3164><U+202E>"),
        (f"nc://nowhere {HOSTILE}", f"nc://nowhere {answer.NEUTRALISED}"),
        ("nc://files/no%20such%20file.md", "nc://files/no%20such%20file.md"),
    ],
)
async def test_the_data_of_an_error_is_as_safe_as_its_message_and_keeps_a_correct_uri(
    personal_app: PersonalApp, asked: str, seen: str
) -> None:
    async with personal_app.client() as client:
        with pytest.raises(MCPError) as read_error:
            await client.read_resource(asked)
    async with personal_app.client(mode="legacy") as client:
        with pytest.raises(MCPError) as subscribe_error:
            await client.session.send_request(
                SubscribeRequest(params=SubscribeRequestParams(uri=asked)), EmptyResult
            )

    assert read_error.value.error.data == {"uri": seen}
    assert subscribe_error.value.error.data == {"uri": seen}


async def test_an_unknown_method_is_quoted_as_safely_as_an_unknown_tool(personal_app: PersonalApp) -> None:
    async with personal_app.client(mode="legacy") as client:
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(
                Request(method=f"tidy\u202e {HOSTILE}", params=None), EmptyResult
            )

    assert caught.value.error.data == f"tidy<U+202E> {answer.NEUTRALISED}"
