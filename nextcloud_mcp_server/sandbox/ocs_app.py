"""One request to an app behind the OCS endpoints, with its parsed fields."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.state import User


@dataclass(frozen=True, slots=True)
class OcsCall:
    """One request of a user; `path` is below the app's own path."""

    request: Request
    context: Context
    user: User
    path: str
    fields: Mapping[str, object]

    def text(self, name: str) -> str | None:
        """Return a field as text; None when it was not sent."""
        value = self.fields.get(name)
        return None if value is None else str(value)

    def number(self, name: str, default: int = 0) -> int:
        """Return a field as a number."""
        text = self.text(name)
        return int(text) if text and text.lstrip("-").isdigit() else default


OcsApp = Callable[[OcsCall], Response]


async def read_fields(request: Request) -> Mapping[str, object]:
    """Read the fields of the query and of the body, which may be a form or JSON."""
    body = await request.body()
    fields: dict[str, object] = dict(request.query_params)
    if request.headers.get("Content-Type", "").startswith("application/json"):
        return fields | cast("dict[str, object]", json.loads(body or b"{}"))
    return fields | dict(parse_qsl(body.decode(), keep_blank_values=True))
