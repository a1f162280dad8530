"""Etags for apps that have none: a hash of an object's state, which a client compares before a change."""

import hashlib
import json

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.error_mapping import CHANGED


def of(state: object) -> str:
    """Return the etag of a state, which is data as in JSON."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16]


def require(if_match: str, etag: str) -> None:
    """Check the etag that a caller read against that of the object now.

    Raises:
      EtagMismatch: The object was changed since it was read.
    """
    if if_match.strip().strip('"') != etag:
        raise errors.EtagMismatch(CHANGED, current_etag=etag)
