"""Lists the chat clients that users have added, and revokes one for every user (MODE=builtin)."""

import anyio

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.auth.builtin.document_source import host_of
from nextcloud_mcp_server.auth.builtin.redirects import shown
from nextcloud_mcp_server.commands.console import result, say
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.oauth_records import Client


def list_clients(settings: Settings) -> None:
    """Print every known client, the oldest first."""
    _require(settings)
    logs.set_up(settings.log_level, settings.log_format)
    clients, people = anyio.run(_all, settings)
    if not clients:
        say(f"No client is known yet. People add {settings.resource_url} to their client.")
    for client in clients:
        result(line(client, people.get(client.client_id, 0)))


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
        f"{client_id} is forgotten with all that people allowed it, and signed out for all people. It can come back "
        "and ask them anew: DENIED_CLIENTS keeps clients out."
    )


def line(client: Client, people: int) -> str:
    """Return a line that describes one client."""
    host = host_of(client.client_id) if client.kind == "document" else None
    came = "registered itself" if host is None else f"described by {host}"
    places = ", ".join(dict.fromkeys(map(shown, client.redirect_uris)))
    used = f"{client.last_used_at:%Y-%m-%d}" if client.last_used_at else "never"
    signed_in = "no person is signed in" if not people else f"{people} signed in"
    name = client.name or "(no name)"
    return " · ".join([client.client_id, name, came, f"to {places}", f"last used {used}", signed_in])


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
