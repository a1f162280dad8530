"""Tells whether values hold much text, before anything is made of it."""

from collections.abc import Collection, Mapping
from typing import cast

from pydantic import BaseModel


def is_longer(value: object, most: int) -> bool:
    """Tell whether a value, with all values in it, surely takes more than `most` characters in JSON.

    It stops counting there, so it takes little time for any value. None takes nothing, as in a response.
    """
    waiting = [value]
    while waiting and most >= 0:
        each = waiting.pop()
        if each is None:
            continue
        most -= len(each) if isinstance(each, (str, bytes)) else 1
        if isinstance(each, BaseModel):
            fields = type(each).__pydantic_fields__
            waiting += [
                inner for name, inner in each.__dict__.items() if name in fields and not fields[name].exclude
            ]
        elif isinstance(each, Mapping):
            members = cast("Mapping[object, object]", each)
            if len(members) > most:
                return True
            waiting += (*members.keys(), *members.values())
        elif isinstance(each, (list, tuple, set, frozenset)):
            items = cast("Collection[object]", each)
            if len(items) > most:
                return True
            waiting += items
    return most < 0
