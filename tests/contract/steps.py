"""Steps that bring a server into the state a recording needs, all of them over HTTP."""

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import quote, unquote
from xml.etree import ElementTree as ET

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.contract.recording import load
from tests.contract.replay import Session, Step
from tests.contract.server import Server

FILES = "/remote.php/dav/files"
NOTES = "/index.php/apps/notes/api/v1/notes"
BOARDS = "/index.php/apps/deck/api/v1.0/boards"
TABLES = "/index.php/apps/tables/api/1/tables"
RECIPES = "/index.php/apps/cookbook/api/v1/recipes"
COLLECTIVES = "/ocs/v2.php/apps/collectives/api/v1.0/collectives"
FORMS = "/ocs/v2.php/apps/forms/api/v3/forms"
BOOKMARKS = "/index.php/apps/bookmarks/public/rest/v2"
JSON = {"Content-Type": "application/json", "Accept": "application/json"}
_FAVORITE = (
    b'<?xml version="1.0"?><d:propertyupdate xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns">'
    b"<d:set><d:prop><oc:favorite>1</oc:favorite></d:prop></d:set></d:propertyupdate>"
)
_TRASH_PROPS = (
    b'<d:propfind xmlns:d="DAV:" xmlns:nc="http://nextcloud.org/ns">'
    b"<d:prop><nc:trashbin-filename/></d:prop></d:propfind>"
)


def expect(response: httpx2.Response, *statuses: int) -> httpx2.Response:
    """Fail when a set-up step fails: comparing would only confuse."""
    assert response.status_code in statuses, f"set-up failed: {response.status_code} {response.text[:300]}"
    return response


async def clean(server: Server, area: str | None = None) -> None:
    """Remove the data of earlier tests; a sandbox is new for each test.

    A recording of one area uses only that area; cleaning it alone takes a third of the time.
    """
    if server.sandbox is not None:
        return
    alone = clean_bookmarks if area == "bookmarks" else _OF_AREA.get(area or "")
    wanted = _OF_AREA.values() if alone is None else [alone]
    for person in ("alice", "bob"):
        for remove in wanted:
            await remove(server, person)


async def _clean_files(server: Server, person: str) -> None:
    send = server.send
    for path in ("Rec", "x"):
        await send("DELETE", f"{FILES}/{person}/{path}", person=person)
    for note in (await send("GET", f"{NOTES}?exclude=content", person=person)).json():
        await send("DELETE", f"{NOTES}/{note['id']}", person=person)
    await send("DELETE", f"/remote.php/dav/trashbin/{person}/trash", person=person)
    for upload in ("rec-upload-1", "rec-upload-2"):
        await send("DELETE", f"/remote.php/dav/uploads/{person}/{upload}", person=person)


async def _clean_calendars(server: Server, person: str) -> None:
    path, no_trash = f"/remote.php/dav/calendars/{person}/rec-cal/", {"X-NC-CalDAV-No-Trashbin": "1"}
    await server.send("DELETE", path, person=person, headers=no_trash)


async def _clean_contacts(server: Server, person: str) -> None:
    await server.send("DELETE", f"/remote.php/dav/addressbooks/users/{person}/rec-book/", person=person)


async def _clean_boards(server: Server, person: str) -> None:
    await _delete_each(server, person, BOARDS)


async def _clean_tables(server: Server, person: str) -> None:
    await _delete_each(server, person, TABLES)


async def _clean_recipes(server: Server, person: str) -> None:
    await _delete_each(server, person, RECIPES)


async def _clean_forms(server: Server, person: str) -> None:
    await _delete_each(server, person, FORMS, "ocs", "data")


async def _clean_collectives(server: Server, person: str) -> None:
    where = ("ocs", "data", "collectives")
    await _delete_each(server, person, COLLECTIVES, *where)
    # A collective in the trash still occupies its name.
    await _delete_each(server, person, f"{COLLECTIVES}/trash", *where, query="?circle=1")


async def clean_bookmarks(server: Server, person: str) -> None:
    """Delete all bookmarks and folders of a user; no other tests make any."""
    headers = {**JSON, "OCS-APIRequest": "true"}
    for path in ("bookmark?page=-1", "bookmark?page=-1&deleted=true", "folder"):
        answer = await server.send("GET", f"{BOOKMARKS}/{path}", person=person, headers=headers)
        for one in expect(answer, 200).json()["data"]:
            where = f"{BOOKMARKS}/{path.partition('?')[0]}/{one['id']}"
            expect(await server.send("DELETE", where, person=person, headers=headers), 200)


