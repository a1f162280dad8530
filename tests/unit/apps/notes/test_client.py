import json
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.notes.client import NotesClient, shortened
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

NOTE: dict[str, Any] = {
    "id": 318,
    "title": "Note 2",
    "modified": 1700000002,
    "category": "Work/Projekt A",
    "favorite": False,
    "readonly": False,
    "internalPath": "/Notes/Work/Projekt A/Note 2.md",
    "shareTypes": [],
    "isShared": False,
    "error": False,
    "errorType": "",
    "content": "# Note 2\n\nbody 2 äöü 日本 🎉",
    "etag": "97f8d16204eed3fe5b1de64ceeb205b1",
}
LOCKED = {
    **NOTE,
    "readonly": True,
    "error": True,
    "errorType": "OCP\\Lock\\LockedException",
    "content": "Error: OCP\\Lock\\LockedException",
}


class Notes:
    """Answers from a queue and keeps what was asked."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []
        pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(self._answer))
        self.client = NotesClient(NextcloudHttp(pool, NextcloudUrl.parse("https://h/nextcloud"), uid="alice"))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return self.answers.pop(0)

    @property
    def log(self) -> list[str]:
        return [f"{request.method} {request.url.raw_path.decode()}" for request in self.asked]


def ok(body: object, **headers: str) -> httpx2.Response:
    return httpx2.Response(200, headers={"X-User-Id": "alice", **headers}, json=body)


async def test_a_note_is_read_by_one_request_below_the_base() -> None:
    """B32."""
    notes = Notes(ok(NOTE))

    note = await notes.client.get("318")

    assert (note.title, note.text, note.path) == (
        "Note 2",
        NOTE["content"],
        "/Notes/Work/Projekt A/Note 2.md",
    )
    assert notes.log == ["GET /nextcloud/index.php/apps/notes/api/v1/notes/318"]


async def test_a_note_of_api_1_2_without_the_newer_fields_is_read() -> None:
    notes = Notes(ok({"id": 1, "title": "t", "content": "c", "etag": '"e"', "modified": 5}))

    note = await notes.client.get("1")

    assert (note.readonly, note.path, note.etag, note.text) == (False, None, "e", "c")


async def test_a_missing_note_is_said_with_the_next_step() -> None:
    notes = Notes(httpx2.Response(404, json={"errorType": "OCA\\Notes\\Service\\NoteDoesNotExistException"}))

    with pytest.raises(errors.NotFound, match="nc_notes_list_notes"):
        await notes.client.get("999999")


async def test_a_list_answered_where_a_note_belongs_is_a_fault() -> None:
    """U44."""
    with pytest.raises(errors.ServerFault):
        await Notes(ok([])).client.get("1")


async def test_the_text_of_a_locked_note_is_never_an_error_message() -> None:
    note = await Notes(ok(LOCKED)).client.get("314")

    with pytest.raises(errors.Locked):
        _ = note.text


async def test_the_text_of_an_unreadable_note_is_a_fault() -> None:
    note = await Notes(ok({**LOCKED, "errorType": "OCP\\Files\\GenericFileException"})).client.get("314")

    with pytest.raises(errors.ServerFault, match="cannot read"):
        _ = note.text


async def test_a_page_asks_for_one_chunk_without_content() -> None:
    """B88."""
    chunk = ok([NOTE], **{"X-Notes-Chunk-Cursor": "1795813608-1795813606-318", "X-Notes-Chunk-Pending": "12"})
    notes = Notes(chunk)

    page = await notes.client.page(size=3)

    assert ([note.id for note in page.notes], page.cursor, page.pending) == (
        ["318"],
        "1795813608-1795813606-318",
        12,
    )
    [request] = notes.asked
    assert dict(request.url.params) == {"chunkSize": "3", "exclude": "content"}


async def test_the_bare_ids_on_the_last_chunk_are_no_notes() -> None:
    notes = Notes(ok([NOTE, {"id": 329}, {"id": 328}], **{"X-Notes-Chunk-Pending": "?"}))

    page = await notes.client.page(size=3, cursor="1-2-3", with_content=True)

    assert ([note.id for note in page.notes], page.cursor, page.pending) == (["318"], None, 0)
    assert dict(notes.asked[0].url.params) == {"chunkSize": "3", "chunkCursor": "1-2-3"}


async def test_all_notes_are_listed_chunk_by_chunk() -> None:
    notes = Notes(ok([NOTE], **{"X-Notes-Chunk-Cursor": "1-2-3"}), ok([{**NOTE, "id": 2}, {"id": 318}]))

    listed = [note.id async for note in notes.client.list_all()]

    assert listed == ["318", "2"]
    assert "chunkCursor=1-2-3" in notes.log[1]


async def test_all_notes_are_read_in_smaller_chunks_where_they_are_long() -> None:
    """B88: 1,500 notes in 400 MB."""
    long = httpx2.Response(200, headers={"Content-Type": "application/json"}, content=b" " * 33_554_433)
    notes = Notes(long, ok([NOTE], **{"X-Notes-Chunk-Cursor": "1-2-3"}), ok([{**NOTE, "id": 2}]))

    read = await notes.client.texts()

    assert [one.note.id for one in read.notes] == ["318", "2"]
    assert read.complete
    assert [request.url.params["chunkSize"] for request in notes.asked] == ["500", "62", "62"]


async def test_a_note_that_is_too_long_is_listed_without_its_text_and_hides_no_other_notes() -> None:
    long = [httpx2.Response(200, content=b" " * 33_554_433) for _ in range(4)]
    nameless = {**NOTE, "id": 2}
    del nameless["content"]
    notes = Notes(*long, ok([nameless], **{"X-Notes-Chunk-Cursor": "1-2-3"}), ok([NOTE]))

    read = await notes.client.texts()

    assert [one.note.id for one in read.notes] == ["2", "318"]
    assert not read.complete
    assert [request.url.params["chunkSize"] for request in notes.asked] == ["500", "62", "7", "1", "1", "500"]
    assert [request.url.params.get("exclude") for request in notes.asked][4:] == ["content", None]


async def test_an_endless_list_without_texts_is_too_large() -> None:
    long = [httpx2.Response(200, content=b" " * 33_554_433) for _ in range(5)]

    with pytest.raises(errors.TooLarge):
        await Notes(*long).client.texts()


async def test_creating_sends_every_field_and_answers_what_was_stored() -> None:
    """B80."""
    notes = Notes(ok({**NOTE, "title": "badname x"}))

    note = await notes.client.create(title='bad/name:*?"<>|\\ x', content="z", category="", favorite=True)

    assert note.title == "badname x"
    assert json.loads(notes.asked[0].content) == {
        "title": 'bad/name:*?"<>|\\ x',
        "content": "z",
        "category": "",
        "favorite": True,
    }


def test_a_long_title_is_cut_between_characters() -> None:
    """B82."""
    assert shortened("語" * 120) == "語" * 66
    assert shortened("Note") == "Note"


async def test_a_change_sends_only_the_given_fields_and_a_quoted_etag() -> None:
    """B16, B83."""
    notes = Notes(ok(NOTE), ok(NOTE))

    await notes.client.update("318", if_match="97f8d162", favorite=True)
    await notes.client.update("318", if_match=None, title="語" * 120, content="", category="")

    first, second = notes.asked
    assert (first.method, first.headers["If-Match"], json.loads(first.content)) == (
        "PUT",
        '"97f8d162"',
        {"favorite": True},
    )
    assert "If-Match" not in second.headers
    assert json.loads(second.content) == {"title": "語" * 66, "content": "", "category": ""}


async def test_a_stale_etag_is_refused_with_the_current_one() -> None:
    """U47."""
    notes = Notes(httpx2.Response(412, json={**NOTE, "etag": "969d178a"}))

    with pytest.raises(errors.EtagMismatch, match="Read it again") as caught:
        await notes.client.update("318", if_match="97f8d162", content="# lost update\n")

    assert caught.value.current_etag == "969d178a"


@pytest.mark.parametrize("answers", [[403], [500, 200]])
async def test_a_note_shared_read_only_is_said_to_be_so_whatever_the_status(answers: list[int]) -> None:
    """B86: 403 locally, 500 on a federated share."""
    notes = Notes(*[httpx2.Response(status, json={**NOTE, "readonly": True}) for status in answers])

    with pytest.raises(errors.Forbidden, match="shared read-only"):
        await notes.client.update("318", if_match=None, content="x")


async def test_a_fault_on_a_writable_note_stays_a_fault() -> None:
    notes = Notes(httpx2.Response(500), ok(NOTE))

    with pytest.raises(errors.ServerFault):
        await notes.client.update("318", if_match=None, content="x")


def upper(text: str) -> str:
    return text.upper()


async def test_an_edit_reads_then_writes_with_the_etag_it_read() -> None:
    """B17."""
    notes = Notes(ok({**NOTE, "content": "a"}), ok({**NOTE, "content": "A", "etag": "new"}))

    before, _, after = await notes.client.change("318", upper, if_match=None)

    assert (before.content, after.etag) == ("a", "new")
    assert notes.asked[1].headers["If-Match"] == f'"{NOTE["etag"]}"'
    assert json.loads(notes.asked[1].content) == {"content": "A"}


async def test_an_edit_is_repeated_on_a_text_that_changed_in_between() -> None:
    notes = Notes(
        ok({**NOTE, "content": "a"}),
        httpx2.Response(412, json=NOTE),
        ok({**NOTE, "content": "b", "etag": "second"}),
        ok({**NOTE, "content": "B"}),
    )

    await notes.client.change("318", upper, if_match=None)

    assert json.loads(notes.asked[3].content) == {"content": "B"}
    assert notes.asked[3].headers["If-Match"] == '"second"'


async def test_an_edit_gives_up_when_the_note_changes_again_and_again() -> None:
    notes = Notes(*[ok(NOTE), httpx2.Response(412, json=NOTE)] * 6)

    with pytest.raises(errors.EtagMismatch):
        await notes.client.change("318", upper, if_match=None)

    assert notes.answers == []


async def test_an_edit_with_a_stale_etag_writes_nothing() -> None:
    notes = Notes(ok(NOTE))

    with pytest.raises(errors.EtagMismatch) as caught:
        await notes.client.change("318", upper, if_match="older")

    assert caught.value.current_etag == NOTE["etag"]
    assert len(notes.asked) == 1


async def test_an_edit_with_the_right_etag_is_tried_once() -> None:
    notes = Notes(ok(NOTE), httpx2.Response(412, json={**NOTE, "etag": "newer"}))

    with pytest.raises(errors.EtagMismatch) as caught:
        await notes.client.change("318", upper, if_match=f'"{NOTE["etag"]}"')

    assert caught.value.current_etag == "newer"


@pytest.mark.parametrize(
    ("note", "kind"), [(LOCKED, errors.Locked), ({**NOTE, "readonly": True}, errors.Forbidden)]
)
async def test_a_locked_or_read_only_note_is_never_written_back(
    note: dict[str, Any], kind: type[errors.NextcloudError]
) -> None:
    """B86; and an error message in place of the text would replace the text."""
    notes = Notes(ok(note))

    with pytest.raises(kind):
        await notes.client.change("318", upper, if_match=None)

    assert len(notes.asked) == 1


async def test_a_note_locked_while_writing_is_said_to_be_locked() -> None:
    """U46."""
    locked = httpx2.Response(423, json={"errorType": "OCP\\Lock\\LockedException"})
    notes = Notes(*[ok(NOTE), *[locked] * 4] * 2)

    with pytest.raises(errors.Locked):
        await notes.client.change("318", upper, if_match=None)

    assert notes.answers == []


async def test_deleting_is_one_request() -> None:
    notes = Notes(ok([]), httpx2.Response(404, json={"errorType": "x"}))

    await notes.client.delete("325")
    with pytest.raises(errors.NotFound):
        await notes.client.delete("325")

    assert notes.log == ["DELETE /nextcloud/index.php/apps/notes/api/v1/notes/325"] * 2


async def test_an_attachment_is_asked_for_by_version_1_4() -> None:
    notes = Notes(httpx2.Response(200, headers={"Content-Type": "image/png"}, content=b"\x89PNG"))

    attachment = await notes.client.attachment("318", ".attachments.318/dot ä.png")

    assert (attachment.media_type, attachment.data) == ("image/png", b"\x89PNG")
    assert notes.asked[0].url.path == "/nextcloud/index.php/apps/notes/api/v1.4/attachment/318"
    assert notes.asked[0].url.params["path"] == ".attachments.318/dot ä.png"


@pytest.mark.parametrize(
    ("status", "kind", "sentence"),
    [(404, errors.NotFound, "no such attachment"), (400, errors.InvalidName, "too old")],
)
async def test_an_attachment_that_cannot_be_had_is_explained(
    status: int, kind: type[errors.NextcloudError], sentence: str
) -> None:
    notes = Notes(httpx2.Response(status, json={"errorType": "OCP\\Files\\NotFoundException"}))

    with pytest.raises(kind, match=sentence):
        await notes.client.attachment("318", "missing.png")


async def test_a_notes_app_that_is_not_installed_is_named() -> None:
    notes = Notes(httpx2.Response(404, html="<html></html>"))

    with pytest.raises(errors.NotFound, match="“notes” is not installed"):
        await notes.client.page(size=1)


async def test_a_list_that_would_begin_again_for_ever_is_left() -> None:
    parts = [ok([{"id": 1, "title": "x"}], **{"X-Notes-Chunk-Cursor": "1-1"}) for _ in range(3)]
    notes = Notes(*parts)

    with pytest.raises(errors.ServerFault, match="does not go on"):
        [note async for note in notes.client.list_all()]

    assert len(notes.asked) == 2


async def test_a_note_that_cannot_be_read_is_no_reason_to_leave_it_out_of_a_list() -> None:
    notes = Notes(ok([{"id": 1, "title": None}]))

    with pytest.raises(errors.ServerFault, match="unreadable"):
        await notes.client.page(size=10)
