"""Exchanges codes at the grant provider; what comes of one is stored by a user, or ended there."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.provider import ExchangeResult, OrphanedTokens, RedirectProvider
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.errors import NextcloudError, SignInRefused, StorageError
from nextcloud_mcp_server.storage.records import Principal, Tokens

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database


#: Longer than Nextcloud can take to say whose tokens are; then what was noted and not stored is ended.
NOTED = timedelta(minutes=10)

_SPENT = "What came back from Nextcloud was used or ended before. Start again."


@dataclass(frozen=True, slots=True)
class ExchangedTokens:
    """Exchanged tokens, and the note of a revocation that follows unless they are stored."""

    exchanged: ExchangeResult
    note: str

    @property
    def tokens(self) -> Tokens:
        """What opens the account."""
        return self.exchanged.tokens


class CodeExchange:
    """Stands between the callbacks and the provider. What no one keeps goes to the outbox."""

    def __init__(
        self, database: "Database", provider: RedirectProvider, *, outbox: Outbox, nextcloud_url: str
    ) -> None:
        self._database = database
        self._provider = provider
        self._outbox = outbox
        self._nextcloud_url = nextcloud_url

    async def exchange(
        self, owner: Principal, *, code: SecretStr, verifier: SecretStr | None, nonce: SecretStr | None
    ) -> ExchangeResult:
        """Exchange a code; see `RedirectProvider.exchange_code`, but nothing is left behind.

        `owner` is whose the tokens are said to be in the outbox, should they end there.

        Raises:
            SignInRefused: The code is spent.
        """
        await self._refuse_spent(code)
        return await self.exchange_orphaned(owner, code=code, verifier=verifier, nonce=nonce)

    async def exchange_orphaned(
        self, owner: Principal, *, code: SecretStr, verifier: SecretStr | None, nonce: SecretStr | None
    ) -> ExchangeResult:
        """Exchange a spent code, only to revoke what it opens."""
        try:
            return await self._provider.exchange_code(code=code, verifier=verifier, nonce=nonce)
        except OrphanedTokens as left:
            await self.give_back(owner, left.tokens)
            raise left.reason from None

    async def exchange_with_pending_revocation(self, owner: Principal, *, code: SecretStr) -> ExchangedTokens:
        """Exchange a code that needs nothing else, and note at once what it gave.

        From Nextcloud's answer to the moment at which we know whose it is, seconds may pass; were the
        server killed in them, it would work on, known to no one. It is for the caller to store what was
        given in the place of the note, or to `revoke_pending` it.

        Raises:
            SignInRefused: The code is spent.
        """
        await self._refuse_spent(code)
        notes: list[str] = []

        async def note(tokens: Tokens) -> None:
            notes.append(await self._note(owner, tokens))

        try:
            exchanged = await self._provider.exchange_code(code=code, verifier=None, nonce=None, note=note)
        except OrphanedTokens as left:
            await self._end(notes)
            raise left.reason from None
        except NextcloudError:
            # It was ended, or never given. A note that stays costs one refresh in vain.
            with suppress(StorageError):
                for done in notes:
                    await self._database.outbox.done(done)
            raise
        return ExchangedTokens(exchanged, notes[0])

    async def _refuse_spent(self, code: SecretStr) -> None:
        if await self._database.spent_codes.is_spent(code.get_secret_value()):
            raise SignInRefused(_SPENT)

    async def revoke_pending(self, exchanged: ExchangedTokens) -> None:
        """Have what was noted ended at Nextcloud now."""
        await self._end([exchanged.note])

    async def _end(self, notes: list[str]) -> None:
        for note in notes:
            await self._database.outbox.due_now(note)
        self._outbox.wake()

    async def give_back(self, owner: Principal, tokens: Tokens) -> None:
        """Have tokens ended at Nextcloud that no one needs.

        Raises:
            StorageError: They could not be kept for that, so it was tried at once.
        """
        await self._note(owner, tokens, after=timedelta())
        self._outbox.wake()

    async def _note(self, owner: Principal, tokens: Tokens, *, after: timedelta = NOTED) -> str:
        try:
            return await self._database.outbox.add_tokens(
                principal=owner,
                nextcloud_url=self._nextcloud_url,
                provider=self._provider.name,
                tokens=tokens,
                after=after,
            )
        except StorageError:
            # It cannot be kept for later (a full disk, say), and left alone it would work for ever.
            await self._provider.revoke(tokens)
            raise


@contextmanager
def uninterrupted() -> Generator[None]:
    """Keep a browser that goes away, or a server that is told to stop, from cutting in.

    No one else knows what the code is exchanged for, so it must be stored or ended.
    """
    with anyio.CancelScope(shield=True):
        yield
