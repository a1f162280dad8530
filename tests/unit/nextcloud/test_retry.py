"""What is sent again after a passing refusal, and what is known after it."""

import subprocess
import sys

import anyio
import httpx2
import pytest

from nextcloud_mcp_server import errors, logs
from nextcloud_mcp_server.apps.contacts.client import ContactsClient
from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.apps.upload.client import UploadClient
from nextcloud_mcp_server.formats.vcard import VCard
from nextcloud_mcp_server.nextcloud.retry import Cause, Kind, Passing, PassingError, Retrier, kind_of
from tests.dav_fakes import account_over, entry, http_over, multistatus, network

LOCKED = httpx2.Response(423)
GATEWAY = httpx2.Response(502)
BUSY = httpx2.Response(503, headers={"Retry-After": "2"})
BARE = httpx2.Response(503)
SLOW = httpx2.Response(504)
LOST = httpx2.RemoteProtocolError("hung up")
DONE = httpx2.Response(204, headers={"ETag": '"e2"'})
CHANGED = httpx2.Response(412)

Answer = httpx2.Response | Exception


WRITES: dict[str, tuple[str, str, dict[str, str]]] = {
    "PUT if it is as read": ("PUT", "/remote.php/dav/files/alice/a", {"If-Match": '"e"'}),
    "PUT if nothing is there": ("PUT", "/remote.php/dav/calendars/alice/c/a.ics", {"If-None-Match": "*"}),
    "PUT of a note": ("PUT", "/index.php/apps/notes/api/v1/notes/1", {"If-Match": '"e"'}),
    "DELETE if it is as read": (
        "DELETE",
        "/remote.php/dav/addressbooks/users/alice/c/a.vcf",
        {"If-Match": '"e"'},
    ),
    "DELETE": ("DELETE", "/remote.php/dav/files/alice/a", {}),
    "MOVE": ("MOVE", "/remote.php/dav/files/alice/a", {"Overwrite": "F", "Destination": "x"}),
    "COPY": ("COPY", "/remote.php/dav/files/alice/a", {"Overwrite": "F", "Destination": "x"}),
}


@pytest.mark.parametrize(
    "refusal", [LOCKED, GATEWAY, BUSY, BARE], ids=["423", "502", "503 with a wait", "503"]
)
@pytest.mark.parametrize("write", WRITES)
async def test_a_guarded_write_gets_through_a_passing_refusal(write: str, refusal: Answer) -> None:
    method, path, headers = WRITES[write]
    net = network(refusal, refusal, DONE)

    response = await http_over(net).request(method, path, headers=headers)

    assert response.status_code == 204
    assert net.methods == [method] * 3


@pytest.mark.parametrize(
    ("method", "headers", "refusal"),
    [
        *[("POST", {}, refusal) for refusal in (LOCKED, GATEWAY, BUSY, BARE, SLOW, LOST)],
        *[("PATCH", {}, refusal) for refusal in (LOCKED, BUSY)],
        *[("PUT", {}, refusal) for refusal in (GATEWAY, BARE, SLOW, LOST)],
        *[("PUT", {"If-Match": '"e"'}, refusal) for refusal in (SLOW, LOST)],
        *[("MOVE", {"Overwrite": "T"}, refusal) for refusal in (GATEWAY, BARE, SLOW, LOST)],
        ("PUT", {"If-Match": '"e"'}, httpx2.Response(503, headers={"Retry-After": "11"})),
        ("PUT", {"If-Match": '"e"'}, httpx2.Response(503, headers={"X-Nextcloud-Maintenance-Mode": "1"})),
        ("PUT", {"If-Match": '"e"'}, httpx2.Response(507)),
        ("PUT", {"If-Match": '"e"'}, httpx2.Response(403)),
    ],
)
async def test_what_might_be_done_twice_or_does_not_pass_is_sent_once(
    method: str, headers: dict[str, str], refusal: Answer
) -> None:
    net = network(refusal)

    with pytest.raises(errors.NextcloudError):
        await http_over(net).request(method, "/remote.php/dav/files/alice/a", headers=headers)

    assert net.methods == [method]


