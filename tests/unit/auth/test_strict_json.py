import pytest

from nextcloud_mcp_server.auth import strict_json


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"null", None),
        (b'{"a": [1, 2.5, "\xc3\xa4"]}', {"a": [1, 2.5, "ä"]}),
        (b'"\\ud83d\\ude00"', "😀"),
        (b"[" * strict_json.MAX_DEPTH + b"]" * strict_json.MAX_DEPTH, None),
        (b"[" + b"[]," * 500 + b"1]", None),
    ],
)
def test_plain_json_is_read(body: bytes, value: object) -> None:
    found = strict_json.read(body)

    assert value is None or found == value


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "NaN"),
        (b"1e999", "too large"),
        (b"9" * 10_000, "number is too large"),
        (b'{"a": 1, "a": 1}', "twice"),
        (b'{"a": {"b": 1, "\\u0062": 2}}', "twice"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'[{"a": ["\\uDC00x"]}]', "surrogate"),
        (b"[" * 65 + b"]" * 65, "deeply"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "deeply"),
        (b"[" * 100_000 + b"]" * 100_000, "deeply"),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        strict_json.read(body)
