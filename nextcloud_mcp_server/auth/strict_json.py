"""Parses untrusted JSON, and refuses what two parsers would read differently.

Duplicate keys, NaN, unbounded numbers, halves of a surrogate pair and unbounded nesting are either no JSON (RFC
8259) or parsed differently by different libraries; then the value that was checked would not be the value that
is used.
"""

import json
import math
import re
from typing import Any

#: Deeper than any real request, and far from Python's own limit.
MAX_DEPTH = 64

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class _Ambiguous(ValueError):
    """Raised here, with a message of this module."""


def read(body: bytes) -> Any:  # noqa: ANN401 - JSON can be anything
    """Parse a JSON text.

    Raises:
        ValueError: It is no JSON, or parsers differ on it; the message says what is wrong and repeats
            nothing of the text.
    """
    try:
        value: Any = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError:
        raise ValueError("it is not JSON") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except _Ambiguous:
        raise
    except ValueError:
        # Python refuses integers of thousands of digits, with a message of its own.
        raise ValueError("a number is too large") from None
    # Nesting needs brackets and surrogates need escapes; most bodies have too few for a second pass.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH or _SURROGATE_ESCAPE.search(body):
        _check(value)
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Ambiguous("a key appears twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _Ambiguous("a number is too large")
    return number


def _no_constant(_: str) -> float:
    raise _Ambiguous("NaN and Infinity are not JSON")


def _check(value: object) -> None:
    """Check the whole value, iteratively."""
    level: list[Any] = [value]
    depth = 0
    while level:
        depth += 1
        following: list[Any] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict | list) and depth > MAX_DEPTH:
                raise ValueError("it is nested too deeply")
            elif isinstance(item, dict):
                following += [*item.keys(), *item.values()]
            elif isinstance(item, list):
                following += item
        level = following


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text holds half of a surrogate pair") from None
