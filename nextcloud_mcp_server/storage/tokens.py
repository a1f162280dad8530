"""Tokens as JSON, for one sealed column.

The members are `access_token`, and `refresh_token` and `expires_at` (ISO 8601, with its zone), which may be
null.
"""

import json
from datetime import datetime

from pydantic import SecretStr

from nextcloud_mcp_server.storage.records import Credential, Tokens

#: A kind of outbox work: `login_name` is the provider's name, `secret` the JSON of `dump_tokens`.
REVOKE_TOKENS = "revoke_tokens"


def dump_tokens(tokens: Tokens) -> SecretStr:
    """Serialize tokens as JSON, to be sealed."""
    refresh_token, expires_at = tokens.refresh_token, tokens.expires_at
    return SecretStr(
        json.dumps(
            {
                "access_token": tokens.access_token.get_secret_value(),
                "refresh_token": None if refresh_token is None else refresh_token.get_secret_value(),
                "expires_at": None if expires_at is None else expires_at.isoformat(),
            }
        )
    )


def load_tokens(text: SecretStr) -> Tokens:
    """Parse the JSON of `dump_tokens`."""
    values = json.loads(text.get_secret_value())
    refresh_token, expires_at = values["refresh_token"], values["expires_at"]
    return Tokens(
        access_token=SecretStr(values["access_token"]),
        refresh_token=None if refresh_token is None else SecretStr(refresh_token),
        expires_at=None if expires_at is None else datetime.fromisoformat(expires_at),
    )


def has_tokens(credential: Credential) -> bool:
    """Tell whether a credential has tokens; an app password neither expires nor can be refreshed."""
    return credential.refresh_token is not None or credential.expires_at is not None


def tokens_of(credential: Credential) -> Tokens:
    """Return the tokens of a credential."""
    return Tokens(
        access_token=credential.secret,
        refresh_token=credential.refresh_token,
        expires_at=credential.expires_at,
    )
