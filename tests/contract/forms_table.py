"""How the recordings of Forms are replayed."""

from tests.contract.recording import load
from tests.contract.replay import Session, Step, Table, case
from tests.contract.steps import JSON, expect

_VARIES = ("hash", "formId", "order")


def _sent(*names: str) -> Step:
    """Send earlier recordings first; the created form stands for the recorded one."""

    async def step(session: Session) -> None:
        for name in names:
            earlier = load(name)
            headers = {**JSON, "OCS-APIRequest": "true"}
            path = session.translate(earlier.path)
            answer = await session.server.send(earlier.method, path, headers=headers, body=earlier.body)
            made = expect(answer, 200, 201).json()["ocs"]["data"]
            if name == "forms/create":
                session.bind(earlier.json["ocs"]["data"]["id"], made["id"])

    return step


_MADE = _sent("forms/create")
_ASKED = _sent("forms/create", "forms/update", "forms/question_create")

FORMS: Table = {
    "forms/create": case(ignore=_VARIES),
    "forms/delete": case(_ASKED),
    "forms/get": case(_ASKED, ignore=_VARIES),
    "forms/get_404": case(),
    "forms/list": case(),
    "forms/question_create": case(_MADE, ignore=_VARIES),
    "forms/submissions": case(_ASKED, ignore=_VARIES),
    "forms/update": case(_MADE),
}
