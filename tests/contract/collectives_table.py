"""How the recordings of Collectives are replayed."""

from tests.contract.recording import load
from tests.contract.replay import Session, Step, Table, case
from tests.contract.steps import JSON, expect

_VARIES = (
    "circleId",
    "timestamp",
    "size",
    # Whether a team of that name existed already.
    "info",
    # 1 here, like the id of the recorded collective.
    "editPermissionLevel",
    "sharePermissionLevel",
    # Since 4.5.
    "userNotify",
    "collectiveNameWithEmoji",
)


def _sent(*names: str) -> Step:
    """Send earlier recordings first; the created collective stands for the recorded one."""

    async def step(session: Session) -> None:
        for name in names:
            earlier = load(name)
            headers = {**JSON, "OCS-APIRequest": "true"}
            path = session.translate(earlier.path)
            answer = await session.server.send(earlier.method, path, headers=headers, body=earlier.body)
            collective = expect(answer, 200).json()["ocs"]["data"]["collective"]
            session.bind(earlier.json["ocs"]["data"]["collective"]["id"], collective["id"])

    return step


_MADE = _sent("collectives/create")

COLLECTIVES: Table = {
    "collectives/create": case(ignore=_VARIES),
    "collectives/delete": case(_MADE, _sent("collectives/trash"), ignore=_VARIES),
    "collectives/list": case(),
    # Between releases they gain members, and the folder a dot.
    "collectives/pages": case(_MADE, ignore=(*_VARIES, "linkedPageIds", "collectivePath")),
    "collectives/trash": case(_MADE, ignore=_VARIES),
}

NOT_REPLAYED = {
    "collectives/page_create_500": "the app failed, and nothing tells why",
}
