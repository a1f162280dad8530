import base64
from collections.abc import Callable
from datetime import timedelta

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox

API = "/index.php/apps/notes/api/v1"
NOTES = f"{API}/notes"
ATTACHMENT = "/index.php/apps/notes/api/v1.4/attachment"
MISSING = '{"errorType":"OCA\\\\Notes\\\\Service\\\\NoteDoesNotExistException"}'
LOCKED = '{"errorType":"OCP\\\\Lock\\\\LockedException"}'


async def add(client: httpx2.AsyncClient, **fields: object) -> dict[str, object]:
    return (await client.post(NOTES, json=fields)).json()


async def test_a_new_note_comes_back_as_it_was_stored(alice: httpx2.AsyncClient) -> None:
    response = await alice.post(
        NOTES,
        json={
            "title": "Note 0",
            "content": "# Note 0\n\nbody 0 äöü 日本 🎉",
            "category": "",
            "favorite": True,
            "modified": 1700000000,
        },
    )

    note = response.json()
    assert response.status_code == 200
    assert response.headers["X-User-Id"] == "alice"
    assert response.headers["X-Notes-API-Versions"] == "0.2, 1.3, 1.4"
    assert {key: value for key, value in note.items() if key not in {"id", "etag"}} == {
        "title": "Note 0",
        "modified": 1700000000,
        "category": "",
        "favorite": True,
        "readonly": False,
        "internalPath": "/Notes/Note 0.md",
        "shareTypes": [],
        "isShared": False,
        "error": False,
        "errorType": "",
        "content": "# Note 0\n\nbody 0 äöü 日本 🎉",
    }
    # The recorded answer of this note, whose id and etag are as long, has this length.
    assert response.headers["Content-Length"] == "312"


@pytest.mark.parametrize(
    ("asked", "title", "path"),
    [
        ({"title": 'bad/name:*?"<>|\\ x'}, "badname x", "/Notes/badname x.md"),
        ({"title": "t", "category": "../../evil"}, "t", "/Notes/evil/t.md"),
        ({"title": "t", "category": ".hidden"}, "t", "/Notes/hidden/t.md"),
        ({"title": "t", "category": "Work/Projekt A"}, "t", "/Notes/Work/Projekt A/t.md"),
        ({"content": "first line as title\nsecond"}, "New note", "/Notes/New note.md"),
        ({"title": "# Head **bold**\nsecond"}, "Head bold", "/Notes/Head bold.md"),
        ({"title": "x" * 120}, "x" * 100, f"/Notes/{'x' * 100}.md"),
        ({"title": "..."}, "New note", "/Notes/New note.md"),
    ],
)
async def test_titles_and_categories_are_made_safe(
    alice: httpx2.AsyncClient, asked: dict[str, str], title: str, path: str
) -> None:
    note = await add(alice, **asked)

    assert (note["title"], note["internalPath"]) == (title, path)


async def test_a_taken_title_gets_a_number(alice: httpx2.AsyncClient) -> None:
    titles = [(await add(alice, title="Note 1", category="Work"))["title"] for _ in range(3)]
    elsewhere = await add(alice, title="Note 1")

    assert titles == ["Note 1", "Note 1 (2)", "Note 1 (3)"]
    assert elsewhere["title"] == "Note 1"


@pytest.mark.parametrize("body", [b"{}", b"", b"{broken", b"[1]", b"null"])
async def test_an_unreadable_body_creates_a_note(alice: httpx2.AsyncClient, body: bytes) -> None:
    response = await alice.post(NOTES, content=body, headers={"Content-Type": "application/json"})

    assert (response.status_code, response.json()["title"]) == (200, "New note")


async def test_a_form_creates_a_note_as_well(alice: httpx2.AsyncClient) -> None:
    response = await alice.post(NOTES, data={"title": "from a form", "favorite": "false", "modified": "12x"})

    note = response.json()
    assert (note["title"], note["favorite"], note["modified"]) == ("from a form", False, 12)


