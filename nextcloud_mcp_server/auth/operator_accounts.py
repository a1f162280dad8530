"""The one account of the app password in the operator's settings (single-user mode only)."""

from collections.abc import Callable

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.accounts import Connection, Disconnected, Opened
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import CredentialRejected, ElicitationUnknown, MissingScope
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential

#: Seconds until a refused credential is tried again; doubled after each refusal, up to the longest.
ASK_AGAIN_SECONDS, SLOWEST_ASK_AGAIN_SECONDS = 60.0, 3600.0

_REFUSED = (
    "Nextcloud refused NEXTCLOUD_USERNAME and NEXTCLOUD_APP_PASSWORD; make a new app password in Nextcloud "
    "under Settings > Security, put it into the settings and restart the server. If Nextcloud was mistaken, wait: it "
    "is asked again after a minute, and then less and less often."
)


class OperatorAccounts:
    """Opens the account of the app password in the operator's settings."""

    def __init__(
        self,
        nextcloud: Nextcloud,
        *,
        login_name: str,
        secret: SecretStr,
        bound: frozenset[str],
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._nextcloud = nextcloud
        self._credential = BasicCredential(login_name, secret)
        self._bound = bound
        self._opened: Opened | None = None
        self._name = login_name
        self._monotonic = monotonic
        self._again_at = 0.0
        self._pause = 0.0
        self._opening = anyio.Lock()

    @property
    def account_url(self) -> str:
        """See `Accounts.account_url`; the operator's account has no such page."""
        return ""

    async def open(self, caller: Caller, scopes: frozenset[str]) -> Opened:  # noqa: ARG002 - one account for all
        """See `Accounts.open`; it never raises `ElicitationRequired`, since there is no user to ask."""
        if missing := scopes - self._bound:
            raise MissingScope(
                f"This server's settings do not allow {', '.join(sorted(missing))}; tell the operator."
            )
        async with self._opening:
            # Checked inside the lock: of concurrent calls only the first may send the refused credential.
            if self._monotonic() < self._again_at:
                raise CredentialRejected(_REFUSED)
            if self._opened is None:
                self._opened = await self._open()
            return self._opened

    async def _open(self) -> Opened:
        try:
            user = await self._nextcloud.whoami(self._credential)
        except CredentialRejected:
            self._leave_alone()
            raise CredentialRejected(_REFUSED) from None
        self._pause = 0.0
        self._name = user.display_name or user.uid
        account = self._nextcloud.account(self._credential, uid=user.uid)
        return Opened(account, self._bound, "operator", 1)

    async def find(self, caller: Caller) -> Opened | None:
        """See `Accounts.find`."""
        try:
            return await self.open(caller, frozenset())
        except CredentialRejected:
            return None

    async def reject(self, caller: Caller, opened: Opened) -> None:  # noqa: ARG002 - one account for all
        """See `Accounts.reject`; the credential is tried again after a pause.

        The refusal may have been temporary.
        """
        self._nextcloud.forget(opened.account.uid)
        if self._opened is opened:
            self._opened = None
            self._leave_alone()

    def _leave_alone(self) -> None:
        self._pause = min(max(2 * self._pause, ASK_AGAIN_SECONDS), SLOWEST_ASK_AGAIN_SECONDS)
        self._again_at = self._monotonic() + self._pause

    async def decline(self, elicitation_id: str) -> None:  # noqa: ARG002 - see `Accounts.decline`
        """See `Accounts.decline`; there are no consent requests here."""
        raise ElicitationUnknown("There is nothing to decline.")

    async def connection(self, caller: Caller) -> Connection:
        """See `Accounts.connection`."""
        opened = await self.open(caller, frozenset())
        return Connection(
            connected=True,
            account_name=opened.account.uid,
            display_name=self._name,
            scopes=self._bound,
            needs_reauth=False,
            by_operator=True,
        )

    async def disconnect(self, caller: Caller) -> Disconnected:  # noqa: ARG002 - see `Accounts.disconnect`
        """Refuse: only the operator can remove a credential from the settings.

        Raises:
            MissingScope: Always.
        """
        raise MissingScope(
            "The operator gave this access in the server's settings (NEXTCLOUD_APP_PASSWORD); "
            "remove it there, and delete the app password in Nextcloud under Settings > Security."
        )