_OF_AREA = {
    "shares": _clean_files,
    "caldav": _clean_calendars,
    "carddav": _clean_contacts,
    "deck": _clean_boards,
    "tables": _clean_tables,
    "collectives": _clean_collectives,
    "forms": _clean_forms,
    "cookbook": _clean_recipes,
}


async def _delete_each(server: Server, person: str, path: str, *where: str, query: str = "") -> None:
    """Delete all data of a user in an app; do nothing where it is not installed."""
    headers = {**JSON, "OCS-APIRequest": "true"}
    answer = await server.send("GET", path, person=person, headers=headers)
    if answer.status_code == 404:
        return
    found: Any = expect(answer, 200).json()
    for name in where:
        found = found[name]
    for one in found:
        if one.get("deletedAt"):
            # Deck lists deleted boards until it removes them, some minutes later.
            continue
        await server.send("DELETE", f"{path}/{one['id']}{query}", person=person, headers=headers)


async def learn_names(session: Session) -> None:
    """Bind the names of a real server's users, and give them the recorded addresses once."""
    if session.server.sandbox is not None:
        return
    for uid, name in (("alice", "Alice Example"), ("bob", "Bob Builder")):
        if uid not in session.server.display_names:
            answer = await session.server.send(
                "GET", "/ocs/v2.php/cloud/user?format=json", person=uid, headers={"OCS-APIRequest": "true"}
            )
            data = answer.json()["ocs"]["data"]
            session.server.display_names[uid] = data["displayname"]
            if data["email"] != f"{uid}@example.test":
                await set_email(session.server, uid)
        session.bind(name, session.server.display_names[uid])


async def set_email(server: Server, uid: str) -> None:
    """Give a real server's user the address of the recordings."""
    headers = {"OCS-APIRequest": "true", "Content-Type": "application/json"}
    body = json.dumps({"key": "email", "value": f"{uid}@example.test"}).encode()
    path = f"/ocs/v2.php/cloud/users/{uid}"
    expect(await server.send("PUT", path, person=uid, headers=headers, body=body), 200)


def folder(path: str) -> Step:
    """Create a folder and its parents."""

    async def step(session: Session) -> None:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            target = f"{FILES}/alice/{quote('/'.join(parts[:depth]))}"
            expect(await session.server.send("MKCOL", target), 201, 405)

    return step


def file(
    path: str, body: str = "x", *, etag: str | None = None, headers: Mapping[str, str] | None = None
) -> Step:
    """Write a file and its folder; `etag` is the recorded one it stands for."""

    async def step(session: Session) -> None:
        await folder(path.rpartition("/")[0])(session)
        target = f"{FILES}/alice/{quote(path)}"
        answer = expect(
            await session.server.send("PUT", target, body=body.encode(), headers=headers), 201, 204
        )
        if etag is not None:
            session.bind(etag, answer.headers["ETag"].strip('"'))

    return step


def as_in(name: str, *, person: str | None = None) -> Step:
    """Send the request of another recording first."""

    async def step(session: Session) -> None:
        earlier = Session(session.server, load(name), person=person, bound=session.bound)
        expect(await earlier.replay(), 201)

    return step


def upload_begun(name: str) -> Step:
    """Create the folder for the chunks of an upload."""

    async def step(session: Session) -> None:
        expect(await session.server.send("MKCOL", f"/remote.php/dav/uploads/alice/{name}"), 201)

    return step


def favorite(path: str) -> Step:
    """Mark a file as favourite."""

    async def step(session: Session) -> None:
        expect(await session.server.send("PROPPATCH", f"{FILES}/alice/{quote(path)}", body=_FAVORITE), 207)

    return step


def files_as_in(name: str) -> Step:
    """Create the files and folders that a recorded multistatus lists, with their sizes."""

    async def step(session: Session) -> None:
        text = load(name).text
        if not text.rstrip().endswith("</d:multistatus>"):
            text = text[: text.rindex("</d:response>")] + "</d:response></d:multistatus>"
        for response in ET.fromstring(text).iterfind("{DAV:}response"):
            path = unquote(response.findtext("{DAV:}href", "").removeprefix(f"{FILES}/alice/")).rstrip("/")
            if response.find(".//{DAV:}collection") is not None:
                await folder(path)(session)
                continue
            size = response.findtext(".//{DAV:}getcontentlength") or response.findtext(".//{*}size") or "0"
            await file(path, "x" * int(size))(session)

    return step


