"""Reads and checks client metadata (RFC 7591 §2), from a registration or from the client's document."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from nextcloud_mcp_server.auth.builtin import document_source, redirects
from nextcloud_mcp_server.auth.scopes import expand
from nextcloud_mcp_server.errors import OAuthRefusal
from nextcloud_mcp_server.nextcloud.sanitize import escape_hidden

MOST_REDIRECT_URIS = 20
LONGEST_NAME = 100

Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ClientRules:
    """What the operator allows clients: scopes, and the places that codes may be sent to.

    `at_sign_in` are the scopes that every client is asked to request first. `plain_hosts` are hosts, without a
    port, to which codes may be sent over http although they are not this computer.
    """

    scopes: frozenset[str]
    private_schemes: frozenset[str] = redirects.PRIVATE_SCHEMES
    plain_hosts: frozenset[str] = frozenset()
    at_sign_in: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Described:
    """The metadata that is used; `name` is empty if absent, and has no hidden characters.

    `logo` is an address that this server may ask, empty where there is none.
    """

    name: str
    redirect_uris: tuple[str, ...]
    scopes: frozenset[str] | None
    logo: str = ""

    @property
    def native(self) -> bool:
        """Whether some redirect URI leads to an application on the user's computer."""
        return any(map(redirects.is_native, self.redirect_uris))


def read(fields: Fields, rules: ClientRules) -> Described:
    """Read client metadata. Unknown scopes and unsafe redirect URIs are dropped.

    Raises:
        OAuthRefusal: No redirect URI is left, or the client does not use the code flow.
    """
    _check_flow(fields)
    given = fields.get("client_name")
    name = given.strip() if isinstance(given, str) else ""
    return Described(
        name=_short(escape_hidden(name)),
        redirect_uris=_redirect_uris(fields.get("redirect_uris"), rules),
        scopes=_scopes(fields.get("scope"), rules),
        logo=_logo(fields.get("logo_uri")),
    )


def words(value: object) -> tuple[str, ...] | None:
    """Return the distinct strings of a list, in its order; None when it is no list."""
    if not isinstance(value, list):
        return None
    return tuple(dict.fromkeys(item for item in cast("list[object]", value) if isinstance(item, str)))


def _check_flow(fields: Fields) -> None:
    for field, needed in (("grant_types", "authorization_code"), ("response_types", "code")):
        given = words(fields.get(field))
        if given and needed not in given:
            raise OAuthRefusal(
                "invalid_client_metadata",
                f"This server gives access by authorization codes alone: {field} must name {needed}.",
            )


def _redirect_uris(value: object, rules: ClientRules) -> tuple[str, ...]:
    given = words(value) or ()
    if len(given) > MOST_REDIRECT_URIS:
        raise OAuthRefusal(
            "invalid_redirect_uri", f"A client has at most {MOST_REDIRECT_URIS} redirect URIs."
        )
    kept = tuple(
        uri
        for uri in given
        if redirects.acceptable(uri, private_schemes=rules.private_schemes, plain_hosts=rules.plain_hosts)
    )
    if not kept:
        raise OAuthRefusal(
            "invalid_redirect_uri",
            "The client names no redirect URI that this server sends codes to: https, http on this computer "
            "(localhost, 127.0.0.1 or [::1]), or a private-use scheme that the administrator allows.",
        )
    return kept


def _scopes(value: object, rules: ClientRules) -> frozenset[str] | None:
    """Keep the known scopes; None, for no limit, when the client names none of them (RFC 7591 §2).

    It is also None for a client that names all of them, or repeats those that it was asked to request first:
    else it could not request more when a call needs more.
    """
    asked = expand(value.split()) & rules.scopes if isinstance(value, str) else frozenset[str]()
    return asked if asked not in (frozenset(), rules.at_sign_in, rules.scopes) else None


def _logo(value: object) -> str:
    # The rules for the address of a document: https, a host's name, its usual port.
    return value if isinstance(value, str) and document_source.host_of(value) is not None else ""


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
