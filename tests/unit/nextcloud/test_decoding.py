import json
from threading import get_ident
from typing import Annotated, Any

import httpx2
import pytest
from pydantic import AfterValidator, BaseModel, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import pace
from nextcloud_mcp_server.nextcloud.decoding import decoded, decoded_aside
from nextcloud_mcp_server.nextcloud.ocs import Envelope
from nextcloud_mcp_server.nextcloud.php_json import LIST


class Row(BaseModel):
    """An item of a list; other fields are not read."""

    id: int
    title: str = ""


ROWS = TypeAdapter(list[Row])
IN_ENVELOPE = TypeAdapter(Envelope[list[Row]])
META = {"status": "ok", "statuscode": 200}
#: Much longer than what is parsed at once.
MANY: list[dict[str, Any]] = [
    {"id": number, "title": f"“{number}” 😀", "more": [{}, None, 0.5]} for number in range(20_000)
]


def answered(value: object) -> httpx2.Response:
    return httpx2.Response(200, content=json.dumps(value, ensure_ascii=False).encode())


@pytest.mark.parametrize(("length", "is_here"), [(10, True), (200_000, False)])
async def test_only_a_large_response_is_parsed_in_a_thread(length: int, *, is_here: bool) -> None:
    threads = list[int]()

    def noted(value: str) -> str:
        threads.append(get_ident())
        return value

    kind = TypeAdapter(Annotated[str, AfterValidator(noted)])

    assert await decoded_aside(answered("x" * length), kind, uid="alice") == "x" * length
    assert [each == get_ident() for each in threads] == [is_here]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ROWS, MANY),
        (IN_ENVELOPE, {"ocs": {"meta": META, "data": MANY}}),
        # What is no list is parsed at once.
        (TypeAdapter(dict[str, list[Row]]), {"items": MANY}),
        (IN_ENVELOPE, {"ocs": {"data": MANY, "meta": META}}),
        (TypeAdapter(Envelope[dict[str, list[Row]]]), {"ocs": {"meta": META, "data": {"items": MANY}}}),
        (TypeAdapter(Annotated[list[Row], LIST]), {str(number): row for number, row in enumerate(MANY)}),
    ],
)
async def test_a_long_response_becomes_the_same_as_parsed_at_once(
    kind: TypeAdapter[Any], value: object
) -> None:
    response = answered(value)

    assert await decoded_aside(response, kind, uid="alice") == decoded(response, kind)


async def test_others_have_their_turn_many_times_while_a_long_list_is_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = list[int]()
    monkeypatch.setattr(pace, "give_way_in_thread", lambda: turns.append(get_ident()))

    await decoded_aside(answered(MANY), ROWS, uid="alice")

    assert len(turns) > 20
    assert get_ident() not in turns


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([*MANY, {"id": "none"}]).encode(),
        json.dumps(MANY).encode()[:-1],
        json.dumps(MANY).encode() + b"]",
        json.dumps(MANY).encode().replace(b'"id": 19999', b'"id": "\xff"'),
        b"[" * 150_000,
    ],
)
async def test_a_long_response_that_does_not_fit_is_a_fault_of_the_server(content: bytes) -> None:
    with pytest.raises(errors.ServerFault, match="unreadable"):
        await decoded_aside(httpx2.Response(200, content=content), ROWS, uid="alice")


@pytest.mark.parametrize(
    ("letter", "fits"), [("n", True), ("😀" + "n", False)], ids=["short letters", "letters of four bytes"]
)
async def test_a_list_that_takes_too_much_memory_is_refused_while_it_is_parsed(
    letter: str, *, fits: bool
) -> None:
    """40,000 names of 244 letters took 120 MB, since one emoji makes each letter of a name four bytes long."""
    rows = [{"id": number, "title": letter + "n" * 240} for number in range(40_000)]
    response = answered({"ocs": {"meta": META, "data": rows}})

    if fits:
        assert len((await decoded_aside(response, IN_ENVELOPE, uid="alice")).ocs.data) == 40_000
    else:
        with pytest.raises(errors.TooLarge, match="Ask for less"):
            await decoded_aside(response, IN_ENVELOPE, uid="alice")


async def test_what_lies_within_items_counts_as_memory_too() -> None:
    class Stack(BaseModel):
        cards: dict[str, list[Row]]

    rows = [{"id": number} for number in range(30_000)]
    response = answered([{"cards": {"a": rows, "b": rows}}])

    with pytest.raises(errors.TooLarge, match="Ask for less"):
        await decoded_aside(response, TypeAdapter(list[Stack]), uid="alice")