@pytest.mark.parametrize("fields", [{"title": 123, "content": ["x"]}, {"title": None}])
async def test_wrong_types_are_an_html_error(alice: httpx2.AsyncClient, fields: dict[str, object]) -> None:
    response = await alice.post(NOTES, json=fields)

    assert (response.status_code, response.headers["Content-Type"]) == (500, "text/html; charset=UTF-8")
    assert "X-User-Id" not in response.headers


async def test_a_modified_time_that_is_no_number_means_now(alice: httpx2.AsyncClient) -> None:
    note = await add(alice, title="t", modified="soon")
    flag = await add(alice, title="t", modified=True)

    assert (note["modified"], flag["modified"]) == (1795813607, 1)


async def test_a_note_is_read_with_its_etag_in_the_header(alice: httpx2.AsyncClient) -> None:
    note = await add(alice, title="Note 2", content="text")

    response = await alice.get(f"{NOTES}/{note['id']}")

    assert response.json() == note
    assert response.headers["ETag"] == f'"{note["etag"]}"'


async def test_a_note_without_content_keeps_its_etag(alice: httpx2.AsyncClient) -> None:
    note = await add(alice, title="Note 2", content="text")

    response = await alice.get(f"{NOTES}/{note['id']}?exclude=content,etag")

    del note["content"]
    assert response.json() == note


async def test_an_unchanged_note_is_304(alice: httpx2.AsyncClient) -> None:
    note = await add(alice, title="Note 2")

    response = await alice.get(f"{NOTES}/{note['id']}", headers={"If-None-Match": f'"{note["etag"]}"'})

    assert (response.status_code, response.content) == (304, b"")
    assert (response.headers["ETag"], response.headers["X-User-Id"]) == (f'"{note["etag"]}"', "alice")


async def test_the_note_of_another_user_does_not_exist(
    alice: httpx2.AsyncClient, bob: httpx2.AsyncClient
) -> None:
    note = await add(alice, title="Note 2")

    response = await bob.get(f"{NOTES}/{note['id']}")

    assert (response.status_code, response.text) == (404, MISSING)
    assert response.headers["X-User-Id"] == "bob"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_note_that_does_not_exist_is_404(alice: httpx2.AsyncClient, method: str) -> None:
    response = await alice.request(method, f"{NOTES}/999999", json={"content": "x"})

    assert (response.status_code, response.text) == (404, MISSING)


@pytest.mark.parametrize(
    "path", ["v1/notes/abc", "v1.9/notes", "v1/attachment/318?path=x.png", "v1/something"]
)
async def test_an_unknown_path_of_the_api_is_400(alice: httpx2.AsyncClient, path: str) -> None:
    response = await alice.get(f"/index.php/apps/notes/api/{path}")

    assert (response.status_code, response.text, response.headers["X-User-Id"]) == (400, "[]", "alice")


async def test_an_unknown_path_for_another_method_is_405(alice: httpx2.AsyncClient) -> None:
    response = await alice.post(f"{API}/attachment/318")

    assert (response.status_code, response.text) == (405, "")


async def test_an_update_with_the_current_etag_succeeds(
    alice: httpx2.AsyncClient, advance: Callable[[timedelta], None]
) -> None:
    note = await add(alice, title="Note 2", content="old", modified=1700000002)
    advance(timedelta(seconds=2))

    response = await alice.put(
        f"{NOTES}/{note['id']}", json={"content": "# updated\n"}, headers={"If-Match": f'"{note["etag"]}"'}
    )

    updated = response.json()
    assert (response.status_code, updated["content"], updated["modified"]) == (200, "# updated\n", 1795813609)
    assert updated["etag"] != note["etag"]


@pytest.mark.parametrize("etag", ['"{old}"', "{now}", "*", 'W/"{now}"'])
async def test_any_other_if_match_is_412_with_the_current_note(alice: httpx2.AsyncClient, etag: str) -> None:
    note = await add(alice, title="Note 2", content="old")
    current = (await alice.put(f"{NOTES}/{note['id']}", json={"content": "new"})).json()
    if_match = etag.format(old=note["etag"], now=current["etag"])

    response = await alice.put(
        f"{NOTES}/{note['id']}", json={"content": "lost"}, headers={"If-Match": if_match}
    )

    assert (response.status_code, response.json()) == (412, current)


