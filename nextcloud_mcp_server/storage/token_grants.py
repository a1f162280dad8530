"""The user, client and scopes of a code or a token, as one sealed text: bound to its user and its row.

An attacker who can write to the database, but has no key, can create no token and assign none to another user.
"""

import json

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, Sealed
from nextcloud_mcp_server.storage.oauth_records import CodeGrant, TokenGrant, storage_id_of
from nextcloud_mcp_server.storage.records import Principal

_COLUMN = "details"


def seal_code(keys: KeyRing, grant: CodeGrant, code_hash: str) -> Sealed:
    """Seal the grant of a code."""
    details = _details(grant) | {
        "redirect_uri": grant.redirect_uri,
        "code_challenge": grant.code_challenge,
    }
    return keys.at("codes", grant.principal, code_hash).seal(_COLUMN, json.dumps(details))


def open_code(keys: KeyRing, principal: Principal, code_hash: str, sealed: Sealed) -> CodeGrant | None:
    """Open the grant of a code; None if its key is missing, or it was moved."""
    try:
        details = json.loads(keys.at("codes", principal, code_hash).open(_COLUMN, sealed))
    except Unsealable:
        return None
    return CodeGrant(
        client_id=details["client_id"],
        principal=principal,
        redirect_uri=details["redirect_uri"],
        scopes=frozenset(details["scopes"]),
        code_challenge=details["code_challenge"],
        resource=details["resource"],
        storage_id=storage_id_of(details),
    )


def seal_grant(keys: KeyRing, grant: TokenGrant, table: str, row: str) -> Sealed:
    """Seal the grant of a family or an access token."""
    return keys.at(table, grant.principal, row).seal(_COLUMN, json.dumps(_details(grant)))


def open_grant(
    keys: KeyRing, principal: Principal, table: str, row: str, sealed: Sealed
) -> TokenGrant | None:
    """Open the grant of a family or an access token; None if its key is missing, or it was moved."""
    try:
        details = json.loads(keys.at(table, principal, row).open(_COLUMN, sealed))
    except Unsealable:
        return None
    return TokenGrant(
        client_id=details["client_id"],
        principal=principal,
        scopes=frozenset(details["scopes"]),
        resource=details["resource"],
        storage_id=storage_id_of(details),
    )


def granted_by(code: CodeGrant) -> TokenGrant:
    """Return the grant of the tokens for a code."""
    return TokenGrant(
        client_id=code.client_id,
        principal=code.principal,
        scopes=code.scopes,
        resource=code.resource,
        storage_id=code.storage_id,
    )


def _details(grant: CodeGrant | TokenGrant) -> dict[str, object]:
    return {
        "client_id": grant.client_id,
        "scopes": sorted(grant.scopes),
        "resource": grant.resource,
        "storage_id": grant.storage_id,
    }
