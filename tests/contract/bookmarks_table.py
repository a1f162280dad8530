"""How the recordings of Bookmarks are replayed."""

from tests.contract.recording import load
from tests.contract.replay import Case, Session, Step, Table, case
from tests.contract.steps import BOOKMARKS as BASE
from tests.contract.steps import JSON, expect

_FOLDER, _BOOKMARK = "12", "116"
# The ticket lets a page load the pictures; what is available is found out afterwards.
_IGNORED = ("ticket", "available", "added", "lastmodified")


def recorded(*steps: Step) -> Case:
    """Make a case in which the times do not count."""
    return case(*steps, ignore=_IGNORED)


def sent(name: str, method: str, path: str, number: str | None = None) -> Step:
    """Send a recorded request; the id it gives stands for the recorded one."""

    async def step(session: Session) -> None:
        body = session.translate(load(f"bookmarks/{name}").body.decode()).encode()
        where = session.translate(f"{BASE}/{path}")
        headers = {**JSON, "OCS-APIRequest": "true"}
        answer = expect(await session.server.send(method, where, headers=headers, body=body), 200, 400)
        if number is not None:
            session.bind(number, answer.json()["item"]["id"])

    return step


FOLDER = sent("folder_create_200", "POST", "folder", _FOLDER)
MADE = sent("create_200", "POST", "bookmark", _BOOKMARK)
CHANGED = sent("update_200", "PUT", f"bookmark/{_BOOKMARK}")
HALF_CHANGED = sent("update_same_tag_twice_400", "PUT", f"bookmark/{_BOOKMARK}")
TRASHED = sent("trash_200", "DELETE", f"folder/-1/bookmarks/{_BOOKMARK}")

BOOKMARKS: Table = {
    "bookmarks/create_200": recorded(FOLDER),
    "bookmarks/create_from_trash_200": recorded(FOLDER, MADE, CHANGED, HALF_CHANGED, TRASHED),
    "bookmarks/find_200": recorded(FOLDER, MADE),
    "bookmarks/find_empty_200": recorded(FOLDER, MADE),
    "bookmarks/find_no_address_400": recorded(),
    "bookmarks/find_no_folder_400": recorded(),
    "bookmarks/folder_create_200": recorded(),
    "bookmarks/folders_200": recorded(FOLDER),
    "bookmarks/folders_empty_200": recorded(),
    "bookmarks/get_200": recorded(FOLDER, MADE),
    "bookmarks/get_404": recorded(),
    "bookmarks/trash_200": recorded(FOLDER, MADE, CHANGED),
    "bookmarks/update_200": recorded(FOLDER, MADE),
    "bookmarks/update_404": recorded(),
    "bookmarks/update_same_tag_twice_400": recorded(FOLDER, MADE),
    "bookmarks/update_to_no_folder_200": recorded(FOLDER, MADE),
}
