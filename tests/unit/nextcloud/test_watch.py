from collections.abc import Callable, Coroutine

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.nextcloud.watch import Place
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.notes.store import Changes, NoteStore
from tests.dav_fakes import account_in, call


def account_by(
    handler: Callable[[httpx2.Request], Coroutine[None, None, httpx2.Response]], base: str
) -> Account:
    """Open Alice's account over a network that can do something of its own."""
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(handler))
    credential = BasicCredential("alice", SecretStr("alice"))
    return Nextcloud(NextcloudUrl.parse(base), pool).account(credential, uid="alice")


async def test_the_etag_of_the_top_folder_changes_with_everything_below_it() -> None:
    sandbox = Sandbox.demo(one_second_etags=False)
    watch, files = account_in(sandbox).watch, sandbox.state.users["alice"].files
    files.make_folder("/Deep")
    files.put("/Deep/a.txt", b"1")
    before = [await watch.etag("files", path) for path in ("/", "Deep/a.txt", "Readme.md")]

    files.put("/Deep/a.txt", b"2")
    after = [await watch.etag("files", path) for path in ("/", "Deep/a.txt", "Readme.md")]

    assert [one == other for one, other in zip(before, after, strict=True)] == [False, False, True]
    assert all(before)


@pytest.mark.parametrize("path", ["no such.txt", "../admin/secret", "a\nb"])
async def test_what_is_not_there_has_no_etag(path: str) -> None:
    assert await account_in(Sandbox.demo()).watch.etag("files", path) == ""


@pytest.mark.parametrize(
    ("place", "name", "tool", "arguments"),
    [
        ("calendars", "personal", "nc_calendar_create_event", {"title": "New", "start": "2026-12-01"}),
        ("addressbooks", "contacts", "nc_contacts_create_contact", {"name": "New"}),
    ],
)
async def test_a_calendar_or_an_address_book_changes_with_what_is_in_it(
    place: Place, name: str, tool: str, arguments: dict[str, str]
) -> None:
    account = account_in(Sandbox.demo())
    before = await account.watch.states(place)

    await call(account, tool, **arguments)
    after = await account.watch.states(place)

    assert before[name] != after[name]
    assert {key: one for key, one in before.items() if key != name} == {
        key: one for key, one in after.items() if key != name
    }


@pytest.mark.parametrize(
    ("place", "here", "missing"),
    [
        ("calendars", ["personal/standup.ics", "personal/budget.ics"], "personal/no such & <one>.ics"),
        ("addressbooks", ["contacts/contact-1.vcf", "contacts/contact-2.vcf"], "contacts/no such.vcf"),
    ],
)
@pytest.mark.parametrize("root", ["", "/cloud"])
async def test_the_members_of_a_collection_are_asked_for_together(
    place: Place, here: list[str], missing: str, root: str
) -> None:
    """As in RFC 4791 §7.9 and RFC 6352 §8.7; a real server leaves out what is not there."""
    sandbox, bodies = Sandbox.demo(), list[str]()
    inner = httpx2.ASGITransport(sandbox.app)

    async def pass_on(request: httpx2.Request) -> httpx2.Response:
        bodies.append((await request.aread()).decode())
        url = request.url.copy_with(path=request.url.path.removeprefix(root))
        response = await inner.handle_async_request(
            httpx2.Request(request.method, url, headers=request.headers, content=await request.aread())
        )
        return httpx2.Response(response.status_code, headers=response.headers, content=await response.aread())

    watch = account_by(pass_on, f"http://localhost{root}").watch
    one_by_one = {path: await watch.etag(place, path) for path in here}
    bodies.clear()

    together = await watch.etags(place, [*here, missing, "../admin/secret", "no such/one", "gone"])

    assert all(one_by_one.values())
    assert together == {**one_by_one, missing: "", "../admin/secret": "", "no such/one": "", "gone": ""}
    (report,) = [body for body in bodies if "multiget" in body]
    assert all(f"<d:href>{root}/remote.php/dav/" in report for _ in here)


async def test_where_a_collection_refuses_the_names_its_members_are_asked_for_one_by_one() -> None:
    sandbox, methods = Sandbox.demo(), list[str]()
    inner = httpx2.ASGITransport(sandbox.app)

    async def refuse(request: httpx2.Request) -> httpx2.Response:
        methods.append(request.method)
        if request.method == "REPORT":
            return httpx2.Response(403, content=b"<d:error xmlns:d='DAV:'/>")
        return await inner.handle_async_request(request)

    names = ["personal/standup.ics", "personal/budget.ics"]
    found = await account_by(refuse, "http://localhost").watch.etags("calendars", names)

    assert all(found.values())
    assert methods == ["REPORT", "PROPFIND", "PROPFIND"]


async def test_where_a_whole_collection_is_gone_so_are_its_members() -> None:
    names = ["gone/a.ics", "gone/b.ics"]

    found = await account_in(Sandbox.demo()).watch.etags("calendars", names)

    assert found == dict.fromkeys(names, "")


async def test_the_list_of_notes_comes_again_only_when_it_is_another() -> None:
    sandbox = Sandbox.demo()
    notes, store = (
        account_in(sandbox).client(NotesClient),
        NoteStore(sandbox.state.users["alice"], sandbox.state.clock),
    )
    first = await notes.changed(None)
    assert first is not None

    same = await notes.changed(first.etag)
    store.create(Changes(title="New"))
    other = await notes.changed(first.etag)

    assert same is None
    assert other is not None
    assert {note.title for note in other.notes} - {note.title for note in first.notes} == {"New"}
    assert all(note.content is None for note in other.notes)
