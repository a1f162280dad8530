import json
import re

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.errors import InvalidInput, NotFound
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.search import path_of
from nextcloud_mcp_server.nextcloud.top_k import Position
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import DEFAULT_APPS, Sandbox
from nextcloud_mcp_server.tools import answer, pagination
from tests.dav_fakes import account_in, call


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo(apps=DEFAULT_APPS | {"fulltextsearch"})


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


def sealed(what: str, *, uid: str = "alice", offset: int = 0) -> str:
    """Write an id as search does, and as a user may who has read how it does."""
    return pagination.seal(Position.of(offset, what), "research", uid)


async def read_all(account: Account, source: str) -> str:
    text, following = "", source
    while following:
        fetched = await call(account, "fetch", id=following)
        assert len(answer.compact(fetched.model_dump(mode="json")).encode()) * 2 < 80_000
        text, following = text + fetched.text, fetched.metadata.get("next_id", "")
    return text


async def test_what_is_found_can_be_fetched_by_its_id(alice: Account) -> None:
    found = await call(alice, "search", query="kestrel garden")
    note = await call(alice, "fetch", id=found.results[0].id)
    file = await call(alice, "fetch", id=found.results[2].id)
    sent = answer.result(found)

    assert [source.title for source in found.results] == [
        "Project Kestrel",
        "Photos/Garden.png",
        "Notes/Work/Projects/Project Kestrel.md",
    ]
    assert note.text.startswith("# Project Kestrel")
    assert note.title == "Project Kestrel"
    assert note.metadata == {"type": "note", "category": "Work/Projects"}
    assert (file.text, file.title) == (note.text, "Project Kestrel.md")
    assert re.fullmatch(r"http://localhost/index\.php/apps/notes/note/\d+", note.url)
    assert [set(json.loads(block.text)) for block in sent.content if block.type == "text"] == [{"results"}]


async def test_texts_are_found_where_they_are_indexed_and_names_with_most_words_come_first(
    alice: Account,
) -> None:
    written = await call(alice, "search", query="Zürich on the 3rd")
    named = await call(alice, "search", query="plan of the travel in 2027")

    assert [source.title for source in written.results] == ["Documents/Travel plan.md"]
    assert [source.title for source in named.results][:2] == [
        "Documents/Travel plan.md",
        "Documents/Budget 2027.csv",
    ]
    assert path_of(named.results[1].url) == "/Documents/Budget 2027.csv"


async def test_a_nextcloud_without_notes_or_index_is_searched_by_name() -> None:
    bare = account_in(Sandbox.demo(apps=DEFAULT_APPS - {"notes"}))

    assert [source.title for source in (await call(bare, "search", query="“Internet”?")).results] == [
        "Documents/Contracts/Internet.txt"
    ]
    assert (await call(bare, "search", query="a b")).results == []


async def test_long_texts_are_fetched_part_by_part(sandbox: Sandbox, alice: Account) -> None:
    text = "".join(f'"{number}"\tü & \\ line\n' for number in range(3000))
    sandbox.state.users["alice"].files.put("/Documents/a@7:b.md", text.encode())
    note = await alice.client(NotesClient).create(title="Long", content=text, category="", favorite=False)

    assert await read_all(alice, sealed("file:Documents/a@7:b.md")) == text
    assert await read_all(alice, sealed(f"note:{note.id}")) == text


async def test_texts_of_signs_that_json_writes_at_length_still_fit(sandbox: Sandbox, alice: Account) -> None:
    text = "\x1b\x01" * 12_000
    sandbox.state.users["alice"].files.put("/Documents/codes.txt", text.encode())
    note = await alice.client(NotesClient).create(title="Codes", content=text, category="", favorite=False)

    assert await read_all(alice, sealed("file:Documents/codes.txt")) == text
    assert await read_all(alice, sealed(f"note:{note.id}")) == text


