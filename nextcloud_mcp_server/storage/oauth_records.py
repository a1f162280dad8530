"""The records of the built-in authorization server about clients and tokens: frozen, decrypted values.

They contain no token and no code: only hashes of those are stored.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from nextcloud_mcp_server.storage.records import Principal, Tokens

#: The prefix of a registered client's id; the id of a document is its URL.
REGISTERED = "mcp-"

AuthMethod = Literal["none", "client_secret_post", "client_secret_basic"]

#: Why a token request was refused: no such code or token for this client; used before, so that its tokens have
#: just been ended; not what the code was issued for; none of the scopes it may have.
Reason = Literal["unknown", "used", "unfit", "scope"]


@dataclass(frozen=True, slots=True)
class Client:
    """A program that may ask users for access.

    A `registered` one came by RFC 7591; the id of a `document` is the URL of its metadata. `created_at` is when
    it was registered, or its document was last read. With `scopes` None all scopes are possible; `native` says
    that its codes go to the user's own computer. `logo` is the address of its logo, empty where it names none.
    """

    client_id: str
    kind: Literal["registered", "document"]
    name: str
    redirect_uris: tuple[str, ...]
    auth_method: AuthMethod
    secret_hash: str | None = field(repr=False)
    scopes: frozenset[str] | None
    created_at: datetime
    last_used_at: datetime | None
    native: bool
    logo: str = ""


@dataclass(frozen=True, slots=True)
class CodeGrant:
    """What a user allowed, and what a token request must show to get it.

    `redirect_uri` is where the code was sent, `code_challenge` the S256 hash of the client's verifier,
    `storage_id` identifies the user's Nextcloud account among re-created ones.
    """

    client_id: str
    principal: Principal
    redirect_uri: str
    scopes: frozenset[str]
    code_challenge: str = field(repr=False)
    resource: str
    storage_id: str | None


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A checked authorization request of a client; `scopes` are those that may be allowed.

    `client_name` is the name that the user was shown; empty in a request of an earlier version.
    """

    client_id: str
    redirect_uri: str
    state: str | None = field(repr=False)
    code_challenge: str = field(repr=False)
    resource: str
    scopes: frozenset[str]
    client_name: str = ""

    @property
    def key(self) -> str:
        """The id of the request: a client makes a challenge of its own for each (RFC 7636 §4.1)."""
        return json.dumps([self.client_id, self.redirect_uri, self.state, self.code_challenge])

    def fields(self) -> dict[str, Any]:
        """Return the request as JSON-compatible values."""
        return {**asdict(self), "scopes": sorted(self.scopes)}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "ClientRequest":
        """Build a request from the values of `fields`."""
        values: dict[str, Any] = {**fields, "scopes": frozenset(fields["scopes"])}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class AuthorizationTransaction:
    """A sign-in at Nextcloud before its callback.

    `target` is `client`, which has a `request`; `account`; or `consent_request:` and an elicitation's id.
    `scopes` are those that the user ticked.
    """

    id: str
    target: str
    request: ClientRequest | None
    scopes: frozenset[str]
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    """A transaction after its callback: the user, and the tokens, which are None once stored as a grant."""

    auth_transaction: AuthorizationTransaction
    principal: Principal
    display_name: str
    storage_id: str | None
    provider: str
    tokens: Tokens | None
    connected: bool = False


@dataclass(frozen=True, slots=True)
class TransactionKey:
    """The key of a transaction: its id, and the value that only its browser has."""

    auth_transaction_id: str
    browser: str = field(repr=False)


#: The result of storing a code: stored; stored before for the same authorization transaction and still unused;
#: refused because the authorization transaction is over; refused because the client's request has its code.
Stored = Literal["stored", "same", "over", "answered"]


@dataclass(frozen=True, slots=True)
class Holder:
    """A client that holds valid tokens of one user."""

    client_id: str
    since: datetime
    last_used_at: datetime


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """The user, the client and the scopes of a token."""

    client_id: str
    principal: Principal
    scopes: frozenset[str]
    resource: str
    storage_id: str | None


@dataclass(frozen=True, slots=True)
class LiveToken:
    """A valid access token.

    `in_grace` says that it was issued with its family's newest refresh token, and that the previous one may
    still be used again.
    """

    grant: TokenGrant
    issued_at: datetime
    expires_at: datetime
    family_hash: str = field(default="", repr=False, compare=False)
    generation: int = field(default=0, compare=False)
    in_grace: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Fresh:
    """New tokens for one answer, with their expiry; they are issued if they get stored.

    `family` is the id that all refresh tokens of one consent share.
    """

    family: str = field(repr=False)
    refresh: str = field(repr=False)
    access: str = field(repr=False)
    refresh_until: datetime
    access_until: datetime


@dataclass(frozen=True, slots=True)
class Given:
    """The stored result: the family's current refresh token, and the scopes of the access token."""

    refresh: str = field(repr=False)
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal: no token was issued."""

    reason: Reason


def storage_id_of(details: Mapping[str, Any]) -> str | None:
    """Return the storage id from stored details; those from before schema 0009 have it as `home_id`."""
    storage_id: str | None = details.get("storage_id", details.get("home_id"))
    return storage_id
