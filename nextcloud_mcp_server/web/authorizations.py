"""What the pages of `/authorize` need; implemented by `auth.builtin.authorization`."""

from typing import Protocol

from nextcloud_mcp_server.auth.builtin.authorization import Sent, Welcome
from nextcloud_mcp_server.auth.builtin.authorize_request import Asked
from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import CallbackResult
from nextcloud_mcp_server.storage.oauth_records import AuthorizationTransaction
from nextcloud_mcp_server.web.consent_backend import Params


class Authorizations(Protocol):
    """From an authorization request to its answer. `browser` is a random value of one browser."""

    async def read(self, params: Params, *, sender: str) -> Asked:
        """Check an authorization request; `sender` is the browser's address.

        Raises:
            AuthorizeRefused: The request cannot be shown to a user.
            ReturnToClient: The client is known, and its request is refused.
        """
        ...

    def seal(self, asked: Asked) -> str:
        """Seal a checked request for a form."""
        ...

    async def unseal(self, sealed: str) -> Asked:
        """Open a sealed request from a form."""
        ...

    async def approve(self, asked: Asked, scopes: frozenset[str], *, browser: str) -> str:
        """Record that the user agreed; return the URL at which they sign in.

        Raises:
            AlreadyAnswered: Another copy of the page was answered.
        """
        ...

    def denied(self, asked: Asked) -> str:
        """Build the URL that tells the client that the user refused."""
        ...

    async def asked_by(self, callback: CallbackResult) -> Asked:
        """Return the client's request of a callback, checked again; mark its code as spent if that fails."""
        ...

    async def asked(self, auth_transaction: AuthorizationTransaction) -> Asked:
        """Return the client's request of an authorization transaction, checked again."""
        ...

    async def returned(self, params: Params, *, browser: str) -> CallbackResult:
        """Check the parameters of Nextcloud's callback.

        Raises:
            SignInRefused: A check failed.
            SignInCancelled: The user refused at Nextcloud.
        """
        ...

    async def come_back(self, callback: CallbackResult, *, browser: str) -> str:
        """Exchange the code of a callback, and identify the user; return the transaction's id.

        Raises:
            NotAMember: The user may not use this server.
        """
        ...

    async def completed(self, auth_transaction_id: str, *, browser: str) -> Welcome:
        """Return the user who signed in, and the client's request."""
        ...

    async def go_on(self, auth_transaction_id: str, *, browser: str) -> Sent:
        """Record that the user confirmed their account, and make the client's answer.

        Raises:
            AlreadyAnswered: The client has had its answer.
        """
        ...

    async def not_me(self, auth_transaction_id: str, *, browser: str) -> Asked:
        """Record that the account is not the user's, and revoke the tokens."""
        ...