@pytest.mark.parametrize(
    ("method", "headers", "refusal", "most"),
    [
        ("GET", {}, LOCKED, 4),
        ("GET", {}, BUSY, 4),
        ("GET", {}, GATEWAY, 3),
        ("PUT", {"If-Match": '"e"'}, LOCKED, 4),
        ("PUT", {"If-Match": '"e"'}, GATEWAY, 3),
        ("DELETE", {}, BUSY, 4),
    ],
)
async def test_repeating_is_bounded(method: str, headers: dict[str, str], refusal: Answer, most: int) -> None:
    net = network(*[refusal] * 9)

    with pytest.raises(errors.NextcloudError):
        await http_over(net).request(method, "/remote.php/dav/files/alice/a", headers=headers)

    assert len(net.seen) == most


@pytest.mark.parametrize(("wait", "told"), [("7", 7.0), ("0", 0.3), ("10", 10.0)])
async def test_the_wait_that_nextcloud_asks_for_is_kept(wait: str, told: float) -> None:
    """RFC 9110 §10.2.3; asked where the library asks, for nothing waits here."""
    failed = PassingError(errors.Unavailable("x"), Passing(Cause.REFUSED, float(wait)))

    pause = Retrier(Kind.GUARDED)._pause(failed)  # pyright: ignore[reportPrivateUsage]

    assert pause == told


async def test_a_repeated_write_that_was_done_the_first_time_is_no_conflict() -> None:
    """The gateway gave up, Nextcloud did not: its file is what was sent."""
    made = httpx2.Response(200, content=b"text", headers={"ETag": '"e9"'})
    net = network(GATEWAY, CHANGED, made)

    written = await account_over(net).files.write("a.txt", b"text")

    assert net.methods == ["PUT", "PUT", "GET"]
    assert written.version.etag == "e9"


async def test_a_repeated_write_that_meets_what_another_wrote_says_that_it_cannot_tell() -> None:
    theirs = httpx2.Response(200, content=b"other", headers={"ETag": '"e9"'})
    net = network(GATEWAY, CHANGED, theirs)

    with pytest.raises(errors.TimedOut, match="may or may not have happened"):
        await account_over(net).files.write("a.txt", b"text")


async def test_a_lock_leaves_no_doubt_so_a_conflict_after_it_is_one() -> None:
    net = network(LOCKED, CHANGED)

    with pytest.raises(errors.EtagMismatch):
        await account_over(net).files.write("a.txt", b"text")

    assert net.methods == ["PUT", "PUT"]


async def test_a_note_whose_change_was_done_the_first_time_is_answered_as_it_is_now() -> None:
    note = {
        "id": 1,
        "title": "t",
        "content": "new",
        "category": "",
        "etag": "e2",
        "favorite": False,
        "modified": 1,
    }
    net = network(GATEWAY, httpx2.Response(412, json=note), httpx2.Response(200, json=note))

    changed = await account_over(net).client(NotesClient).update("1", if_match="e1", content="new")

    assert changed.etag == "e2"


@pytest.mark.parametrize("body", [b"[]", b"no json", b'{"content": "other"}'])
async def test_an_answer_that_does_not_show_the_change_leaves_it_in_doubt(body: bytes) -> None:
    net = network(GATEWAY, CHANGED, httpx2.Response(200, content=body))

    with pytest.raises(errors.TimedOut, match="perhaps by the first"):
        await account_over(net).client(NotesClient).update("1", if_match="e1", content="new")


async def test_what_was_deleted_the_first_time_counts_as_deleted() -> None:
    net = network(GATEWAY, httpx2.Response(404))
    account = account_over(net)

    assert await account.files.delete("a.txt") == "a.txt"
    assert account.changes == 1


@pytest.mark.parametrize("second", [httpx2.Response(404), CHANGED], ids=["source gone", "target there"])
async def test_a_move_that_may_have_been_done_the_first_time_is_said_to_be_in_doubt(
    second: httpx2.Response,
) -> None:
    net = network(GATEWAY, second)

    with pytest.raises(errors.TimedOut, match="may or may not have happened"):
        await account_over(net).files.move("a.txt", "b.txt")


async def test_a_folder_that_was_made_the_first_time_is_there() -> None:
    there = multistatus([entry("Docs", folder=True)])
    net = network(GATEWAY, httpx2.Response(405), there)

    assert await account_over(net).files.create_folder("Docs") is False


