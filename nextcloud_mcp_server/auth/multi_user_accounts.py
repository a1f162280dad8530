"""Accounts on a multi-user server: a client ends only its own permission; the user ends the rest."""

from nextcloud_mcp_server.auth.accounts import Disconnected, GrantedAccounts
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.storage.records import AuditEntry


class MultiUserAccounts(GrantedAccounts):
    """`GrantedAccounts` of users with several clients each, and a page on which they end all of them."""

    async def disconnect(self, caller: Caller) -> Disconnected:
        """End this client's permission, and the tokens that this server issued to it.

        Other clients are not affected. Else the client with the fewest scopes could disconnect all the others.
        """
        audit = AuditEntry(
            at=self._provisioning.now(),
            principal=caller.principal,
            client_id=caller.client_id,
            action="permission",
            result="ended by the app",
        )
        ended = await self._database.grants.end_client(caller.principal, caller.client_id, audit=audit)
        self.forget()
        return Disconnected(was_connected=ended, at_nextcloud=False, account_url=self._account_url)
