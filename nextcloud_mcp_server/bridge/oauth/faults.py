"""Why an authorization was not obtained, where a caller tells the reasons apart."""

from nextcloud_mcp_server.errors import AuthorizationFailed


class SignInNeeded(AuthorizationFailed):
    """Only the user can go on, by a sign-in, and no browser may be opened now."""


class GrantEnded(AuthorizationFailed):
    """A refresh token is not valid any more; `forgets_client` says that the registration ended with it."""

    def __init__(self, message: str, *, forgets_client: bool = False) -> None:
        super().__init__(message)
        self.forgets_client = forgets_client


class TokenStoreFailed(AuthorizationFailed):
    """The keyring or the file with this client's tokens cannot be used."""
