"""Session ids that hold the client's `initialize`, sealed: every replica can take such a session up again.

An id gives no access. It can be opened only together with the user and the client that began the session, whose
access token each request brings. MCP lets a server choose the form of its ids (2025-11-25, basic/transports,
session management: such as a JWT).
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from mcp_types import InitializeRequestParams
from pydantic import ValidationError

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, Seal, Sealed
from nextcloud_mcp_server.storage.records import SESSION_LIFETIME, Principal

#: An id comes with each request, and some proxies take no header beyond 4 kB.
MOST_CHARACTERS: Final = 2_000

#: Of a client's description only what is shown and logged, cut to a length.
_KEPT_OF_CLIENT: Final = {"name": 100, "title": 100, "version": 40}

_PURPOSE, _COLUMN = "mcp_session", "id"


@dataclass(frozen=True, slots=True)
class Owner:
    """The user and the client of a session; in single-user mode there is one, and all are empty."""

    principal: Principal
    client_id: str


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a session began: the parameters of `initialize`, and when."""

    params: Mapping[str, Any]
    begun_at: datetime


class SessionIds:
    """Seals and opens the ids; `keys` are read at the first use."""

    def __init__(self, keys: Callable[[], Sequence[bytes]], *, clock: Callable[[], datetime]) -> None:
        self._keys = keys
        self._clock = clock

    def new(self, owner: Owner, params: object) -> str | None:
        """Return an id for the session that begins with these parameters; None if they are wrong or too long."""
        try:
            checked = InitializeRequestParams.model_validate(params, by_name=False)
        except ValidationError:
            return None
        kept = checked.model_dump(
            by_alias=True,
            mode="json",
            exclude_none=True,
            include={"protocol_version", "capabilities", "client_info"},
        )
        described = kept["clientInfo"]
        kept["clientInfo"] = {
            name: described[name][:most] for name, most in _KEPT_OF_CLIENT.items() if name in described
        }
        text = json.dumps([int(self._clock().timestamp()), kept], separators=(",", ":"))
        session_id = base64.urlsafe_b64encode(self._at(owner).seal(_COLUMN, text).value).decode().rstrip("=")
        return session_id if len(session_id) <= MOST_CHARACTERS else None

    def open(self, session_id: str, owner: Owner) -> Beginning | None:
        """Return how a session of this owner began; None if the id is not one of theirs, or too old."""
        if len(session_id) > MOST_CHARACTERS:
            return None
        try:
            value = base64.b64decode(session_id + "=" * (-len(session_id) % 4), altchars=b"-_", validate=True)
            # Base64 has several forms of one value, and an ended session is known by its one id.
            if base64.urlsafe_b64encode(value).decode().rstrip("=") != session_id:
                return None
            seconds, params = json.loads(self._at(owner).open(_COLUMN, Sealed(value)))
        except (ValueError, Unsealable):
            # Of another server or user, made up, or sealed with a key that is gone.
            return None
        begun_at = datetime.fromtimestamp(seconds, UTC)
        return Beginning(params, begun_at) if self._clock() < begun_at + SESSION_LIFETIME else None

    def _at(self, owner: Owner) -> Seal:
        return self._ring.at(_PURPOSE, owner.principal, owner.client_id)

    @cached_property
    def _ring(self) -> KeyRing:
        return KeyRing(self._keys())
