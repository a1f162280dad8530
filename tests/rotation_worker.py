"""A process that encrypts a database again with its first key, and kills itself at a given point.

reads   {"database", "keys", "goes_off_at"}     one line; a point is before a statement or commit
writes  {"passed": points}                      at its end
"""

import json
import os
import signal
import sys
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.lowlevel
from pydantic import SecretStr
from sqlalchemy import Engine, event

from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.engine import Database


async def main() -> None:
    given: dict[str, Any] = json.loads(sys.stdin.readline())
    passed = 0

    def point(*_: object) -> None:
        nonlocal passed
        passed += 1
        if passed == given["goes_off_at"]:
            os.kill(os.getpid(), signal.SIGKILL)

    keys = KeyRing.parse([SecretStr(key) for key in given["keys"]])
    database = await Database.open(given["database"], keys=keys, clock=lambda: datetime.now(UTC))
    for name in ("before_cursor_execute", "commit"):
        event.listen(Engine, name, point)
    await database.key_rotation.rotate(pause=anyio.lowlevel.checkpoint, progress=lambda _: None, batch_size=2)
    await database.aclose()
    sys.stdout.write(json.dumps({"passed": passed}))


if __name__ == "__main__":
    anyio.run(main)
