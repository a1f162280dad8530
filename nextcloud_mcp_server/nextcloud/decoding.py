"""Parses JSON responses: a large one in a thread, so that other requests are served meanwhile."""

from collections.abc import Callable
from functools import partial
from sys import getsizeof
from typing import Any, Final, TypeVar, cast

import httpx2
from pydantic import BaseModel, TypeAdapter, ValidationError

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import json_pieces, untrusted
from nextcloud_mcp_server.nextcloud import error_mapping, pace
from nextcloud_mcp_server.nextcloud.aside import SHORT, aside

_T = TypeVar("_T")
#: Elements of a JSON response: each becomes objects of hundreds of bytes. A list of 50,000 notes has 500,000.
MAX_ELEMENTS = 600_000
#: A long response is parsed in pieces of so many bytes, each in about a millisecond.
_PIECE_BYTES: Final = 32_768
#: The memory of one parsed list, as `_memory` estimates it: 40,000 conversations with short names take less.
_MOST_MEMORY: Final = 67_108_864
_MODEL_BYTES: Final = 1_200


def decoded(response: httpx2.Response, kind: TypeAdapter[_T]) -> _T:
    """Parse a JSON response into a model.

    Raises:
      ServerFault: It does not fit the model.
      TooLarge: It has too many elements.
    """
    return _checked(response.content, kind.validate_json)


async def decoded_aside(response: httpx2.Response, kind: TypeAdapter[_T], *, uid: str) -> _T:
    """Parse a response as `decoded` does; a large one `aside` and in pieces, one at a time for each user `uid`.

    Raises:
      ServerFault: It does not fit the model.
      TooLarge: It has too many elements.
    """
    size = len(response.content)
    if size < SHORT:
        return decoded(response, kind)
    work = partial(_checked, response.content, partial(_in_pieces, kind))
    return await aside(work, uid=uid, is_parsing=True)


def _checked(content: bytes, parse: Callable[[bytes], _T]) -> _T:
    if untrusted.has_more_elements(content, MAX_ELEMENTS):
        raise _too_many_parts()
    try:
        return parse(content)
    except ValidationError:
        # The text of the error would quote the response, which may contain anything.
        raise errors.ServerFault(
            f"Nextcloud answered something unreadable here. {error_mapping.IN_DOUBT} If it stays, the administrator "
            "should check Nextcloud's log."
        ) from None


def _too_many_parts() -> errors.TooLarge:
    return errors.TooLarge("Nextcloud's answer has more parts than this server reads at once. Ask for less.")


def _in_pieces(kind: TypeAdapter[_T], content: bytes) -> _T:
    """Parse a list in pieces, between which other requests have their turn; parse anything else at once.

    Raises:
      TooLarge: The list takes too much memory.
    """
    whole, items, memory = None, list[Any](), 0
    try:
        for piece in json_pieces.pieces(content, _PIECE_BYTES):
            parsed = kind.validate_json(piece)
            if (found := _items_of(parsed)) is None:
                return kind.validate_json(content)
            if whole is None:
                whole, items = parsed, found
            else:
                items += found
            memory += _memory(found)
            if memory > _MOST_MEMORY:
                raise _too_many_parts()
            pace.give_way_in_thread()
    except ValidationError:
        # Nor would the whole fit, and what was made of it takes as much memory again.
        raise
    except ValueError:
        whole = None
    if whole is not None:
        return whole
    items.clear()
    return kind.validate_json(content)


def _items_of(parsed: object) -> list[Any] | None:
    """Return the list in a parsed response, which may be in the envelope of OCS; None without one."""
    data = getattr(getattr(parsed, "ocs", None), "data", parsed)
    return cast("list[Any]", data) if isinstance(data, list) else None


def _memory(value: object) -> int:
    """Estimate the bytes of memory of a parsed value; a text with one emoji takes four for each letter."""
    if isinstance(value, str):
        return getsizeof(value)
    if isinstance(value, BaseModel):
        return _MODEL_BYTES + sum(map(_memory, value.__dict__.values()))
    if isinstance(value, (list, dict)):
        inner = cast("dict[str, object] | list[object]", value)
        return getsizeof(inner) + sum(map(_memory, inner.values() if isinstance(inner, dict) else inner))
    return 0