def deleted(path: str, body: str, recorded_time: int) -> Step:
    """Write and delete a file; the time of deletion stands for the recorded one."""

    async def step(session: Session) -> None:
        await file(path, body)(session)
        expect(await session.server.send("DELETE", f"{FILES}/alice/{quote(path)}"), 204)
        answer = await session.server.send(
            "PROPFIND", "/remote.php/dav/trashbin/alice/trash", body=_TRASH_PROPS, headers={"Depth": "1"}
        )
        name = quote(path.rpartition("/")[2])
        found = re.search(rf"/{re.escape(name)}\.(d\d+)<", answer.text, re.IGNORECASE)
        assert found is not None, answer.text
        session.bind(f"d{recorded_time}", found[1])

    return step


def trash_entry_removed(name: str) -> Step:
    """Delete a trash entry permanently; `name` is its recorded path."""

    async def step(session: Session) -> None:
        path = session.translate(f"/remote.php/dav/trashbin/alice/trash/{name}")
        expect(await session.server.send("DELETE", path), 204)

    return step


def note(**fields: str | int) -> Step:
    """Create a note; `id` and `etag` are the recorded ones it stands for."""

    async def step(session: Session) -> None:
        sent = {key: value for key, value in fields.items() if key not in {"id", "etag"}}
        answer = await session.server.send("POST", NOTES, headers=JSON, body=json.dumps(sent).encode())
        made = expect(answer, 200).json()
        if "id" in fields:
            session.bind(fields["id"], made["id"])
        if "etag" in fields:
            session.bind(fields["etag"], made["etag"])

    return step


def notes_as_in(name: str, *, skip: tuple[int, ...] = ()) -> Step:
    """Create the notes of a recorded answer, in the order of their ids."""

    async def step(session: Session) -> None:
        found = load(name).json
        items = cast("list[dict[str, Any]]", found if isinstance(found, list) else [found])
        for item in sorted(items, key=lambda item: item["id"]):
            if "title" in item and item["id"] not in skip:
                keep = ("id", "title", "category", "content", "favorite", "modified", "etag")
                await note(**{key: item[key] for key in keep if key in item})(session)

    return step


def soon(recorded: int) -> Step:
    """Let ten seconds from now stand for a recorded time."""

    async def step(session: Session) -> None:
        session.bind(recorded, int(time.time()) + 10)

    return step


def note_removed(note_id: int) -> Step:
    """Delete a note; the id is the recorded one."""

    async def step(session: Session) -> None:
        expect(await session.server.send("DELETE", session.translate(f"{NOTES}/{note_id}")), 200)

    return step


def settings(**fields: str) -> Step:
    """Change the settings of the Notes app."""

    async def step(session: Session) -> None:
        path = "/index.php/apps/notes/api/v1/settings"
        expect(await session.server.send("PUT", path, headers=JSON, body=json.dumps(fields).encode()), 200)

    return step


def header_of(name: str, header: str) -> Step:
    """Send another recorded request first, and bind a header of its response."""

    async def step(session: Session) -> None:
        earlier = load(name)
        headers = {key: value for key, value in earlier.headers.items() if key != "Authorization"}
        path = session.translate(earlier.path)
        answer = await session.server.send(earlier.method, path, headers=headers)
        recorded = earlier.answer_headers[header.lower()].strip('"')
        session.bind(recorded, answer.headers[header].strip('"'))

    return step


def attachment(recorded_name: str) -> Step:
    """Upload the recorded attachment to the recorded note."""

    async def step(session: Session) -> None:
        earlier = load("notes/attachment_upload")
        answer = await session.server.send(
            "POST",
            session.translate(earlier.path),
            headers={"Content-Type": earlier.headers["Content-Type"]},
            body=earlier.body,
        )
        session.bind(recorded_name, expect(answer, 200).json()["filename"])

    return step


def in_sandbox(change: Callable[[Sandbox], object]) -> Step:
    """Change the sandbox itself, where no HTTP request can."""

    async def step(session: Session) -> None:
        assert session.server.sandbox is not None
        change(session.server.sandbox)

    return step


def locked(path: str) -> Step:
    """Lock one of alice's files, as a running upload does."""
    return in_sandbox(lambda sandbox: sandbox.state.users["alice"].files.lock(path))


def full(uid: str) -> Step:
    """Leave no room in a user's quota."""

    def change(sandbox: Sandbox) -> None:
        files = sandbox.state.users[uid].files
        files.put("/Photo.jpg", b"x" * 20)
        files.quota_bytes = 1

    return in_sandbox(change)


async def away(session: Session) -> None:
    """Set the status of alice to away."""
    path = "/ocs/v2.php/apps/user_status/api/v1/user_status/status"
    body, headers = b'{"statusType": "away"}', {**JSON, "OCS-APIRequest": "true"}
    expect(await session.server.send("PUT", path, headers=headers, body=body), 200)
