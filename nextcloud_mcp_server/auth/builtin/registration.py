"""Dynamic client registration (RFC 7591): anyone who asks becomes a client, which by itself opens nothing.

Each registration makes a client with an id of its own, also where the description is the same: what a
user allowed one program must not be found by another that calls itself so. Hosted chat clients
register anew with every connection, so what is stored is bounded: by limits for each hour here, and by
`Clients.purge`, which forgets the clients that no one ever used.
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

#: New clients in an hour. A chat service registers one for each connection, all from few addresses.
MOST_PER_ADDRESS = 200
MOST_IN_ALL = 1_000
_HOUR_SECONDS = 3600.0

_EVERYBODY = "*"


class Registration:
    """Answers `/register`."""

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
        """Register a client, and return the answer for status 201 (RFC 7591 §3.2.1), which has no nulls.

        `body` is the JSON that was sent, `address` that of the sender.

        Raises:
            OAuthRefusal: It does not describe a client that this server works with.
            TooManyRequests: Too many clients are new this hour, from there or in all.
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
        # Both first: who is refused must not use up what others have.
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
        )


def _auth_method(value: object) -> AuthMethod:
    """Choose how the client proves itself: as it asks, `client_secret_basic` where it asks nothing.

    RFC 7591 §2 has that default, and §3.2.1 lets us put `none` in the place of what we do not know.
    """
    match value:
        case None | "client_secret_basic":
            return "client_secret_basic"
        case "client_secret_post":
            return "client_secret_post"
        case _:
            return "none"


def _answer(client: Client, described: Described, secret: str | None) -> dict[str, Any]:
    # What is missing is left out: a null broke more than one client.
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
