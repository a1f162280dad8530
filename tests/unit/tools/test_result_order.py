"""What a client needs to go on stands in front of what may be long: clients cut off the end of a long answer."""

import json
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from mcp_types import TextContent

from nextcloud_mcp_server import tools
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.result import Document, LongText, Result
from tests.dav_fakes import call
from tests.every_tool import tampered

#: What a following call needs, or says how much there is.
_TO_GO_ON = (
    "etag",
    "next_offset",
    "cursor",
    "total",
    "truncated",
    "upload_id",
    "offset",
    "remaining",
    "note",
)


def models(of: type[Result] = Result) -> Iterator[type[Result]]:
    for module in pkgutil.iter_modules(tools.__path__):
        import_module(f"{tools.__name__}.{module.name}")
    for model in of.__subclasses__():
        yield model
        yield from models(model)


def may_be_long(schema: dict[str, Any], name: str) -> bool:
    """Tell from its JSON schema whether a member is a list, an object or the body of a document."""
    kinds = [schema, *schema.get("anyOf", ())]
    return name == "content" or any("$ref" in one or one.get("type") in ("array", "object") for one in kinds)


MODELS = list(dict.fromkeys(models()))


def test_no_result_has_what_is_needed_to_go_on_behind_what_may_be_long() -> None:
    assert len(MODELS) > 80
    for model in MODELS:
        members = model.model_json_schema(mode="serialization")["properties"]
        long = [number for number, (name, one) in enumerate(members.items()) if may_be_long(one, name)]
        # A contact's note is a text of the user, and is declared so.
        needed = [name for name in _TO_GO_ON if name in members and model.__name__ != "ContactInfo"]

        assert all(list(members).index(name) < min(long, default=999) for name in needed), model


def test_members_go_out_short_first_and_long_last_however_they_are_declared() -> None:
    class Part(Result):
        rows: list[int]

    class Whole(Document):
        texts: dict[str, str]
        body: LongText | None = None
        part: Part
        etag: str
        next_offset: int | None = None

    whole = Whole(content="c", texts={"a": "b"}, body="d", part=Part(rows=[1]), etag="e", next_offset=5)

    expected = ["etag", "next_offset", "texts", "part", "content", "body"]
    assert list(whole.model_dump()) == expected
    assert list(json.loads(whole.model_dump_json())) == expected
    assert list(Whole.model_json_schema(mode="serialization")["properties"]) == expected


def test_remarks_about_an_answer_stand_in_front_of_it() -> None:
    class Rows(Result):
        rows: list[int]

    shaped = answer.result(Rows(rows=[1]), remarks=["Two rows are left out."])

    assert list(shaped.structured_content or {}) == ["remarks", "rows"]
    assert isinstance(shaped.content[0], TextContent)
    assert shaped.content[0].text.startswith('{"remarks":')


@pytest.fixture
def alice() -> Account:
    return tampered(Sandbox.demo())[1]


async def test_a_page_that_is_cut_in_its_text_still_says_how_to_go_on(alice: Account) -> None:
    await call(alice, "nc_files_write_file", path="/long.md", content="word " * 4_000)

    shaped = answer.result(await call(alice, "nc_files_read_file", path="/long.md", limit=10_000))

    structured, block = json.dumps(shaped.structured_content), shaped.content[0]
    assert isinstance(block, TextContent)
    for text in (structured, block.text):
        assert '"etag"' in text[:600]
        assert '"next_offset"' in text[:600]


async def test_a_list_that_is_cut_still_has_its_cursor(alice: Account) -> None:
    shaped = answer.result(await call(alice, "nc_files_list_folder", limit=1))

    assert list(shaped.structured_content or {}) == ["path", "total", "cursor", "items"]
