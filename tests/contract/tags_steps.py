"""Steps for files that have versions, tags and comments."""

import json
import re
from urllib.parse import quote

from tests.contract.replay import Session, Step
from tests.contract.steps import FILES, expect, file

_PATH = "Rec/versioned.txt"
_JSON = {"Content-Type": "application/json"}
_NAME = "rec-tag"
_IDS = (
    b'<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns">'
    b"<d:prop><oc:fileid/><oc:id/><oc:display-name/></d:prop></d:propfind>"
)


def versioned_file(recorded_id: str, *texts: tuple[str, int]) -> Step:
    """Write a file repeatedly, at the recorded times; `recorded_id` is the file id it stands for."""

    async def step(session: Session) -> None:
        for text, moment in texts:
            await file(_PATH, text, headers={"X-OC-MTime": str(moment)})(session)
        answer = await session.server.send(
            "PROPFIND", f"{FILES}/alice/{quote(_PATH)}", body=_IDS, headers={"Depth": "0"}
        )
        found = re.search(r"fileid>(\d+)<", expect(answer, 207).text)
        assert found is not None, answer.text
        session.bind(recorded_id, found[1])

    return step


async def restored(session: Session) -> None:
    """Restore the first version."""
    path = session.translate("/remote.php/dav/versions/alice/versions/271/1795813521")
    target = f"{session.server.base}/remote.php/dav/versions/alice/restore/target"
    expect(await session.server.send("MOVE", path, headers={"Destination": target}), 201)


async def _tag_id(session: Session) -> str | None:
    answer = await session.server.send(
        "PROPFIND", "/remote.php/dav/systemtags/", body=_IDS, headers={"Depth": "1"}
    )
    found = re.search(rf"id>(\d+)</oc:id><oc:display-name>{_NAME}<", expect(answer, 207).text)
    return None if found is None else found[1]


async def no_tag(session: Session) -> None:
    """Delete the tag as administrator, if it exists."""
    tag_id = await _tag_id(session)
    if tag_id is not None:
        expect(
            await session.server.send("DELETE", f"/remote.php/dav/systemtags/{tag_id}", person="admin"), 204
        )


async def rec_tag(session: Session) -> None:
    """Make sure that the tag exists; its id stands for the recorded one."""
    if await _tag_id(session) is None:
        body = json.dumps({"name": _NAME, "userVisible": True, "userAssignable": True}).encode()
        answer = await session.server.send("POST", "/remote.php/dav/systemtags/", headers=_JSON, body=body)
        expect(answer, 201)
    tag_id, file_id = await _tag_id(session), session.bound.get("271", "271")
    for before in (
        "systemtags/",
        "systemtags/files/271/",
        "systemtags-relations/files/271/",
        "tag ",
        "<oc:systemtag>",
    ):
        session.bind(f"{before}1", f"{before.replace('271', file_id)}{tag_id}")


async def tagged(session: Session) -> None:
    """Put the tag on the file."""
    path = session.translate("/remote.php/dav/systemtags-relations/files/271/1")
    expect(await session.server.send("PUT", path), 201)


def comment(text: str) -> Step:
    """Comment on the file; the comment's id stands for the recorded one."""

    async def step(session: Session) -> None:
        path = session.translate("/remote.php/dav/comments/files/271/")
        body = json.dumps({"actorType": "users", "verb": "comment", "message": text}).encode()
        answer = expect(await session.server.send("POST", path, headers=_JSON, body=body), 201)
        made = answer.headers["Content-Location"].rpartition("/")[2]
        session.bind("comments/files/271/1", f"comments/files/{session.bound['271']}/{made}")

    return step