CARD = VCard.read("BEGIN:VCARD\r\nVERSION:3.0\r\nUID:u\r\nFN:A\r\nEND:VCARD\r\n")


@pytest.mark.parametrize("refusal", [LOCKED, GATEWAY, BUSY], ids=["423", "502", "503"])
async def test_calendars_and_contacts_get_through_too(refusal: Answer) -> None:
    net = network(refusal, DONE)

    card = await account_over(net).client(ContactsClient).create("contacts", CARD)

    assert card.etag == "e2"


@pytest.mark.parametrize(
    "refusal", [LOCKED, GATEWAY, BUSY, BARE], ids=["423", "502", "503 with a wait", "503"]
)
async def test_a_chunk_replaces_itself_so_it_is_sent_again_whatever_passes(refusal: Answer) -> None:
    net = network(refusal, refusal, refusal, DONE)

    await account_over(net).client(UploadClient).requests.put(f"mcp-{'0' * 32}", 3, b"x")

    assert net.methods == ["PUT"] * 4


async def test_a_note_that_four_users_append_to_at_once_keeps_all_four_texts() -> None:
    """Each write meets the lock of another, or what another has written meanwhile."""
    note = {
        "id": 1,
        "title": "t",
        "content": "",
        "category": "",
        "etag": "0",
        "favorite": False,
        "modified": 1,
    }
    writing = False
    meetings = {"locked": 0, "changed": 0}

    async def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal writing
        await anyio.lowlevel.checkpoint()
        if request.method == "GET":
            return httpx2.Response(200, json=note)
        if writing:
            meetings["locked"] += 1
            return httpx2.Response(423)
        if request.headers["If-Match"] != f'"{note["etag"]}"':
            meetings["changed"] += 1
            return httpx2.Response(412, json=note)
        writing = True
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        sent = httpx2.Response(200, content=await request.aread()).json()
        note.update(content=sent["content"], etag=str(int(str(note["etag"])) + 1))
        writing = False
        return httpx2.Response(200, json=note)

    async def append(text: str) -> None:
        # A user's own edits wait for each other; users who share a note do not.
        notes = NotesClient(http_over(answer, uid=f"user {text}"))
        await notes.change("1", lambda before: before + text, if_match=None)

    async with anyio.create_task_group() as group:
        for text in "abcd":
            group.start_soon(append, text)

    assert sorted(str(note["content"])) == ["a", "b", "c", "d"]
    assert meetings["locked"] + meetings["changed"] > 0


@pytest.mark.parametrize(
    ("method", "path", "headers", "kind"),
    [
        ("PROPFIND", "/x", {}, Kind.READING),
        ("POST", "/x", {}, Kind.ONCE),
        ("POST", "/x", {"if-none-match": "*"}, Kind.GUARDED),
        ("PUT", "/x", {}, Kind.IDEMPOTENT),
        ("MOVE", "/remote.php/dav/x", {"Overwrite": "T"}, Kind.IDEMPOTENT),
        ("MOVE", "/remote.php/dav/x", {"overwrite": "F"}, Kind.GUARDED),
        ("MOVE", "/x", {}, Kind.ONCE),
        ("MKCOL", "/remote.php/dav/x", {}, Kind.GUARDED),
        ("PROPPATCH", "/remote.php/dav/x", {}, Kind.IDEMPOTENT),
        ("PATCH", "/x", {}, Kind.ONCE),
    ],
)
def test_how_a_request_may_be_repeated_is_known_by_its_method_and_headers(
    method: str, path: str, headers: dict[str, str], kind: Kind
) -> None:
    assert kind_of(method, path, headers) is kind


@pytest.mark.parametrize(("level", "logged"), [("info", False), ("debug", True)])
async def test_a_repetition_is_logged_at_debug_alone_and_never_printed_to_stdout(
    capsys: pytest.CaptureFixture[str], level: str, *, logged: bool
) -> None:
    logs.set_up(level)

    await http_over(network(LOCKED, DONE)).request("GET", "/remote.php/dav/files/alice/a")

    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("stamina.retry_scheduled" in captured.err) is logged


@pytest.mark.process
def test_the_library_that_repeats_is_not_loaded_before_a_request_fails() -> None:
    code = "import sys; import nextcloud_mcp_server.server.app; print('stamina' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "False"
