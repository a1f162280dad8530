"""The metadata of the built-in authorization server (RFC 8414 §2, OpenID Connect Discovery 1.0 §3)."""

from collections.abc import Iterable
from typing import Any

#: The URL path of the keys for ID tokens. There are no keys, but some clients reject metadata without it.
KEYS_PATH = "/.well-known/jwks.json"
KEYS: dict[str, Any] = {"keys": []}

_AUTH_METHODS = ("none", "client_secret_post", "client_secret_basic")


def server_metadata(
    issuer: str, *, scopes: Iterable[str] = (), documents: bool = True, openid: bool = False
) -> dict[str, Any]:
    """Build the metadata of the authorization server.

    `issuer` is copied byte by byte: clients compare it as a string (RFC 8414 §3.3, RFC 9207 §2.4). `documents`
    announces client ids that are URLs of documents; some clients use theirs only if `none` is also among the
    authentication methods. `openid` adds what OpenID Connect Discovery requires; clients that found the
    metadata under its name insist on that, though this server issues no ID tokens.

    Raises:
        ValueError: The issuer ends in a slash; some clients would compare it with one without.
    """
    if issuer.endswith("/"):
        raise ValueError("an issuer has no slash at its end")
    described: dict[str, Any] = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "revocation_endpoint": f"{issuer}/revoke",
        "scopes_supported": sorted(scopes),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": list(_AUTH_METHODS),
        "revocation_endpoint_auth_methods_supported": list(_AUTH_METHODS),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": documents,
    }
    if openid:
        described |= {
            "jwks_uri": f"{issuer}{KEYS_PATH}",
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
    return described
