"""Finds the method that answers a request to an app."""

import re
from collections.abc import Iterable
from typing import Generic, TypeVar

from starlette.requests import Request

Handler = TypeVar("Handler")


class Handlers(Generic[Handler]):
    """A table of (HTTP method, pattern of the path, handler); the first that fits answers."""

    def __init__(self, entries: Iterable[tuple[str, str, Handler]]) -> None:
        self._entries = [(method, re.compile(pattern), handler) for method, pattern, handler in entries]

    def find(self, request: Request) -> tuple[Handler, re.Match[str]] | None:
        """Find the handler, and what its pattern found in the path."""
        path = request.path_params["path"]
        matches = (
            (handler, match)
            for method, pattern, handler in self._entries
            if method == request.method and (match := pattern.fullmatch(path)) is not None
        )
        return next(matches, None)
