import pytest

from nextcloud_mcp_server.formats import untrusted


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("-3", -3), ("007", 7), (str(2**64), 2**64),
        ("", None), ("-", None), ("1" * 21, None), ("9" * 5_000, None), ("²", None), ("٣", None), ("1_0", None),
        (" 1", None), ("1.0", None), ("1e3", None), ("1\n", None),
    ],
)  # fmt: skip
def test_only_a_few_decimal_digits_are_an_integer(text: str, number: int | None) -> None:
    assert untrusted.integer(text) == number


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"a":' * 100_000, "9" * 5_000, b"\xff", '{"a": ' + "9" * 5_000 + "}"]
)
def test_what_python_cannot_parse_is_a_value_error_alone(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        untrusted.read_json(text)


def test_json_is_parsed() -> None:
    assert untrusted.read_json(b'{"a": [1, null, "\\u00e9"]}') == {"a": [1, None, "é"]}
