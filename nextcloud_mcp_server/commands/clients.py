"""Lists the chat clients that users have added, and revokes one for every user (MODE=builtin)."""

import anyio

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.auth.builtin.document_source import host_of
from nextcloud_mcp_server.auth.builtin.redirects import shown
from nextcloud_mcp_server.commands.accounts import table
from nextcloud_mcp_server.commands.console import result, result_json, say
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.logs import one_line
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.oauth_records import Client

_HEADER = ("CLIENT ID", "CLIENT", "KNOWN BY", "RETURNS TO", "LAST USED", "USERS SIGNED IN")


def list_clients(settings: Settings, *, as_json: bool = False) -> None:
    """Print every known client, the oldest first."""
    _require(settings)
    logs.set_up(settings.log_level, settings.log_format)
    clients, users = anyio.run(_all, settings)
    if as_json:
        result_json([_fields(client, users.get(client.client_id, 0)) for client in clients], indent=2)
    elif not clients:
        say(f"No client is known yet. Each user adds {settings.resource_url} to a chat client.")
    else:
        for line in table([_HEADER, *(_row(client, users.get(client.client_id, 0)) for client in clients)]):
            result(line)


def revoke_client(settings: Settings, client_id: str) -> None:
    """Delete a client with its grants and sign-ins, for every user.

    Raises:
      ConfigurationError: There is no client with this id.
    """
    _require(settings)
    logs.set_up(settings.log_level, settings.log_format)
    if not anyio.run(_revoke, settings, client_id):
        raise ConfigurationError(
            f"No client has the id {client_id!r}: 'nextcloud-mcp-server clients list' shows them all."
        )
    result(
        f"{client_id} is forgotten with all that users allowed it, and signed out for all users. It can come back "
        "and ask them anew: DENIED_CLIENTS keeps clients out."
    )


def _row(client: Client, users: int) -> tuple[str, ...]:
    host = _host(client)
    cells = (
        client.client_id,
        client.name or "(no name)",
        "registered itself" if host is None else f"described by {host}",
        ", ".join(_places(client)),
        f"{client.last_used_at:%Y-%m-%d}" if client.last_used_at else "not yet",
        str(users),
    )
    return tuple(map(one_line, cells))


def _fields(client: Client, users: int) -> dict[str, object]:
    return {
        "id": client.client_id,
        "name": client.name,
        "described_by": _host(client),
        "leads_to": _places(client),
        "created_at": client.created_at.isoformat(),
        "last_used_at": client.last_used_at.isoformat() if client.last_used_at else None,
        "users": users,
    }


def _host(client: Client) -> str | None:
    return host_of(client.client_id) if client.kind == "document" else None


def _places(client: Client) -> list[str]:
    return list(dict.fromkeys(map(shown, client.redirect_uris)))


def _require(settings: Settings) -> None:
    if settings.mode != "builtin":
        raise ConfigurationError(
            f"clients is for MODE=builtin: with MODE={settings.mode} this server registers no clients. Run it with the "
            "environment that the server has."
        )


async def _all(settings: Settings) -> tuple[list[Client], dict[str, int]]:
    async with open_database(settings) as database:
        return await database.clients.all(), await database.oauth_tokens.count_users()


async def _revoke(settings: Settings, client_id: str) -> bool:
    async with open_database(settings) as database:
        return await database.clients.delete(client_id)
