"""The ids of the keys that this database is sealed with, so that wrong keys are noticed at the start.

An id is derived from its key by HKDF and does not reveal it; each sealed value has the id of its key, too.
"""

import logging
from collections.abc import Collection

from sqlalchemy import delete, insert, select

from nextcloud_mcp_server.storage.key_rotation import KeyRotation
from nextcloud_mcp_server.storage.models import sealing_keys
from nextcloud_mcp_server.storage.recognition import refuse_keys
from nextcloud_mcp_server.storage.transaction import Transactions

logger = logging.getLogger(__name__)


class SealingKeyRepository:
    """Knows the keys of the database, and refuses others."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def known(self) -> frozenset[bytes]:
        """Return the ids of the keys that the database is sealed with; none if nothing has been sealed yet."""
        async with self._transactions.reading() as connection:
            found = (await connection.execute(select(sealing_keys.c.key_id))).scalars()
            return frozenset(found)

    async def adopt(self, *, source: str) -> None:
        """Refuse keys of another database; note the first one, which seals from now on.

        Raises:
            ConfigurationError: None of the keys is one of this database's; `source` has them.
        """
        ids = self._transactions.keys.ids
        known = await self.known()
        if lost := known.difference(ids) if known.intersection(ids) else ():
            logger.warning(
                "the database was also sealed with keys that are not in %s: %s. What they sealed is kept, and cannot "
                "be read until they are put back there; 'nextcloud-mcp-server keys status' counts it.",
                source,
                ", ".join(sorted(key_id.hex() for key_id in lost)),
            )
        if ids[0] in known:
            return
        # Rows from before this table was made say which key sealed them.
        before = frozenset[bytes]() if known else await self._of_rows()
        async with self._transactions.writing() as connection:
            # Another process may have noted its key meanwhile.
            known = frozenset((await connection.execute(select(sealing_keys.c.key_id))).scalars())
            refuse_keys(known or before, ids, source=source)
            if ids[0] not in known:
                await connection.execute(insert(sealing_keys).values(self._row(ids[0])))

    async def settle(self) -> None:
        """Note the first key and those that rows still need, and no other, after a rotation or the loss of a key."""
        kept = {self._transactions.keys.ids[0], *await self._of_rows()}
        async with self._transactions.writing() as connection:
            await connection.execute(delete(sealing_keys))
            await connection.execute(insert(sealing_keys), [self._row(key_id) for key_id in sorted(kept)])

    async def _of_rows(self) -> Collection[bytes]:
        return frozenset(rows.key_id for rows in await KeyRotation(self._transactions).counts())

    def _row(self, key_id: bytes) -> dict[str, object]:
        return {"key_id": key_id, "noted_at": self._transactions.now()}
