import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.commands.client_config.jsonc import NotJson, put, read

ENTRY: dict[str, object] = {"command": "/bin/server", "args": ["serve"]}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=5) | st.sampled_from(["servers", "a"]), values, max_size=4)


def spaced(text: str) -> str:
    """Put comments and line ends between the parts of a JSON text, outside of its strings."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    gap = '/* , } */ // { \n\t/* " */'
    return "".join(
        part if number % 2 else re.sub(r"([{}\[\],:])", rf"{gap}\1{gap}", part)
        for number, part in enumerate(parts)
    )


@settings(max_examples=60)
@given(value=values, indent=st.sampled_from([None, 2, "\t"]))
def test_json_is_read_as_the_standard_library_reads_it_also_with_comments(
    value: object, indent: int | str | None
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)

    assert read(text).data == json.loads(text)
    assert read(spaced(text)).data == json.loads(text)


@settings(max_examples=60)
@given(
    before=objects,
    servers=st.none() | objects,
    indent=st.sampled_from([None, 2, 4, "\t"]),
    commented=st.booleans(),
)
def test_an_entry_is_set_and_nothing_else_changes(
    before: dict[str, Any], servers: dict[str, Any] | None, indent: int | str | None, *, commented: bool
) -> None:
    data = {key: value for key, value in before.items() if key != "servers"}
    data |= {} if servers is None else {"servers": servers}
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    text = spaced(text) if commented else text

    new = put(text, "servers", "nextcloud", ENTRY)

    assert read(new).data == {**data, "servers": {**(servers or {}), "nextcloud": ENTRY}}
    assert put(new, "servers", "nextcloud", ENTRY) == new
    if not commented:
        assert json.loads(new) == read(new).data
    # Whatever was there is there still, in its order.
    if "nextcloud" not in (servers or {}):
        left = iter(new)
        assert all(character in left for character in text)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"a": }',
        '{"a" 1}',
        "{a: 1}",
        "{'a': 1}",
        '{"a": 1,, "b": 2}',
        '{"a": 1 "b": 2}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": tru}',
        '{"a": +1}',
        "[1 2]",
        "{} {}",
        "/* open",
        '{"a": 1} /',
        '{"a": "open}',
        "{,}",
        "[" * 101 + "]" * 101,
    ],
)
def test_what_is_no_json_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(NotJson, match="line 1 is not JSON"):
        read(text)


def test_the_line_that_is_wrong_is_named() -> None:
    with pytest.raises(NotJson, match="line 3 is not JSON"):
        read('{\n  // a comment\n  "a": oops\n}')


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "the file is not an object"),
        ('"text"', "the file is not an object"),
        ('{"servers": []}', '"servers" is not an object'),
        ('{"servers": null}', '"servers" is not an object'),
        ('{"servers": {}, "servers": {}}', 'the file names "servers" twice'),
        ('{"servers": {"nextcloud": 1, "nextcloud": 2}}', '"servers" names "nextcloud" twice'),
    ],
)
def test_what_has_no_place_for_an_entry_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        put(text, "servers", "nextcloud", ENTRY)


SHORT = {"url": "x"}


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("", '{\n  "servers": {\n    "nextcloud": {\n      "url": "x"\n    }\n  }\n}\n'),
        (
            '// mine\n{\n\t"a": 1 // one\n}\n',
            '// mine\n{\n\t"a": 1, // one\n\t"servers": {\n\t\t"nextcloud": {\n\t\t\t"url": "x"\n\t\t}\n\t}\n}\n',
        ),
        (
            '{\n  "servers": {\n    // none yet\n  },\n}',
            '{\n  "servers": {\n    // none yet\n    "nextcloud": {\n      "url": "x"\n    }\n  },\n}',
        ),
        (
            '{\n  "servers": {\n    "b": 1, /* last */\n  }\n}',
            '{\n  "servers": {\n    "b": 1, /* last */\n    "nextcloud": {\n      "url": "x"\n    },\n  }\n}',
        ),
        (
            '{\n  "servers": {\n    "b": 1 }\n}',
            '{\n  "servers": {\n    "b": 1, \n    "nextcloud": {\n      "url": "x"\n    }\n  }\n}',
        ),
        ('{"servers": {"b": 1}}', '{"servers": {"b": 1, "nextcloud": {"url": "x"}}}'),
        ('{"servers": {"b": 1,}}', '{"servers": {"b": 1, "nextcloud": {"url": "x"},}}'),
        (
            '{\n    "servers": {\n        "nextcloud": {"old": 1}, // ours\n        "b": 1\n    }\n}',
            (
                '{\n    "servers": {\n        "nextcloud": {\n            "url": "x"\n        }, // ours\n'
                '        "b": 1\n    }\n}'
            ),
        ),
    ],
)
def test_an_entry_looks_as_if_it_had_been_written_there_by_hand(text: str, new: str) -> None:
    assert put(text, "servers", "nextcloud", SHORT) == new
