"""The caller of a tool: a user and their client."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nextcloud_mcp_server.storage.records import Principal

PERSONAL_ISSUER = "personal"

#: Single-user mode knows one client: all programs on this computer.
PERSONAL_CLIENT_ID = "local"


@dataclass(frozen=True, slots=True)
class Caller:
    """A user and the client that acts for them. `client_name` is the name the client gives itself.

    `token_scopes` are what the access token of this request covers; None where no token limits anything.
    `sign_in` names the token's sign-in, where this server issues tokens.
    """

    principal: Principal
    client_id: str
    client_name: str
    token_scopes: frozenset[str] | None = None
    sign_in: str | None = field(default=None, compare=False)


def personal(nextcloud_url: str) -> Principal:
    """Return the principal of the one user of single-user mode, named by their Nextcloud."""
    return Principal(issuer=PERSONAL_ISSUER, subject=nextcloud_url)


def personal_caller(nextcloud_url: str, client_name: str) -> Caller:
    """Return the caller in single-user mode, where all clients on the computer share one permission."""
    return Caller(personal(nextcloud_url), PERSONAL_CLIENT_ID, client_name)


def is_unverified(claims: Mapping[str, object], claim: str, *, unsaid: bool) -> bool:
    """Tell whether a claim is an e-mail address that the issuer has not verified.

    Where users may enter any address into their profile, it identifies no user (OpenID Connect Core §5.7).
    `unsaid` is the result if the issuer does not say; some issuers write the flag as a text.
    """
    said = claims.get("email_verified")
    if claim != "email" or said is True or said == "true":
        return False
    return unsaid if said is None else True
