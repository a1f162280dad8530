"""Bounds the parameters of a query before any layer parses it.

Parsing makes two texts of each parameter: 12,000 of them take 30 ms, and anyone can send them, to any path, without a
token. No client, identity provider or page of this server sends more than a few.
"""

from collections.abc import Iterator
from itertools import islice
from urllib.parse import unquote_plus

from starlette.types import ASGIApp, Receive, Scope, Send

MOST_PARAMETERS = 64
_CODE = b"&code="
#: A name in which every character is escaped has three times as many.
_LONGEST_NAME = 64


class BoundedQuery:
    """Leaves in a query of more than `MOST_PARAMETERS` nothing but its codes, and no more than so many.

    A callback is not refused for it: its code would stay usable. Without a `state` it fails, and the codes are
    marked as spent.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with a query that is cheap to parse."""
        query: bytes = scope.get("query_string", b"")
        if query.count(b"&") >= MOST_PARAMETERS:
            scope = {**scope, "query_string": b"&".join(islice(_codes(b"&" + query), MOST_PARAMETERS))}
        await self._app(scope, receive, send)


def _codes(query: bytes) -> Iterator[bytes]:
    at = query.find(_CODE)
    while at >= 0:
        yield query[at + 1 :].partition(b"&")[0]
        at = query.find(_CODE, at + 1)


def names_parameter(query: bytes, name: str) -> bool:
    """Tell whether a query has a parameter; reads no value, and no name that is longer than `name` can be."""
    names = (part.partition(b"=")[0] for part in query.split(b"&"))
    return any(
        len(one) <= _LONGEST_NAME and unquote_plus(one.decode("latin-1")) == name for one in names if one
    )
