"""A server process that issues tokens as its input lines say, and may be killed during it.

    reads   {"url", "key"}                                             first, once
            {"refresh": token, "times": number, "at": time, "kill": true | absent}
            {"exchange": code, "at": time, "kill": true | absent}
    writes  [refresh token or error, …]

`at` is the time of its clock. It is killed when the first of the rows is written, and the last is not.
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

from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.storage.crypto import KeyRing
from tests.tokens_fixtures import CALLBACK, CLIENT, RESOURCE, VERIFIER, Desk, Moment, open_desk, refresh_of


def kill_before_the_access_token_is_stored() -> None:
    """Set a trap for the next transaction."""

    def trap(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO access_tokens"):
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", trap)


async def ask(desk: Desk, order: dict[str, Any], answers: list[str]) -> None:
    try:
        if "exchange_code" in order:
            issued = await desk.tokens.exchange_code(
                order["exchange_code"],
                client_id=CLIENT,
                redirect_uri=CALLBACK,
                verifier=VERIFIER,
                resource=RESOURCE,
            )
        else:
            issued = await desk.tokens.refresh(
                order["refresh"], client_id=CLIENT, scopes=None, resource=RESOURCE
            )
        answers.append(refresh_of(issued))
    except NextcloudMcpError as error:
        answers.append(str(error))


async def main() -> None:
    settings: dict[str, Any] = json.loads(sys.stdin.readline())
    keys, moment = KeyRing.parse([SecretStr(settings["key"])]), Moment()
    async with open_desk(settings["url"], keys, moment) as desk:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            order: dict[str, Any] = json.loads(line)
            moment.now = datetime.fromisoformat(order["at"])
            if order.get("kill"):
                kill_before_the_access_token_is_stored()
            answers: list[str] = []
            async with anyio.create_task_group() as group:
                for _ in range(order.get("times", 1)):
                    group.start_soon(ask, desk, order, answers)
            sys.stdout.write(f"{json.dumps(answers)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(main)
