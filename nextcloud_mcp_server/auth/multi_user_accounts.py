"""Accounts on a server for many users: a client ends its own permission, and only the user ends more."""

from nextcloud_mcp_server.auth.accounts import Disconnected, GrantedAccounts
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.storage.records import AuditEntry


class MultiUserAccounts(GrantedAccounts):
    """`GrantedAccounts` of users who each have several clients, and a page on which they end all of them."""

    async def disconnect(self, caller: Caller) -> Disconnected:
        """End what this client may do, and the tokens that this server gave it; other clients go on.

        A client that may do least could otherwise disconnect all the others.
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
