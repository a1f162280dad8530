"""Measures processes that share one grant with single-use refresh tokens, over many expiries."""

from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path

from pydantic import SecretStr

from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from tests.auth_fixtures import make_template, open_harness
from tests.oauth_fixtures import TOKEN, office_of
from tests.processes import open_workers

PROCESSES = 8
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Refreshes:
    """How often a new access token was requested from Nextcloud, and the results."""

    expiries: int
    refreshes: int
    refused: int
    failed_calls: int


async def refreshes(folder: Path, expiries: int) -> Refreshes:
    """Let every process make a call at the same time after each expiry of the access token."""
    key = new_key()
    async with open_harness(folder, await make_template(folder)) as harness, serving(harness.sandbox) as url:
        harness.keys = KeyRing.parse([SecretStr(key)])
        office = office_of(harness)
        await office.connect(await office.replica())
        harness.sandbox.requests.clear()
        asked: list[int] = []
        failed = 0
        async with open_workers(office, url, PROCESSES, keys=[key]) as workers:
            for _ in range(expiries):
                harness.clock.forward(HOUR.total_seconds())
                for worker in workers:
                    await worker.order(harness.clock())
                answers = [await worker.answer() for worker in workers]
                failed += sum(answer != {"uid": "alice"} for answer in answers)
                records = harness.sandbox.requests.records
                asked += [one.status for one in records if one.path.endswith(TOKEN)]
                harness.sandbox.requests.clear()
    refused = sum(status != HTTPStatus.OK for status in asked)
    return Refreshes(expiries, len(asked), refused, failed)
