"""What the pages of `/authorize` need of the state machine behind them; `auth.builtin.authorization` is it."""

from typing import Protocol

from nextcloud_mcp_server.auth.builtin.authorization import Sent, Welcome
from nextcloud_mcp_server.auth.builtin.authorize_request import Asked
from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import CallbackResult
from nextcloud_mcp_server.storage.oauth_records import AuthorizationTransaction
from nextcloud_mcp_server.web.consent_backend import Params


class Authorizations(Protocol):
    """From what a client asks for to the answer it gets. `browser` is a random value of one browser."""

    async def read(self, params: Params, *, sender: str) -> Asked:
        """Check what a client asks for; `sender` is the browser's address.

        Raises:
            AuthorizeRefused: It cannot be put to a user.
            ReturnToClient: The client is known, and asks for what it does not get.
        """
        ...

    def seal(self, asked: Asked) -> str:
        """Write a checked request into a form."""
        ...

    async def unseal(self, sealed: str) -> Asked:
        """Read it out of the form."""
        ...

    async def approve(self, asked: Asked, scopes: frozenset[str], *, browser: str) -> str:
        """Take the user's yes; the answer is where they sign in.

        Raises:
            AlreadyAnswered: Another copy of the page was answered.
        """
        ...

    def denied(self, asked: Asked) -> str:
        """Make the address that tells the client of the user's no."""
        ...

    async def asked_by(self, callback: CallbackResult) -> Asked:
        """Say again what the browser that came back had set out for; a code that no one can use is spent."""
        ...

    async def asked(self, auth_transaction: AuthorizationTransaction) -> Asked:
        """Say again what a user had set out for."""
        ...

    async def returned(self, params: Params, *, browser: str) -> CallbackResult:
        """Check how a browser came back from Nextcloud.

        Raises:
            SignInRefused: It is not trusted.
            SignInCancelled: The user said no there.
        """
        ...

    async def come_back(self, callback: CallbackResult, *, browser: str) -> str:
        """Have Nextcloud say who came back; the answer is the id of who it is.

        Raises:
            NotAMember: The user may not use this server.
        """
        ...

    async def completed(self, auth_transaction_id: str, *, browser: str) -> Welcome:
        """Say who came back, and what for."""
        ...

    async def go_on(self, auth_transaction_id: str, *, browser: str) -> Sent:
        """Take their word that it is them, and make the client's answer.

        Raises:
            AlreadyAnswered: The client has had its answer.
        """
        ...

    async def not_me(self, auth_transaction_id: str, *, browser: str) -> Asked:
        """Take their word that it is another user, and end what was given."""
        ...
