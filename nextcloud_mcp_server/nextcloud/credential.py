"""The credentials that authenticate a user's requests to Nextcloud."""

from collections.abc import Generator
from dataclasses import dataclass

import httpx2
from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class BasicCredential:
    """A login name (never the uid) and an app password."""

    login_name: str
    secret: SecretStr


@dataclass(frozen=True, slots=True)
class BearerCredential:
    """An access token of Nextcloud's own OAuth2 app, or of its identity provider."""

    token: SecretStr


NextcloudCredential = BasicCredential | BearerCredential


class _BearerAuth(httpx2.Auth):
    """Adds a token to one request (RFC 6750 §2.1); never to a URL or a body."""

    def __init__(self, token: SecretStr) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        request.headers["Authorization"] = f"Bearer {self._token.get_secret_value()}"
        yield request


def auth_of(credential: NextcloudCredential | None) -> httpx2.Auth | None:
    """Return the httpx2 authentication for a credential; None without one."""
    match credential:
        case BasicCredential(login_name, secret):
            return httpx2.BasicAuth(login_name, secret.get_secret_value())
        case BearerCredential(token):
            return _BearerAuth(token)
        case None:
            return None
