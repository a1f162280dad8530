"""A server process that completes authorization transactions, and may be killed during it.

    reads   {"url", "key"}                                    first, once
            {"do": "take", "state", "at": time}
            {"do": "connect" | "discard", "auth_transaction": id, "row": text, "at": time}
            {"do": "release", "at": time}
    writes  [whether it happened]

`at` is the time of its clock. With "kill" it is killed before the first statement that begins like that.
"""

import json
import os
import signal
import sys
from datetime import datetime
from typing import Any

import anyio
from pydantic import SecretStr
from sqlalchemy import Engine, event

from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.engine import Database
from tests.sign_in_fixtures import BROWSER, URL, connect
from tests.tokens_fixtures import Moment


def kill_before(beginning: str) -> None:
    """Set a trap for the next transaction."""

    def trap(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith(beginning):
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", trap)


async def carry_out(database: Database, order: dict[str, Any], moment: Moment) -> bool:
    auth_transactions = database.auth_transactions
    match order["do"]:
        case "take":
            return await auth_transactions.take(order["state"], browser=BROWSER) is not None
        case "discard":
            return await auth_transactions.discard(
                order["auth_transaction"], browser=BROWSER, nextcloud_url=URL
            )
        case "release":
            return await auth_transactions.release_due(nextcloud_url=URL) > 0
        case _:
            found = await auth_transactions.find(order["auth_transaction"], browser=BROWSER)
            if found is None or found.connected:
                return found is not None
            return await connect(database, found, moment, row=order["row"])


async def main() -> None:
    settings: dict[str, Any] = json.loads(sys.stdin.readline())
    keys, moment = KeyRing.parse([SecretStr(settings["key"])]), Moment()
    database = await Database.open(settings["url"], keys=keys, clock=moment)
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        order: dict[str, Any] = json.loads(line)
        moment.now = datetime.fromisoformat(order["at"])
        if "kill" in order:
            kill_before(order["kill"])
        happened = await carry_out(database, order, moment)
        sys.stdout.write(f"{json.dumps([happened])}\n")
        sys.stdout.flush()
    await database.aclose()


if __name__ == "__main__":
    anyio.run(main)
