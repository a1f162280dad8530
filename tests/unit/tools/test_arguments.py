import json
from importlib.resources import files
from typing import Annotated, Literal, cast

import pytest
from pydantic import Field

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.tools import arguments
from nextcloud_mcp_server.tools.arguments import Arguments
from nextcloud_mcp_server.tools.result import Result


async def body(
    nc: object,
    note_id: int,
    *,
    title: str | None = None,
    kinds: list[Literal["a", "b"]] | None = None,
    size: Annotated[int, Field(ge=1, le=10, description="How many.")] = 5,
    either: int | str | None = None,
    deep: bool = False,
) -> Result:
    raise NotImplementedError


async def nothing(nc: object) -> Result:
    raise NotImplementedError


def test_the_schema_holds_no_titles_no_nulls_and_no_room_for_unknown_arguments() -> None:
    schema = Arguments(body).schema

    assert schema == {
        "type": "object",
        "properties": {
            "note_id": {"type": "integer"},
            "title": {"type": "string"},
            "kinds": {"type": "array", "items": {"enum": ["a", "b"], "type": "string"}},
            "size": {
                "type": "integer",
                "default": 5,
                "minimum": 1,
                "maximum": 10,
                "description": "How many.",
            },
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "deep": {"type": "boolean", "default": False},
        },
        "additionalProperties": False,
        "required": ["note_id"],
    }


def test_good_arguments_pass_and_the_others_get_their_defaults() -> None:
    checked = Arguments(body).validate({"note_id": 7, "kinds": ["b"]})

    assert checked == {"note_id": 7, "title": None, "kinds": ["b"], "size": 5, "either": None, "deep": False}


def test_an_integral_number_is_an_integer_as_json_has_it() -> None:
    checked = Arguments(body).validate({"note_id": 7.0})

    assert checked["note_id"] == 7
    assert type(checked["note_id"]) is int


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "'note_id' is required"),
        ({"note_id": "7"}, "'note_id' must be an integer"),
        ({"note_id": 7.5}, "'note_id' must be an integer"),
        ({"note_id": True}, "'note_id' must be an integer"),
        ({"note_id": None}, "'note_id' must be an integer"),
        ({"note_id": 7, "title": 7}, "'title' must be text"),
        ({"note_id": 7, "either": {}}, "'either' must be an integer; 'either' must be text. This"),
        (
            {"note_id": 7, "kinds": ["c", "c", "c", "c", "c"]},
            "'kinds.0' should be 'a' or 'b'; 'kinds.1' ",
        ),
        ({"note_id": 7, "deep": "yes"}, "'deep' must be true or false"),
        ({"note_id": 7, "kinds": "a"}, "'kinds' must be a list"),
        ({"note_id": 7, "kinds": ["c"]}, "'kinds.0' should be 'a' or 'b'"),
        ({"note_id": 7, "size": 11}, "'size' should be less than or equal to 10"),
        ({"note_id": 7, "nope": 1}, "'nope' is not an argument of this tool"),
        ({"note_id": 7, "nope": 1.0}, "'nope' is not an argument of this tool"),
        ({"note_id": 7, "title": "a\0b"}, "'title' holds a NUL character; send it without."),
        ({"note_id": 7, "kinds": ["a\0"]}, "'kinds' holds a NUL character; send it without."),
        ({"note_id": 7, "deep": float("nan")}, "'deep' must be a finite number."),
        ({"note_id": 7, "title": "\ud800"}, "'title' holds broken Unicode; send it again as proper text."),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Arguments(body).validate(given)

    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


def test_the_refusal_lists_what_the_tool_takes() -> None:
    with pytest.raises(InvalidInput) as refused:
        Arguments(body).validate({"nope": 1})

    assert str(refused.value).endswith(
        "This tool takes: note_id (an integer, required), title (text), kinds (a list), size (an integer), "
        "either (an integer or text), deep (true or false)."
    )


def test_a_tool_without_arguments_says_so() -> None:
    with pytest.raises(InvalidInput) as refused:
        Arguments(nothing).validate({"nope": 1})

    assert str(refused.value) == "'nope' is not an argument of this tool. This tool takes: no arguments."


def test_the_value_that_was_refused_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as refused:
        Arguments(body).validate({"note_id": "a-secret-by-mistake"})

    assert "a-secret-by-mistake" not in str(refused.value)


@pytest.mark.parametrize(
    "given", [{"title": "a" * 16_385}, {"kinds": ["a" * 16_385]}, {"either": "1" * 16_385}]
)
def test_a_name_or_question_without_end_is_refused_before_anything_looks_through_it(
    given: dict[str, object],
) -> None:
    [name] = given

    with pytest.raises(InvalidInput, match=f"'{name}' cannot be longer than 16,384 characters"):
        Arguments(body).validate({"note_id": 1, **given})


async def writing(nc: object, content: str, row: dict[str, str]) -> Result:
    raise NotImplementedError


async def describing(nc: object, description: str) -> Result:
    raise NotImplementedError


def test_a_description_has_several_pages_and_no_more() -> None:
    given = {"description": "a\n" * 131_072}

    assert Arguments(describing).validate(given) == given
    with pytest.raises(InvalidInput, match="'description' cannot be longer than 262,144 characters"):
        Arguments(describing).validate({"description": given["description"] + "a"})


def test_a_text_that_is_to_be_stored_may_have_any_length() -> None:
    given = {"content": "a" * 1_000_000, "row": {"Notes": "b" * 1_000_000}}

    assert Arguments(writing).validate(given) == given


def test_each_name_of_a_stored_text_is_an_argument_of_a_tool() -> None:
    schemas = json.loads((files("nextcloud_mcp_server.tools") / "schemas.json").read_text("utf-8"))

    found = {name for schema in schemas.values() for name in named(schema)}

    assert found >= arguments.CONTENT | arguments.PAGES


def named(schema: object) -> set[str]:
    """List the arguments in a printed schema, however deep it lies in what is printed."""
    if isinstance(schema, list):
        return {name for one in cast("list[object]", schema) for name in named(one)}
    if not isinstance(schema, dict):
        return set()
    fields = cast("dict[str, object]", schema)
    own = fields.get("properties")
    inside = {name for one in fields.values() for name in named(one)}
    return inside | set(cast("dict[str, object]", own)) if isinstance(own, dict) else inside