async def test_texts_that_json_writes_a_little_longer_still_fit(sandbox: Sandbox, alice: Account) -> None:
    """A quotation mark takes two bytes in JSON (RFC 8259 §7); every fifth sign is one."""
    text = 'abcd"' * 20_000
    sandbox.state.users["alice"].files.put("/Documents/quotes.txt", text.encode())
    note = await alice.client(NotesClient).create(title="Quotes", content=text, category="", favorite=False)

    assert await read_all(alice, sealed("file:Documents/quotes.txt")) == text
    assert await read_all(alice, sealed(f"note:{note.id}")) == text


async def test_of_many_notes_ten_are_named_and_leave_room_for_files(sandbox: Sandbox, alice: Account) -> None:
    for number in range(12):
        await alice.client(NotesClient).create(
            title=f"Walrus {number}", content="walrus", category="", favorite=False
        )
    sandbox.state.users["alice"].files.put("/Documents/walrus.txt", b"-")

    found = [source.title for source in (await call(alice, "search", query="walrus")).results]

    assert len([title for title in found if title.startswith("Walrus ")]) == 10
    assert "Documents/walrus.txt" in found


async def test_a_question_without_a_word_finds_nothing_and_asks_for_no_file(alice: Account) -> None:
    assert (await call(alice, "search", query="?! …")).results == []


async def test_a_picture_is_fetched_as_what_is_known_of_it(alice: Account) -> None:
    fetched = await call(alice, "fetch", id=sealed("file:Photos/Garden.png"))

    assert (fetched.title, fetched.text) == ("Garden.png", "This is a picture.")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", fetched.metadata["modified"])


@pytest.mark.parametrize("signs", ["100% sure", "a_b", "R&D 'plans' \"x\"", "</d:literal>"])
async def test_signs_in_a_question_are_searched_for_as_they_are(
    sandbox: Sandbox, alice: Account, signs: str
) -> None:
    files = sandbox.state.users["alice"].files
    for name in ("100% sure.txt", "1000 sure", "a_b.txt", "acb.txt", "R&D 'plans'.txt", "RxD.txt"):
        files.put(f"/Documents/{name}", b"-")

    found = {source.title for source in (await call(alice, "search", query=signs)).results}

    assert found <= {
        "Documents/100% sure.txt",
        "Documents/1000 sure",
        "Documents/a_b.txt",
        "Documents/R&D 'plans'.txt",
    }
    assert bool(found) == ("literal" not in signs)


async def test_an_index_that_fails_hides_nothing_of_what_is_found_without_it(sandbox: Sandbox) -> None:
    inner = httpx2.ASGITransport(app=sandbox.app)

    async def broken(request: httpx2.Request) -> httpx2.Response:
        if "/search/providers" in request.url.path:
            return httpx2.Response(500)
        return await inner.handle_async_request(request)

    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(broken))
    alice = Nextcloud(NextcloudUrl.parse("http://localhost"), pool).account(
        BasicCredential("alice", SecretStr("alice")), uid="alice"
    )

    found = await call(alice, "search", query="travel")

    assert [source.title for source in found.results] == ["Documents/Travel plan.md"]


@pytest.mark.parametrize(
    "source",
    ["nonsense", "file:Readme.md", sealed("note:x"), sealed("file:"), sealed("file:Readme.md", offset=-1)],
)
async def test_an_id_that_search_did_not_answer_is_refused(alice: Account, source: str) -> None:
    with pytest.raises(InvalidInput, match="search again"):
        await call(alice, "fetch", id=source)


@pytest.mark.parametrize(
    "path", ["../bob/Documents/Office move.md", "/remote.php/dav/files/bob/Office move.md"]
)
async def test_an_id_reaches_nothing_of_another_user(alice: Account, path: str) -> None:
    with pytest.raises(InvalidInput, match="search again"):
        await call(alice, "fetch", id=sealed("file:Documents/Office move.md", uid="bob"))
    with pytest.raises((InvalidInput, NotFound)):
        await call(alice, "fetch", id=sealed(f"file:{path}"))
