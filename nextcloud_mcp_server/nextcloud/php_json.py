"""Reads JSON as PHP writes it: an empty map as a list, and a list with gaps as a map."""

from typing import Any, Final, cast

from pydantic import BeforeValidator


def as_map(value: object) -> dict[str, Any]:
    """Return a map, or an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> object:
    """Return the values of a map, an empty list for an empty value, and anything else as it is."""
    return list(as_map(value).values()) or value or []


MAP: Final = BeforeValidator(as_map)
LIST: Final = BeforeValidator(as_list)
