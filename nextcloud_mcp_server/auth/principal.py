"""Who calls."""

from collections.abc import Mapping
from dataclasses import dataclass

from nextcloud_mcp_server.storage.records import Principal

PERSONAL_ISSUER = "personal"

#: Personal mode knows one client: any assistant on this computer.
PERSONAL_CLIENT_ID = "local"


@dataclass(frozen=True, slots=True)
class Caller:
    """A user and the client that speaks for them. `client_name` is what the client says of itself.

    `token_scopes` are what the access token of this request covers; None where no token limits anything.
    """

    principal: Principal
    client_id: str
    client_name: str
    token_scopes: frozenset[str] | None = None


def personal(nextcloud_url: str) -> Principal:
    """Name the one user of personal mode by the Nextcloud they use."""
    return Principal(issuer=PERSONAL_ISSUER, subject=nextcloud_url)


def personal_caller(nextcloud_url: str, client_name: str) -> Caller:
    """Describe a call in personal mode, where every client on the computer shares one permission."""
    return Caller(personal(nextcloud_url), PERSONAL_CLIENT_ID, client_name)


def is_unverified(claims: Mapping[str, object], claim: str, *, unsaid: bool) -> bool:
    """Tell whether a claim is an e-mail address that the issuer does not vouch for.

    Where users may type any address into their profile, it names no one (OpenID Connect Core §5.7).
    `unsaid` is the answer where the issuer says nothing about it; some write the answer as a text.
    """
    said = claims.get("email_verified")
    if claim != "email" or said is True or said == "true":
        return False
    return unsaid if said is None else True
