"""npm's oidc-provider, a certified issuer, in its own process."""

import json
import subprocess
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from jwt.algorithms import RSAAlgorithm

from tests.load.servers import stop
from tests.node import NODE_MODULES, find_node, not_installed

SCRIPT = Path(__file__).with_suffix(".mjs")
INSTALLED = NODE_MODULES / "oidc-provider" / "package.json"


def login_client(client_id: str, secret: str, redirect_uris: Collection[str]) -> dict[str, Any]:
    """Return the metadata of a confidential client such as this server.

    This issuer issues refresh tokens only where `prompt=consent` was sent with `offline_access` (OpenID Connect Core
    1.0 §11).
    """
    return {
        "client_id": client_id,
        "client_secret": secret,
        "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
    }


def mcp_client(client_id: str, redirect_uri: str = "http://127.0.0.1/callback") -> dict[str, Any]:
    """Return the metadata of a public client on the user's computer; its port is ignored."""
    return {
        "client_id": client_id,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "application_type": "native",
        "token_endpoint_auth_method": "none",
    }


def signing_key(kid: str = "k1") -> dict[str, Any]:
    """Return a private key as a JWK."""
    key = generate_private_key(public_exponent=65537, key_size=2048)
    made = {**RSAAlgorithm.to_jwk(key, as_dict=True), "alg": "RS256", "kid": kid, "use": "sig"}
    # It would be published with the public key, which verifies.
    del made["key_ops"]
    return made


@asynccontextmanager
async def open_oidc_provider(
    clients: Collection[Mapping[str, Any]],
    *,
    resources: Collection[str],
    scopes: Collection[str] = (),
    keys: Collection[Mapping[str, Any]] = (),
    port: int = 0,
) -> AsyncGenerator[str]:
    """Run it with alice and bob while the block runs, and yield its issuer identifier.

    Its state ends with it; `keys` (the first signs) and `port` can be those of the one before.
    """
    node = find_node()
    if not INSTALLED.is_file():
        not_installed("oidc-provider")
    wanted = {
        "clients": list(clients),
        "resources": list(resources),
        "scopes": list(scopes),
        "keys": list(keys) or [signing_key()],
        "port": port,
    }
    # It warns about in-memory storage and http, which is intended here.
    process = await anyio.open_process([node, str(SCRIPT)], stderr=subprocess.DEVNULL)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(f"{json.dumps(wanted)}\n".encode())
        said = b""
        with anyio.fail_after(60):
            while not said.endswith(b"\n"):
                said += await process.stdout.receive()
        yield said.decode().split()[-1]
    finally:
        await stop(process)
