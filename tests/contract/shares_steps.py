"""Steps for files that are shared."""

import json

from tests.contract.replay import Session, Step
from tests.contract.steps import JSON, expect

_SHARES = "/ocs/v2.php/apps/files_sharing/api/v1/shares"
_OCS = {**JSON, "OCS-APIRequest": "true"}


async def no_shares(session: Session) -> None:
    """End all shares of alice."""
    listed = await session.server.send("GET", f"{_SHARES}?format=json", headers=_OCS)
    for share in expect(listed, 200).json()["ocs"]["data"]:
        expect(await session.server.send("DELETE", f"{_SHARES}/{share['id']}", headers=_OCS), 200)


def shared(recorded_id: str, **fields: object) -> Step:
    """Share a file of alice's; the id stands for the recorded one in URLs."""

    async def step(session: Session) -> None:
        body = json.dumps(fields).encode()
        answer = await session.server.send("POST", f"{_SHARES}?format=json", headers=_OCS, body=body)
        made = expect(answer, 200).json()["ocs"]["data"]["id"]
        session.bind(f"shares/{recorded_id}", f"shares/{made}")

    return step


def ended(recorded_id: str) -> Step:
    """End a share; the id is the recorded one."""

    async def step(session: Session) -> None:
        path = session.translate(f"{_SHARES}/{recorded_id}")
        expect(await session.server.send("DELETE", path, headers=_OCS), 200)

    return step


async def team(session: Session) -> None:
    """Create the group of the recordings, with alice and bob in it."""
    server = session.server
    if server.sandbox is not None:
        return
    groups, body = "/ocs/v2.php/cloud/groups", b'{"groupid": "team"}'
    # 400: it exists.
    expect(await server.send("POST", groups, person="admin", headers=_OCS, body=body), 200, 400)
    for uid in ("alice", "bob"):
        path = f"/ocs/v2.php/cloud/users/{uid}/groups"
        expect(await server.send("POST", path, person="admin", headers=_OCS, body=body), 200)
