"""Tries what a server needs: its database at the start, and each part whenever `/readyz` asks."""

import logging
from collections.abc import Mapping
from typing import Any

from nextcloud_mcp_server.errors import ForeignDatabase, StorageError, Unavailable
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.server.composition import ServerParts
from nextcloud_mcp_server.server.database_file import (
    database_file,
    has_state,
    is_current,
    refuse_unusable_file,
    refuse_unwritable,
)
from nextcloud_mcp_server.server.services import nextcloud_url_of, open_database, open_pool_of
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.web.health import Try

logger = logging.getLogger(__name__)


async def refuse_unusable_database(settings: Settings) -> None:
    """Open the database once before the server serves; PostgreSQL may come later.

    A single-user server opens its file with the first call: it makes none before, and a file with the present schema
    and the server's keys was read already, which takes much less time.

    Raises:
        ConfigurationError: It was sealed with other keys, or its folder cannot be written.
        StorageError: It is not this server's, or its file cannot be used.
    """
    refuse_unwritable(settings)
    if not settings.multi_user and (not has_state(settings) or is_current(settings)):
        return
    try:
        async with open_database(settings):
            pass
    except ForeignDatabase:
        raise
    except StorageError as error:
        if database_file(settings) is not None:
            raise
        logger.warning("%s Until it answers no call works, and /readyz says so.", error)


def parts_to_try(parts: ServerParts[Any]) -> Mapping[str, Try]:
    """Return how to try the database, Nextcloud, and what else the mode needs."""
    mode = parts.mode
    settings = mode.settings

    async def database() -> None:
        refuse_unwritable(settings)
        if settings.multi_user or has_state(settings):
            refuse_unusable_file(settings)
            await (await parts.services.get()).database.sealing_keys.known()

    async def nextcloud() -> None:
        async with open_pool_of(settings, mode.overrides) as pool:
            info = await Nextcloud(nextcloud_url_of(settings), pool).server_info()
        if info.maintenance:
            raise Unavailable("Nextcloud is in maintenance mode.")

    return {"database": database, "nextcloud": nextcloud, **mode.parts_to_try()}
