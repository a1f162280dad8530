"""What is refused before a call asks for access: a link that was not shown must not be written back as words."""

from collections.abc import Iterator
from typing import Any, NoReturn, cast

import pytest
from mcp_types import TextContent

from nextcloud_mcp_server.errors import StorageUnavailable
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.server.mcp_server import State
from nextcloud_mcp_server.tools.answer import NEUTRALISED
from nextcloud_mcp_server.tools.boundary import GuardedTool
from tests.every_tool import SPECS, tampered, usual

PASSED = "Something went wrong inside the server"


class Nothing:
    """Stands for the server's state where a call must not come so far: nothing of it can be used."""

    output_schemas = False


class Away:
    """Stands for the context of a call, of which nothing can be known: the database is away."""

    @property
    def request_context(self) -> NoReturn:
        raise StorageUnavailable("PostgreSQL cannot be used.")


async def answer_of(name: str, arguments: dict[str, Any], context: Away | None = None) -> str:
    tool = GuardedTool.build(SPECS[name], cast("State", Nothing()))
    result = await tool.run(arguments, cast("Any", context))
    (content,) = cast("Any", result).content
    assert isinstance(content, TextContent)
    return content.text


def spoiled(value: object) -> Iterator[object]:
    """Put the mark into each text of an argument, one at a time, however deep it lies."""
    match value:
        case str():
            yield f"{value} {NEUTRALISED}"
        case list():
            for place, item in enumerate(cast("list[object]", value)):
                for other in spoiled(item):
                    yield [*value[:place], other, *value[place + 1 :]]
        case dict():
            for key, item in cast("dict[str, object]", value).items():
                for other in spoiled(item):
                    yield {**value, key: other}
        case _:
            return


async def test_no_writing_tool_takes_a_text_in_which_a_link_was_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("CRITICAL")
    _, account = tampered(Sandbox.demo())
    arguments = await usual(account)
    writing = {name: given for name, given in arguments.items() if not SPECS[name].read_only}

    answers = {
        (name, argument): await answer_of(name, {**given, argument: other})
        for name, given in writing.items()
        for argument, value in given.items()
        for other in spoiled(value)
    }

    assert [place for place, text in answers.items() if PASSED in text] == []
    refused = {name for (name, _), text in answers.items() if "would lose the link" in text}
    # The others take no free text: their arguments are ids, dates and the like, which are refused for their form.
    assert {"nc_notes_create_note", "nc_calendar_create_event"} <= refused


async def test_the_whole_text_is_refused_wherever_the_mark_stands_in_it() -> None:
    for text in (NEUTRALISED, f"a{NEUTRALISED}", f"{NEUTRALISED}\nb"):
        answer = await answer_of("nc_notes_create_note", {"title": "x", "content": text})

        assert NEUTRALISED in answer
        assert "would lose the link" in answer


async def test_a_reading_tool_may_be_asked_for_the_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")

    answer = await answer_of("nc_notes_search_notes", {"query": NEUTRALISED})

    # It came as far as the state, of which there is none here.
    assert PASSED in answer


async def test_a_call_while_the_database_is_away_says_when_to_call_again() -> None:
    answer = await answer_of("nc_notes_search_notes", {"query": "words"}, Away())

    assert answer == "PostgreSQL cannot be used. Call again in a minute."
