import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.notes import tools
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.tools.toolset import Guarded
from tests.result_schemas import assert_result_meets

ETAG = "97f8d16204eed3fe5b1de64ceeb205b1"


def note(number: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401  # a note's fields, as Nextcloud has them
    title = fields.get("title", f"Note {number}")
    category = fields.get("category", "")
    return {
        "id": number,
        "title": title,
        "modified": 1_700_000_000 + number,
        "category": category,
        "favorite": False,
        "readonly": False,
        "internalPath": f"/Notes/{category + '/' if category else ''}{title}.md",
        "shareTypes": [],
        "isShared": False,
        "error": False,
        "errorType": "",
        "content": f"# Note {number}\n\nbody {number} äöü 日本 🎉",
        "etag": ETAG,
        **fields,
    }


LOCKED = note(
    314,
    readonly=True,
    error=True,
    errorType="OCP\\Lock\\LockedException",
    content="Error: OCP\\Lock\\LockedException",
)


class Server:
    """Answers from a queue and keeps what was asked."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []
        pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(self._answer))
        nextcloud = Nextcloud(NextcloudUrl.parse("https://h"), pool)
        self.account: Account = nextcloud.account(BasicCredential("a@x", SecretStr("p")), uid="alice")

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return self.answers.pop(0)

    async def call(self, tool: Guarded, **arguments: object) -> Any:  # noqa: ANN401  # each tool's own result
        spec = next(spec for spec in tools.notes.tools if spec.guarded is tool)
        result = await tool.body(self.account, **spec.arguments.validate(arguments))
        assert_result_meets(spec, result)
        return result


def ok(body: object) -> httpx2.Response:
    return httpx2.Response(200, headers={"X-User-Id": "alice"}, json=body)


def chunk(found: Sequence[object], cursor: str | None = None, pending: int = 0) -> httpx2.Response:
    headers = {"X-User-Id": "alice"}
    if cursor:
        headers |= {"X-Notes-Chunk-Cursor": cursor, "X-Notes-Chunk-Pending": str(pending)}
    return httpx2.Response(200, headers=headers, json=found)


def test_the_nine_tools_fit_into_six_kilobytes_and_name_what_they_need() -> None:
    size = 0
    for spec in tools.notes.tools:
        hints = {
            "readOnlyHint": spec.read_only,
            "destructiveHint": True,
            "idempotentHint": True,
            "openWorldHint": True,
        }
        size += len(
            json.dumps(
                {
                    "name": spec.name,
                    "description": spec.description,
                    "inputSchema": spec.arguments.schema,
                    "annotations": {"title": spec.title, **hints},
                },
                separators=(",", ":"),
            )
        )
        assert spec.scopes == {"notes:read" if spec.read_only else "notes:write"}

    assert len(tools.notes.tools) == 9
    assert size <= 6_000


async def test_a_list_is_one_request_without_content_and_last_changed_first() -> None:
    """B88."""
    listed = [note(1), {**LOCKED, "modified": 1_700_000_009}, note(2, readonly=True), {"id": 1}]
    server = Server(chunk(listed), chunk(listed))

    first = await server.call(tools.nc_notes_list_notes, limit=2)
    second = await server.call(tools.nc_notes_list_notes, limit=2, cursor=first.cursor)

    assert [(row.id, row.unreadable, row.readonly) for row in first.notes] == [
        ("314", True, True),
        ("2", None, True),
    ]
    assert first.notes[1].modified_at == datetime.fromtimestamp(1_700_000_002, UTC)
    assert first.remaining == 1
    assert ([row.id for row in second.notes], second.cursor, second.remaining) == (["1"], None, None)
    assert [dict(request.url.params) for request in server.asked] == [
        {"chunkSize": "2000", "exclude": "content"}
    ] * 2


async def test_what_is_written_between_two_pages_shifts_nothing() -> None:
    before = [note(n) for n in range(1, 7)]
    after = [note(9), *before[:2], note(3, modified=1_800_000_000), *before[3:]]
    server = Server(chunk(before), chunk(after), chunk(after))

    first = await server.call(tools.nc_notes_list_notes, limit=2)
    second = await server.call(tools.nc_notes_list_notes, limit=2, cursor=first.cursor)
    third = await server.call(tools.nc_notes_list_notes, limit=2, cursor=second.cursor)

    assert [[row.id for row in page.notes] for page in (first, second, third)] == [
        ["6", "5"],
        ["4", "2"],
        ["1"],
    ]


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ({"category": "Work"}, ["3", "2"]),
        ({"category": "/Work/"}, ["3", "2"]),
        ({"category": "Work/A"}, ["3"]),
        ({"category": ""}, ["1"]),
        ({"favorite": True}, ["2"]),
    ],
)
async def test_a_category_lists_what_is_below_it_too(arguments: dict[str, object], ids: list[str]) -> None:
    listed = [
        note(1),
        note(2, category="Work", favorite=True),
        note(3, category="Work/A"),
        note(4, category="Workshop"),
    ]

    page = await Server(chunk(listed)).call(tools.nc_notes_list_notes, **arguments)

    assert [row.id for row in page.notes] == ids


async def test_what_lies_in_the_internal_folders_of_apps_is_no_note() -> None:
    listed = [note(1), note(2, category=".attachments.1"), note(3, category="Work/.hidden/x")]
    server = Server(chunk(listed), chunk(listed), chunk(listed))

    page = await server.call(tools.nc_notes_list_notes)
    found = await server.call(tools.nc_notes_search_notes, query="body")

    assert [row.id for row in page.notes] == [row.id for row in found.notes] == ["1"]
    with pytest.raises(errors.NotFound):
        await server.call(tools.nc_notes_get_note, title="Note 2")


@pytest.mark.parametrize(
    ("since", "asked_first"),
    [
        ("2023-11-14T22:13:22Z", []),
        ("2023-11-14T23:13:22+01:00", []),
        ("2023-11-15T07:13:22", ["Asia/Tokyo"]),
    ],
)
async def test_notes_changed_since_a_moment_are_listed(since: str, asked_first: list[str]) -> None:
    where = [
        ok(
            {
                "ocs": {
                    "data": {
                        "version": {"string": "34.0.0"},
                        "capabilities": {"core": {"user": {"timezone": zone}}},
                    }
                }
            }
        )
        for zone in asked_first
    ]
    server = Server(*where, chunk([note(1), note(2), note(3)]))

    page = await server.call(tools.nc_notes_list_notes, modified_since=since)

    assert [row.id for row in page.notes] == ["3", "2"]


@pytest.mark.parametrize("arguments", [{"modified_since": "yesterday"}, {"cursor": "xyz"}])
async def test_a_wrong_moment_or_cursor_is_refused_before_any_request(arguments: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidInput):
        await Server().call(tools.nc_notes_list_notes, **arguments)


async def test_an_impossible_time_of_a_note_does_not_break_the_list() -> None:
    server = Server(chunk([note(1, modified=10**15), note(2, modified=-5)]))

    page = await server.call(tools.nc_notes_list_notes)

    assert [row.modified_at.year for row in page.notes] == [9999, 1970]


async def test_a_search_ranks_titles_over_texts_and_shows_the_place() -> None:
    server = Server(
        chunk(
            [note(1, content="long ago: buy\nmilk today"), note(2, title="Buy milk"), note(3)], cursor="1-2-3"
        ),
        chunk([note(4, content="milk, then buy"), {**LOCKED, "title": "buy milk now"}, {"id": 1}]),
    )

    found = await server.call(tools.nc_notes_search_notes, query=" BUY  milk ", limit=3)

    assert [hit.id for hit in found.notes] == ["2", "314", "4"]
    assert (found.total, found.searched) == (4, None)
    assert found.notes[1].snippet == ""
    assert "milk, then buy" in found.notes[2].snippet


async def test_a_search_stops_at_its_limit_and_says_so() -> None:
    many = chunk([{"id": n, "title": "x"} for n in range(5001)])

    found = await Server(many).call(tools.nc_notes_search_notes, query="x", limit=1)

    assert (found.total, found.searched) == (5000, 5000)


async def test_an_empty_search_is_refused() -> None:
    with pytest.raises(errors.InvalidInput):
        await Server().call(tools.nc_notes_search_notes, query="  ")


async def test_a_note_is_read_with_text_and_etag_by_one_request() -> None:
    server = Server(ok(note(7, readonly=True)))

    read = await server.call(tools.nc_notes_get_note, note_id=7)

    assert (read.content, read.etag, read.readonly) == ("# Note 7\n\nbody 7 äöü 日本 🎉", ETAG, True)
    assert (read.size, read.offset, read.truncated, read.next_offset) == (35, None, None, None)
    assert len(server.asked) == 1


async def test_a_long_note_is_read_in_pages() -> None:
    server = Server(*[ok(note(7, content="line\n" * 10_000)) for _ in range(2)])

    first = await server.call(tools.nc_notes_get_note, note_id=7)
    second = await server.call(tools.nc_notes_get_note, note_id=7, offset=first.next_offset)

    assert first.truncated
    assert (second.offset, second.truncated, second.next_offset) == (first.next_offset, None, None)
    assert first.content + second.content == "line\n" * 10_000


@pytest.mark.parametrize("name", ["Plan", "plan", "Work/Plan", "/Notes/Work/Plan.md", "Notes/Work/plan"])
async def test_a_note_is_read_by_title_or_path_wherever_its_folder_is(name: str) -> None:
    """B85."""
    listed = [
        note(1, title="Other"),
        note(2, title="Plan", category="Work"),
        note(3, title="x", internalPath=None),
    ]
    server = Server(chunk(listed), ok(note(2)))

    await server.call(tools.nc_notes_get_note, title=name)

    assert server.asked[1].url.path.endswith("/notes/2")


async def test_a_path_wins_over_titles_and_a_title_that_is_there_twice_is_refused() -> None:
    listed = [note(1, title="Plan", category="A"), note(2, title="Plan", category="B")]
    server = Server(chunk(listed), ok(note(2)), chunk(listed), chunk(listed))

    await server.call(tools.nc_notes_get_note, title="B/Plan")
    with pytest.raises(errors.InvalidInput, match=r"1 \(category “A”\), 2 \(category “B”\)"):
        await server.call(tools.nc_notes_get_note, title="Plan")
    with pytest.raises(errors.NotFound, match="nc_notes_search_notes"):
        await server.call(tools.nc_notes_get_note, title="Nothing")


@pytest.mark.parametrize("arguments", [{}, {"note_id": 1, "title": "x"}])
async def test_either_an_id_or_a_title_names_a_note(arguments: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidInput, match="either"):
        await Server().call(tools.nc_notes_get_note, **arguments)


async def test_a_locked_note_is_not_read_as_an_error_message() -> None:
    with pytest.raises(errors.Locked):
        await Server(ok(LOCKED)).call(tools.nc_notes_get_note, note_id=314)


async def test_a_created_note_answers_what_was_stored_and_what_was_made_different() -> None:
    """B80."""
    server = Server(ok(note(327, title="R ab x", category="evil", content="z")))

    made = await server.call(
        tools.nc_notes_create_note, title=" R: a/b <x> ", content="z", category="/.evil/"
    )

    assert (made.id, made.title, made.size, made.etag) == ("327", "R ab x", 1, ETAG)
    assert made.changed == (
        "Notes did not store all of it as it was sent: 'title' is “R ab x” instead of “R: a/b <x>”; 'category' is "
        "“evil” instead of “.evil”."
    )
    assert "content" not in made.model_dump()
    assert json.loads(server.asked[0].content)["title"] == "R: a/b <x>"


async def test_a_long_title_is_cut_and_that_is_said() -> None:
    """B82."""
    server = Server(ok(note(1, title="語" * 66)))

    made = await server.call(tools.nc_notes_create_note, title="語" * 120)

    assert json.loads(server.asked[0].content)["title"] == "語" * 66
    assert made.changed is not None


@pytest.mark.parametrize(
    "arguments",
    [
        {"title": "  "},
        {"title": "a\r\nb"},
        {"title": "a\x7f"},
        {"title": "t", "category": "../../evil"},
        {"title": "t", "category": "a\\b"},
        {"title": "t", "category": "a\nb"},
        {"title": "t", "category": "x" * 251},
        {"title": "t\0"},
        {"title": 123},
        {"title": "t", "colour": "red"},
    ],
)
async def test_what_cannot_be_stored_is_refused_before_any_request(arguments: dict[str, object]) -> None:
    """B89: a title with a carriage return made an invalid file name."""
    with pytest.raises(errors.InvalidInput):
        await Server().call(tools.nc_notes_create_note, **arguments)


async def test_only_the_given_fields_are_changed() -> None:
    """B83."""
    server = Server(ok(note(1, favorite=True)), ok(note(1)), ok(note(1, title="New", category="A/B")))

    liked = await server.call(tools.nc_notes_update_note, note_id=1, favorite=True)
    moved = await server.call(tools.nc_notes_update_note, note_id=1, title="New", category="A/B")

    assert (liked.favorite, liked.changed, moved.changed) == (True, None, None)
    assert [json.loads(request.content) for request in server.asked if request.content] == [
        {"favorite": True},
        {"title": "New", "category": "A/B"},
    ]


async def test_an_etag_from_reading_goes_straight_back_and_the_new_one_on_to_the_next_change() -> None:
    """B16, B17."""
    server = Server(ok(note(1)), ok(note(1, etag="second")), ok(note(1, etag="third")))

    read = await server.call(tools.nc_notes_get_note, note_id=1)
    once = await server.call(tools.nc_notes_update_note, note_id=1, content="a", etag=read.etag)
    await server.call(tools.nc_notes_update_note, note_id=1, content="b", etag=once.etag)

    assert [request.headers.get("If-Match") for request in server.asked] == [None, f'"{ETAG}"', '"second"']


async def test_a_stale_change_is_refused_with_the_current_etag() -> None:
    """U47."""
    server = Server(httpx2.Response(412, json=note(1, etag="current")))

    with pytest.raises(errors.EtagMismatch) as caught:
        await server.call(tools.nc_notes_update_note, note_id=1, content="a", etag="stale")

    assert caught.value.current_etag == "current"


@pytest.mark.parametrize(
    "arguments",
    [{}, {"etag": "x"}, {"content": "a"}, {"content": "a", "etag": "*"}, {"title": ""}, {"category": ".."}],
)
async def test_a_change_of_nothing_or_without_etag_is_refused_before_any_request(
    arguments: dict[str, str],
) -> None:
    with pytest.raises(errors.InvalidInput):
        await Server().call(tools.nc_notes_update_note, note_id=1, **arguments)


async def test_text_is_appended_under_the_etag_that_was_just_read() -> None:
    """B89."""
    server = Server(ok(note(1, content="a\r\n")), ok(note(1, content="a\r\nb\r\nc")))

    written = await server.call(tools.nc_notes_append_content, note_id=1, content="b\nc")

    assert json.loads(server.asked[1].content) == {"content": "a\r\nb\r\nc"}
    assert server.asked[1].headers["If-Match"] == f'"{ETAG}"'
    assert written.size == 7


async def test_appending_nothing_is_refused() -> None:
    with pytest.raises(errors.InvalidInput):
        await Server().call(tools.nc_notes_append_content, note_id=1, content="")


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        ({"old_text": "two", "new_text": "2"}, "# A\none 2\n"),
        ({"section": "A", "new_text": "x"}, "# A\nx\n"),
    ],
)
async def test_a_passage_or_a_section_is_replaced(arguments: dict[str, str], stored: str) -> None:
    server = Server(ok(note(1, content="# A\none two\n")), ok(note(1)))

    await server.call(tools.nc_notes_edit_note, note_id=1, etag=ETAG, **arguments)

    assert json.loads(server.asked[1].content) == {"content": stored}


async def test_an_ambiguous_passage_writes_nothing() -> None:
    server = Server(ok(note(1, content="x x")))

    with pytest.raises(errors.InvalidInput, match="2 times"):
        await server.call(tools.nc_notes_edit_note, note_id=1, old_text="x", new_text="y")

    assert len(server.asked) == 1


@pytest.mark.parametrize("arguments", [{}, {"old_text": "a", "section": "b"}])
async def test_an_edit_names_either_a_passage_or_a_section(arguments: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidInput, match="either"):
        await Server().call(tools.nc_notes_edit_note, note_id=1, new_text="x", **arguments)


@pytest.mark.parametrize(
    ("found", "kind"), [(LOCKED, errors.Locked), (note(1, readonly=True), errors.Forbidden)]
)
async def test_a_locked_or_read_only_note_is_not_written(
    found: dict[str, Any], kind: type[errors.NextcloudError]
) -> None:
    """B86."""
    server = Server(ok(found))

    with pytest.raises(kind):
        await server.call(tools.nc_notes_append_content, note_id=1, content="x")

    assert len(server.asked) == 1


async def test_deleting_says_how_to_undo_it() -> None:
    server = Server(ok([]))

    gone = await server.call(tools.nc_notes_delete_note, note_id=325)

    assert gone.id == "325"
    assert "nc_files_restore_trash" in gone.undo
    assert server.asked[0].method == "DELETE"


@pytest.mark.parametrize(
    ("kind", "size", "shown"),
    [
        ("image/png", 70, True),
        ("image/png", 700_001, False),
        ("image/svg+xml", 70, False),
        ("text/plain", 5, False),
    ],
)
async def test_small_pictures_are_shown_and_other_files_described(
    kind: str, size: int, *, shown: bool
) -> None:
    data = b"x" * size
    server = Server(httpx2.Response(200, headers={"Content-Type": f"{kind}; charset=x"}, content=data))

    got = await server.call(tools.nc_notes_get_attachment, note_id=318, path=".attachments.318/dot.png")

    assert (got.mime_type, got.size) == (kind, size)
    assert getattr(got, "data", None) == (data if shown else None)
    assert "data" not in got.model_dump()


@pytest.mark.parametrize("path", ["../../Readme.md", "a/../b", "a\\b", "a\nb", " ", ""])
async def test_an_attachment_path_that_climbs_is_refused_before_any_request(path: str) -> None:
    with pytest.raises(errors.InvalidInput):
        await Server().call(tools.nc_notes_get_attachment, note_id=318, path=path)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ({"content": "new", "etag": ETAG}, {}),
        ({"title": "Other", "etag": ETAG}, {}),
        ({"favorite": True}, {}),
    ],
)
async def test_a_change_of_a_note_that_is_answered_and_ignored_is_no_success(
    sent: dict[str, object], stored: dict[str, object]
) -> None:
    server = Server(ok(note(327, title="Plan", content="old", **stored)))

    with pytest.raises(errors.ServerFault, match="Notes answered as if it were done, but changed nothing"):
        await server.call(tools.nc_notes_update_note, note_id=327, **sent)


async def test_a_text_that_is_added_and_not_stored_is_missed() -> None:
    same = note(327, title="Plan", content="old")
    server = Server(ok(same), ok(same))

    with pytest.raises(errors.ServerFault, match="'text' is “old” instead of"):
        await server.call(tools.nc_notes_append_content, note_id=327, content="more")


async def test_a_part_of_a_change_that_is_not_stored_is_said() -> None:
    server = Server(ok(note(327, title="Plan", content="old", etag="f" * 32)))

    changed = await server.call(
        tools.nc_notes_update_note, note_id=327, title="Plan", content="new", etag=ETAG
    )

    assert changed.changed == (
        "Notes did not store all of it as it was sent: 'text' is “old” instead of “new”."
    )


async def test_a_note_without_an_etag_cannot_be_guarded() -> None:
    server = Server(ok(note(327, title="Plan", content="old", etag="")))

    with pytest.raises(errors.ServerFault, match=r"named no version .* read it again"):
        await server.call(tools.nc_notes_append_content, note_id=327, content="more")
