"""Variables of earlier Nextcloud MCP servers, and what replaces them here.

An operator who brings such a variable along would otherwise believe that it still has its effect.
"""

from collections.abc import Mapping
from typing import Final

_CONSENT: Final = (
    "Users are asked for consent when a call needs it, and stay connected until they disconnect: remove it"
)
_OAUTH_CLIENT: Final = (
    "Set NEXTCLOUD_OAUTH_CLIENT_{0} for a client registered at Nextcloud, or OIDC_CLIENT_{0} for one at an identity "
    "provider"
)
_SEARCH: Final = "This server searches in Nextcloud itself and keeps no index: remove it"

#: Variable → the sentence that says what to do.
EARLIER: Final[Mapping[str, str]] = {
    "ENABLE_PROGRESSIVE_CONSENT": _CONSENT,
    "ENABLE_OFFLINE_ACCESS": _CONSENT,
    "ENABLE_BACKGROUND_OPERATIONS": _CONSENT,
    "ENABLE_LOGIN_FLOW": "MODE=builtin signs users in with Nextcloud: set that",
    "ENABLE_MULTI_USER_BASIC_AUTH": "MODE=builtin or MODE=oidc serves several users: set one of them",
    "ENABLE_TOKEN_EXCHANGE": "MODE=oidc with GRANT_PROVIDER says how this server gets its own access: set them",
    "MCP_SERVER_CLIENT_ID": _OAUTH_CLIENT.format("ID"),
    "MCP_SERVER_CLIENT_SECRET": _OAUTH_CLIENT.format("SECRET"),
    "NEXTCLOUD_OIDC_CLIENT_ID": _OAUTH_CLIENT.format("ID"),
    "NEXTCLOUD_OIDC_CLIENT_SECRET": _OAUTH_CLIENT.format("SECRET"),
    "NEXTCLOUD_OIDC_DISCOVERY_URL": "Set OIDC_ISSUER to the issuer, without its well-known path",
    "OIDC_DISCOVERY_URL": "Set OIDC_ISSUER to the issuer, without its well-known path",
    "NEXTCLOUD_PUBLIC_ISSUER_URL": "Set NEXTCLOUD_PUBLIC_URL to Nextcloud's address for browsers",
    "NEXTCLOUD_OIDC_SCOPES": "Set SIGN_IN_SCOPES",
    "NEXTCLOUD_PASSWORD": "Set NEXTCLOUD_APP_PASSWORD to an app password, never to the user's own password",
    "TOKEN_ENCRYPTION_KEY": "Set TOKEN_ENCRYPTION_KEYS; 'nextcloud-mcp-server keys new' makes one",
    "TOKEN_STORAGE_DB": "Set DATABASE_URL, or DATA_DIR for a database file in that folder",
    "NEXTCLOUD_VERIFY_SSL": "Certificates are always checked; set NEXTCLOUD_CA_BUNDLE for an authority of your own",
    "ALLOWED_MCP_CLIENTS": "Set ALLOWED_CLIENTS",
    "CIMD_ALLOWED_HOSTS": "Set CLIENT_METADATA_DOCUMENTS, and ALLOWED_CLIENTS for single clients",
    "COOKIE_SECURE": "NEXTCLOUD_MCP_SERVER_URL decides it: cookies are secure with https",
    "VECTOR_SYNC_ENABLED": _SEARCH,
    "ENABLE_SEMANTIC_SEARCH": _SEARCH,
    "QDRANT_URL": _SEARCH,
    "QDRANT_LOCATION": _SEARCH,
    "QDRANT_API_KEY": _SEARCH,
    "QDRANT_COLLECTION": _SEARCH,
}

#: A mode of an earlier server → ours. Ignored, `login_flow` would become a server that acts as one user for all.
_MODES: Final[Mapping[str, str]] = {
    "single_user_basic": "personal",
    "multi_user_basic": "builtin",
    "login_flow": "builtin",
    "oauth_single_audience": "oidc",
    "oauth_token_exchange": "oidc",
}
EARLIER_MODE: Final = "MCP_DEPLOYMENT_MODE"


def warning(name: str) -> str | None:
    """Return the sentence for a variable of an earlier server; None for any other."""
    meant = EARLIER.get(name)
    return f"{name} is not read: an earlier server had it. {meant}." if meant else None


def refused_mode(environ: Mapping[str, str]) -> str | None:
    """Return an error where the mode is chosen by the variable of an earlier server alone; None elsewhere."""
    value = environ.get(EARLIER_MODE, "").strip().lower()
    if not value or environ.get("MODE"):
        return None
    mode = _MODES.get(value)
    return f"{EARLIER_MODE} is not read: an earlier server had it. Set " + (
        f"MODE={mode} instead." if mode else "MODE to personal, oidc or builtin instead."
    )