async def test_etags_change_within_a_second(alice: httpx2.AsyncClient) -> None:
    note = await add(alice, title="t", content="0")

    etags = [
        (await alice.put(f"{NOTES}/{note['id']}", json=fields)).json()["etag"]
        for fields in ({"content": "1"}, {"content": "2"}, {"favorite": True}, {"modified": 5})
    ]

    assert len({note["etag"], *etags}) == 5


async def test_an_update_of_nothing_changes_nothing(alice: httpx2.AsyncClient) -> None:
    note = await add(alice, title="t", content="0", modified=1500000000)

    response = await alice.put(f"{NOTES}/{note['id']}", json={})

    assert response.json() == note


async def test_a_new_title_moves_the_file_and_keeps_the_id_and_the_time(alice: httpx2.AsyncClient) -> None:
    note = await add(alice, title="Note 2", category="Work", modified=1700000002)

    response = await alice.put(f"{NOTES}/{note['id']}", json={"title": "Renamed note"})

    renamed = response.json()
    assert (renamed["id"], renamed["modified"]) == (note["id"], 1700000002)
    assert renamed["internalPath"] == "/Notes/Work/Renamed note.md"


async def test_a_new_title_that_is_taken_gets_a_number(alice: httpx2.AsyncClient) -> None:
    await add(alice, title="Note 0")
    note = await add(alice, title="Note 2", category="Work")

    response = await alice.put(f"{NOTES}/{note['id']}", json={"title": "Note 0", "category": ""})

    assert (response.json()["title"], response.json()["category"]) == ("Note 0 (2)", "")


async def test_a_title_that_stays_is_not_numbered(alice: httpx2.AsyncClient) -> None:
    note = await add(alice, title="Note 0")

    response = await alice.put(f"{NOTES}/{note['id']}", json={"title": "Note 0"})

    assert response.json()["title"] == "Note 0"


async def test_a_new_category_leaves_no_empty_folder_behind(
    sandbox: Sandbox, alice: httpx2.AsyncClient
) -> None:
    note = await add(alice, title="t", category="Work/Deep")

    response = await alice.put(f"{NOTES}/{note['id']}", json={"category": "New/Deep/Cat"})

    assert response.json()["category"] == "New/Deep/Cat"
    assert sandbox.state.users["alice"].files.find("/Notes/Work") is None


async def test_a_deleted_note_lies_in_the_trash_and_can_come_back(
    sandbox: Sandbox, alice: httpx2.AsyncClient
) -> None:
    note = await add(alice, title="Note 6", content="text")
    files = sandbox.state.users["alice"].files

    response = await alice.delete(f"{NOTES}/{note['id']}")
    gone = await alice.get(f"{NOTES}/{note['id']}")
    files.restore(files.trash[0])
    back = await alice.get(f"{NOTES}/{note['id']}")

    assert (response.status_code, response.text, response.headers["X-User-Id"]) == (200, "[]", "alice")
    assert (gone.status_code, back.json()["content"]) == (404, "text")


async def test_a_locked_note_is_200_with_an_error_and_cannot_be_written(
    sandbox: Sandbox, alice: httpx2.AsyncClient
) -> None:
    note = await add(alice, title="Note 0", content="text")
    sandbox.state.users["alice"].files.lock("/Notes/Note 0.md")
    url = f"{NOTES}/{note['id']}"

    read = await alice.get(url)
    listed = await alice.get(NOTES)
    written = await alice.put(url, json={"content": "z"}, headers={"If-Match": f'"{note["etag"]}"'})
    deleted = await alice.delete(url)

    assert read.status_code == 200
    assert (read.json()["error"], read.json()["readonly"]) == (True, True)
    assert read.json()["etag"] != note["etag"]
    assert read.json()["content"] == "Error: OCP\\Lock\\LockedException"
    assert listed.json() == [read.json()]
    assert (written.status_code, written.text) == (423, LOCKED)
    assert (deleted.status_code, deleted.text) == (423, LOCKED)


