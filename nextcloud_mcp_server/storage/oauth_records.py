"""What our authorization server keeps of clients and of what it gave them: frozen values, opened.

No token and no code is among them: only their hashes are stored.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from nextcloud_mcp_server.storage.records import Principal, Tokens

#: What the id of a registered client begins with; that of a document is its address.
REGISTERED = "mcp-"

AuthMethod = Literal["none", "client_secret_post", "client_secret_basic"]

#: Why a token request got nothing: no such code or token for this client; used before, so that what
#: it gave has just been ended; not what the code was given for; none of the scopes it may have.
Reason = Literal["unknown", "used", "unfit", "scope"]


@dataclass(frozen=True, slots=True)
class Client:
    """A program that may ask users for access.

    A `registered` one came by RFC 7591; the id of a `document` is the address of its metadata.
    `created_at` is when it was registered, or its document was last read. `scopes` None means that it
    is not limited to some, `native` that its codes go to the user's own computer.
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


@dataclass(frozen=True, slots=True)
class CodeGrant:
    """What a user allowed, and what a token request must show to get it.

    `redirect_uri` is the one that the code was sent to, `code_challenge` the S256 hash of the
    client's verifier, `storage_id` the generation of the user's Nextcloud account.
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
    """What a client asked for at `/authorize`, once it was checked; `scopes` are those that may be allowed."""

    client_id: str
    redirect_uri: str
    state: str | None = field(repr=False)
    code_challenge: str = field(repr=False)
    resource: str
    scopes: frozenset[str]

    @property
    def key(self) -> str:
        """Name the request: a client makes a challenge of its own for each (RFC 7636 §4.1)."""
        return json.dumps([self.client_id, self.redirect_uri, self.state, self.code_challenge])

    def fields(self) -> dict[str, Any]:
        """Write it as JSON can hold it."""
        return {**asdict(self), "scopes": sorted(self.scopes)}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "ClientRequest":
        """Read what `fields` wrote."""
        values: dict[str, Any] = {**fields, "scopes": frozenset(fields["scopes"])}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class AuthorizationTransaction:
    """A sign-in at Nextcloud that is under way.

    `target` is what for: `client`, which has a `request`; `account`; or `consent_request:` and an elicitation's
    id. `scopes` are those that were ticked on the way.
    """

    id: str
    target: str
    request: ClientRequest | None
    scopes: frozenset[str]
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    """A transaction after its callback: the user, and the tokens, None once they are connected."""

    auth_transaction: AuthorizationTransaction
    principal: Principal
    display_name: str
    storage_id: str | None
    provider: str
    tokens: Tokens | None
    connected: bool = False


@dataclass(frozen=True, slots=True)
class TransactionKey:
    """What names a transaction: its id, and the value that only its browser has."""

    auth_transaction_id: str
    browser: str = field(repr=False)


#: What became of a code: stored; stored before for the same authorization transaction and still unused; refused
#: because the authorization transaction is over; refused because the client's request has had its code.
Stored = Literal["stored", "same", "over", "answered"]


@dataclass(frozen=True, slots=True)
class Holder:
    """A client that holds living tokens of one user."""

    client_id: str
    since: datetime
    last_used_at: datetime


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """Whose a token is, through which client, and what it is good for."""

    client_id: str
    principal: Principal
    scopes: frozenset[str]
    resource: str
    storage_id: str | None


@dataclass(frozen=True, slots=True)
class LiveToken:
    """An access token that is good now.

    `in_grace` says that it came with its family's newest refresh token, and that the one before that
    could still be shown again.
    """

    grant: TokenGrant
    issued_at: datetime
    expires_at: datetime
    family_hash: str = field(default="", repr=False, compare=False)
    generation: int = field(default=0, compare=False)
    in_grace: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Fresh:
    """Tokens made for one answer, and how long they are good; they are given out if they get stored.

    `family` is what all refresh tokens of one consent have in common.
    """

    family: str = field(repr=False)
    refresh: str = field(repr=False)
    access: str = field(repr=False)
    refresh_until: datetime
    access_until: datetime


@dataclass(frozen=True, slots=True)
class Given:
    """What was stored: the refresh token that is now the family's, and what the access token allows."""

    refresh: str = field(repr=False)
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was given."""

    reason: Reason


def storage_id_of(details: Mapping[str, Any]) -> str | None:
    """Read the storage id from stored details; those of before schema 0009 have it as `home_id`."""
    storage_id: str | None = details.get("storage_id", details.get("home_id"))
    return storage_id
