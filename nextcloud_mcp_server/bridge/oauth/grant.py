"""What this client holds for a server: its identity at the authorization server, and tokens."""

from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer

#: A token is refreshed this long before it expires, so that it does not expire on its way.
REFRESH_BEFORE: Final = timedelta(seconds=60)

AuthMethod = Literal["none", "client_secret_basic", "client_secret_post"]


class _Stored(BaseModel):
    """Is stored as JSON, in which secrets are plain; `repr` hides them."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ClientIdentity(_Stored):
    """Who this client is at an authorization server; `origin` says from where its id comes."""

    client_id: str
    client_secret: SecretStr | None = None
    auth_method: AuthMethod = "none"
    redirect_uri: str = ""
    origin: Literal["static", "document", "registered"] = "static"
    secret_expires_at: datetime | None = None

    @field_serializer("client_secret", when_used="json")
    def _plain(self, value: SecretStr | None) -> str | None:
        return None if value is None else value.get_secret_value()


class Grant(_Stored):
    """Tokens of one server from one issuer, with what a refresh and a revocation need.

    `scope` is what the server granted; `requested` what this client asked for.
    """

    issuer: str
    resource: str
    token_endpoint: str
    revocation_endpoint: str | None = None
    client: ClientIdentity
    access_token: SecretStr
    refresh_token: SecretStr | None = None
    expires_at: datetime | None = None
    scope: str = ""
    requested: str = ""
    obtained_at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    @field_serializer("access_token", "refresh_token", when_used="json")
    def _plain(self, value: SecretStr | None) -> str | None:
        return None if value is None else value.get_secret_value()

    def is_stale(self, now: datetime) -> bool:
        """Whether the access token expires within a minute."""
        return self.expires_at is not None and now >= self.expires_at - REFRESH_BEFORE

    def is_expired(self, now: datetime) -> bool:
        """Whether the access token cannot be used any more."""
        return self.expires_at is not None and now >= self.expires_at
