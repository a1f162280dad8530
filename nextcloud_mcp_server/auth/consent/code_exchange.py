"""Exchanges codes at the grant provider. The tokens are stored by the caller, or revoked here."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.provider import ExchangeResult, OrphanedTokens, RedirectProvider
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.errors import NextcloudError, StorageError
from nextcloud_mcp_server.storage.records import Principal, Tokens

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database


#: When a pending revocation is due: longer than Nextcloud takes to identify the account of new tokens.
REVOKE_AFTER = timedelta(minutes=10)

SPENT = "Nextcloud's answer was used already, or the sign-in was ended. Start again."


@dataclass(frozen=True, slots=True)
class ExchangedTokens:
    """Exchanged tokens, and their pending revocation, which is carried out unless they are stored."""

    exchanged: ExchangeResult
    note: str

    @property
    def tokens(self) -> Tokens:
        """The tokens that open the account."""
        return self.exchanged.tokens


class CodeExchange:
    """Exchanges codes for the callbacks. Tokens that are not stored go to the outbox."""

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
        """Exchange a code as `RedirectProvider.exchange_code` does; orphaned tokens go to the outbox.

        `owner` is the principal under which they are put there. A code that is spent may be exchanged only to
        revoke its tokens; see `is_spent`.
        """
        try:
            return await self._provider.exchange_code(code=code, verifier=verifier, nonce=nonce)
        except OrphanedTokens as left:
            await self.discard(owner, left.tokens)
            raise left.reason from None

    async def exchange_with_pending_revocation(self, owner: Principal, *, code: SecretStr) -> ExchangedTokens:
        """Exchange a code without verifier and nonce, and write a pending revocation as soon as tokens arrive.

        Seconds may pass from Nextcloud's answer until the account is identified. If the server were killed in
        between, the tokens would stay valid, and nothing would know them. The caller must store the tokens in
        place of the pending revocation, or call `revoke_pending`. The code must not be spent; see `is_spent`.
        """
        notes: list[str] = []

        async def note(tokens: Tokens) -> None:
            notes.append(await self._note(owner, tokens))

        try:
            exchanged = await self._provider.exchange_code(code=code, verifier=None, nonce=None, note=note)
        except OrphanedTokens as left:
            await self._end(notes)
            raise left.reason from None
        except NextcloudError:
            # The tokens were revoked, or there were none. A pending revocation that stays costs one failing
            # refresh.
            with suppress(StorageError):
                for done in notes:
                    await self._database.outbox.done(done)
            raise
        return ExchangedTokens(exchanged, notes[0])

    async def is_spent(self, code: SecretStr) -> bool:
        """Tell whether a code is spent, so that it must not be exchanged for a user."""
        return await self._database.spent_codes.is_spent(code.get_secret_value())

    async def revoke_pending(self, exchanged: ExchangedTokens) -> None:
        """Carry out a pending revocation now."""
        await self._end([exchanged.note])

    async def _end(self, notes: list[str]) -> None:
        for note in notes:
            await self._database.outbox.due_now(note)
        self._outbox.wake()

    async def discard(self, owner: Principal, tokens: Tokens) -> None:
        """Put tokens that are not needed into the outbox, to be revoked at Nextcloud.

        Raises:
            StorageError: They could not be stored there, so the revocation was tried at once.
        """
        await self._note(owner, tokens, after=timedelta())
        self._outbox.wake()

    async def _note(self, owner: Principal, tokens: Tokens, *, after: timedelta = REVOKE_AFTER) -> str:
        try:
            return await self._database.outbox.add_tokens(
                principal=owner,
                nextcloud_url=self._nextcloud_url,
                provider=self._provider.name,
                tokens=tokens,
                after=after,
            )
        except StorageError:
            # The tokens cannot be stored (a full disk, say), and unless revoked they would stay valid.
            await self._provider.revoke(tokens)
            raise


@contextmanager
def uninterrupted() -> Generator[None]:
    """Shield a block from cancellation: by a browser that disconnects, or by a server that stops.

    Nothing else knows the tokens of a code exchange, so they must be stored or revoked.
    """
    with anyio.CancelScope(shield=True):
        yield
