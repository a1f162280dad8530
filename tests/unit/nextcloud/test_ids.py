import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from nextcloud_mcp_server.nextcloud.ids import Id, TextId, number

IDS = TypeAdapter(Id, config=ConfigDict(strict=True))


class Thing(BaseModel):
    id: Id


@settings(max_examples=200)
@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_every_id_of_64_bits_is_the_same_text_as_a_number_and_as_text(value: int) -> None:
    written = Thing.model_validate_json(f'{{"id": {value}}}').model_dump_json()

    assert written == f'{{"id":"{value}"}}'
    assert Thing.model_validate_json(written).id == str(value)
    assert number(str(value)) == value


@pytest.mark.parametrize(
    ("given_id", "read"),
    [
        (7, "7"),
        ("7", "7"),
        (7.0, "7"),
        ("007", "7"),
        (" 7\n", "7"),
        (0, "0"),
        ("000", "0"),
        (2**53 + 1, "9007199254740993"),
    ],
)
def test_an_id_has_one_spelling(given_id: object, read: str) -> None:
    assert IDS.validate_python(given_id) == read


@pytest.mark.parametrize(
    "given_id",
    [
        7.5, True, False, None, "", "7/../8", "7/", "..", "-1", -1, "\u0667", "7\x00", "7?x", "1e3", 2.0**60,
        float("inf"), [7], 10**20, pytest.param(10**5000, id="very long"),
    ],
)  # fmt: skip
def test_what_is_no_id_is_refused(given_id: object) -> None:
    with pytest.raises(ValidationError, match="must be an id as the tools answer it: digits, such as"):
        IDS.validate_python(given_id)


def test_an_id_that_is_more_than_digits_is_taken_as_it_is() -> None:
    ids = TypeAdapter(TextId, config=ConfigDict(strict=True))

    assert [ids.validate_python(one) for one in ("work/007.ics", 7, " x")] == ["work/007.ics", "7", " x"]
    with pytest.raises(ValidationError):
        ids.validate_python(True)
