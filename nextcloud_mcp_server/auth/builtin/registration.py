"""Dynamic client registration (RFC 7591): anyone may register a client, which by itself opens nothing.

Each registration creates a client with an id of its own, even for the same metadata: a grant for one program
must not apply to another that copies its name. Hosted chat clients register anew with every connection, so
storage is bounded: by limits per hour here, and by `Clients.purge`, which deletes clients that were never used.
"""

import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

import anyio

from nextcloud_mcp_server.auth.builtin import client_fields
from nextcloud_mcp_server.auth.builtin.client_fields import ClientRules, Described, Fields
from nextcloud_mcp_server.auth.builtin.clients import ClientRecords, secret_hash
from nextcloud_mcp_server.auth.rate_limiter import RateLimiter, network_of
from nextcloud_mcp_server.errors import OAuthRefusal
from nextcloud_mcp_server.storage.oauth_records import REGISTERED, AuthMethod, Client

#: New clients per hour. A chat service registers one for each connection, all from few addresses.
MOST_PER_ADDRESS = 200
MOST_IN_ALL = 1_000
_HOUR_SECONDS = 3600.0

_EVERYBODY = "*"


class Registration:
    """Handles `/register`."""

    def __init__(
        self,
        records: ClientRecords,
        rules: ClientRules,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._records = records
        self._rules = rules
        self._clock = clock
        self._per_address = RateLimiter(MOST_PER_ADDRESS, seconds=_HOUR_SECONDS, monotonic=monotonic)
        self._in_all = RateLimiter(MOST_IN_ALL, seconds=_HOUR_SECONDS, monotonic=monotonic)

    async def register(self, body: object, *, address: str) -> dict[str, Any]:
        """Register a client; return the answer for status 201 (RFC 7591 §3.2.1), which has no nulls.

        `body` is the parsed JSON body, `address` is the sender's.

        Raises:
            OAuthRefusal: The body does not describe a client that this server supports.
            TooManyRequests: Too many clients were registered this hour, from this address or in all.
        """
        if not isinstance(body, dict):
            raise OAuthRefusal("invalid_client_metadata", "A registration is a JSON object.")
        fields = cast("Fields", body)
        described = client_fields.read(fields, self._rules)
        method = _auth_method(fields.get("token_endpoint_auth_method"))
        secret = None if method == "none" else secrets.token_urlsafe(32)
        client = self._client(described, method, None if secret is None else secret_hash(secret))
        await self._add(client, address)
        return _answer(client, described, secret)

    async def _add(self, client: Client, address: str) -> None:
        # Both limits are checked before one is counted: a refused sender must not use up those of others.
        self._per_address.check(network_of(address))
        self._in_all.check(_EVERYBODY)
        self._per_address.count(network_of(address))
        self._in_all.count(_EVERYBODY)
        await self._records.save(client)

    def _client(self, described: Described, method: AuthMethod, hashed: str | None) -> Client:
        return Client(
            client_id=f"{REGISTERED}{secrets.token_urlsafe(16)}",
            kind="registered",
            name=described.name,
            redirect_uris=described.redirect_uris,
            auth_method=method,
            secret_hash=hashed,
            scopes=described.scopes,
            created_at=self._clock(),
            last_used_at=None,
            native=described.native,
            logo=described.logo,
        )


def _auth_method(value: object) -> AuthMethod:
    """Choose the client's authentication method: the requested one, else `client_secret_basic`.

    RFC 7591 §2 has that default, and §3.2.1 allows `none` in the place of an unknown method.
    """
    match value:
        case None | "client_secret_basic":
            return "client_secret_basic"
        case "client_secret_post":
            return "client_secret_post"
        case _:
            return "none"


def _answer(client: Client, described: Described, secret: str | None) -> dict[str, Any]:
    # Absent fields are left out: several clients fail on null.
    answer: dict[str, Any] = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created_at.timestamp()),
        "redirect_uris": list(described.redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": client.auth_method,
    }
    if client.name:
        answer["client_name"] = client.name
    if client.scopes is not None:
        answer["scope"] = " ".join(sorted(client.scopes))
    if secret is not None:
        answer["client_secret"] = secret
        answer["client_secret_expires_at"] = 0
    return answer