async def test_a_note_shared_for_reading_cannot_be_changed(
    sandbox: Sandbox, alice: httpx2.AsyncClient
) -> None:
    note = await add(alice, title="Note 0", content="text")
    sandbox.state.users["alice"].files.get("/Notes/Note 0.md").readonly = True
    url = f"{NOTES}/{note['id']}"

    read = await alice.get(url)
    refused = [await alice.put(url, json={"content": "z"}), await alice.delete(url)]

    assert read.json()["readonly"] is True
    assert {(response.status_code, response.text) for response in refused} == {
        (403, '{"errorType":"OCA\\\\Notes\\\\Service\\\\NoteNotWritableException"}')
    }


async def test_a_full_account_is_507(sandbox: Sandbox, alice: httpx2.AsyncClient) -> None:
    sandbox.state.users["alice"].quota_bytes = 10

    response = await alice.post(NOTES, json={"title": "t", "content": "x" * 11})

    assert response.status_code == 507


async def test_a_category_that_is_no_name_for_a_folder_is_500(alice: httpx2.AsyncClient) -> None:
    response = await alice.post(NOTES, json={"title": "t", "category": "x" * 300})

    assert response.status_code == 500


async def test_a_preflight_is_answered(anonymous: httpx2.AsyncClient) -> None:
    response = await anonymous.options(NOTES, headers={"Origin": "http://x.test"})

    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["Access-Control-Allow-Origin"] == "http://x.test"
    assert response.headers["Access-Control-Allow-Methods"] == "PUT, POST, GET, DELETE, PATCH"


async def test_settings_are_made_safe_and_take_effect(sandbox: Sandbox, alice: httpx2.AsyncClient) -> None:
    bad = await alice.put(f"{API}/settings", json={"fileSuffix": "bad suffix", "noteMode": "x"})
    note = await add(alice, title="t")
    moved = await alice.put(f"{API}/settings", json={"fileSuffix": "", "notesPath": "/../My/./Notes"})
    kept = await alice.put(f"{API}/settings", json={"notesPath": ""})

    assert bad.text == '{"fileSuffix":".badsuffix","notesPath":"Notes","noteMode":"rich"}'
    assert note["internalPath"] == "/Notes/t.badsuffix"
    assert moved.json() == {"notesPath": "My/Notes", "fileSuffix": ".md", "noteMode": "rich"}
    assert kept.text == '{"notesPath":"Notes","fileSuffix":".md","noteMode":"rich"}'


async def test_settings_can_be_read(alice: httpx2.AsyncClient) -> None:
    response = await alice.get(f"{API}/settings")

    assert response.text == '{"notesPath":"Notes","fileSuffix":".md","noteMode":"rich"}'


async def test_an_attachment_lies_beside_its_note(alice: httpx2.AsyncClient) -> None:
    note = await add(alice, title="t", category="Work")
    url = f"{ATTACHMENT}/{note['id']}"
    picture = base64.b64decode("iVBORw0KGgo=")

    uploaded = await alice.post(url, files={"file": ("dot ä.png", picture, "image/png")})
    name = uploaded.json()["filename"]
    read = await alice.get(url, params={"path": name})

    assert len(name) == len("e215cc3c48f17b242b58affd2ab46c31.png")
    assert (read.content, read.headers["Content-Type"]) == (picture, "image/png")
    assert read.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert read.headers["Cache-Control"] == "private, max-age=3600, must-revalidate"
    assert "X-Notes-API-Versions" not in read.headers


@pytest.mark.parametrize("path", ["missing.png", "../../Readme.md", ""])
async def test_an_attachment_that_is_not_there_is_404(
    sandbox: Sandbox, alice: httpx2.AsyncClient, path: str
) -> None:
    sandbox.state.users["alice"].files.put("/Readme.md", b"secret")
    note = await add(alice, title="t", category="Work")

    response = await alice.get(f"{ATTACHMENT}/{note['id']}", params={"path": path})

    assert (response.status_code, response.text) == (404, '{"errorType":"OCP\\\\Files\\\\NotFoundException"}')


async def test_an_upload_of_nothing_is_500(alice: httpx2.AsyncClient) -> None:
    note = await add(alice, title="t")

    response = await alice.post(f"{ATTACHMENT}/{note['id']}")

    assert (response.status_code, response.text) == (500, '{"errorType":"TypeError"}')
