"""Exchanges codes at the grant provider; what comes of one is stored by somebody, or ended there."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.provider import LeftBehind, Redeemed, RedirectProvider
from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.storage.records import Principal, Tokens

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database


class Redeeming:
    """Stands between the callbacks and the provider. What nobody keeps goes to the outbox."""

    def __init__(
        self, database: "Database", provider: RedirectProvider, *, outbox: Outbox, nextcloud_url: str
    ) -> None:
        self._database = database
        self._provider = provider
        self._outbox = outbox
        self._nextcloud_url = nextcloud_url

    async def exchange(
        self, owner: Principal, *, code: SecretStr, verifier: SecretStr | None, nonce: SecretStr | None
    ) -> Redeemed:
        """Exchange a code; see `RedirectProvider.redeem`, but nothing is left behind.

        `owner` is whose the tokens are said to be in the outbox, should they end there.
        """
        try:
            return await self._provider.redeem(code=code, verifier=verifier, nonce=nonce)
        except LeftBehind as left:
            await self.give_back(owner, left.tokens)
            raise left.reason from None

    async def give_back(self, owner: Principal, tokens: Tokens) -> None:
        """Have tokens ended at Nextcloud that nobody needs.

        Raises:
            StorageError: They could not be kept for that, so it was tried at once.
        """
        try:
            await self._database.outbox.add_tokens(
                principal=owner,
                nextcloud_url=self._nextcloud_url,
                provider=self._provider.name,
                tokens=tokens,
            )
        except StorageError:
            # It cannot be kept for later (a full disk, say), and left alone it would work for ever.
            await self._provider.revoke(tokens)
            raise
        self._outbox.wake()


@contextmanager
def uninterrupted() -> Generator[None]:
    """Keep a browser that goes away, or a server that is told to stop, from cutting in.

    Nobody else knows what the code is exchanged for, so it must be stored or ended.
    """
    with anyio.CancelScope(shield=True):
        yield
