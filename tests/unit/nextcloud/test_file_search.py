import httpx2
import pytest

from nextcloud_mcp_server.errors import CredentialRejected, InvalidInput, NotFound
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.file_query import Query
from nextcloud_mcp_server.sandbox.app import DEFAULT_APPS, Sandbox
from tests.dav_fakes import Handler, account_in, account_over, call

FILES = {
    "/Docs/100% done.txt": "plain words",
    "/Docs/1000 done.txt": "plain words",
    "/Docs/a_b & 'c' \"d\".md": "more words",
    "/Docs/ab & c.md": "words",
    "/Docs/Ame\u0301lie.md": "words",
    "/Docs/big.pdf": "x" * 2000,
    "/Photos/garden.png": "png",
}


@pytest.fixture
def sandbox() -> Sandbox:
    made = Sandbox(apps=DEFAULT_APPS | {"fulltextsearch"})
    files = made.add_user("alice").files
    for number, (path, text) in enumerate(FILES.items()):
        files.make_folder(path.rpartition("/")[0], parents=True)
        files.put(path, text.encode(), modified_at=1_795_000_000 + number)
    return made


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


def tag_everything(sandbox: Sandbox, name: str) -> None:
    tag = sandbox.state.add_tag(name)
    for node in sandbox.state.users["alice"].files.root.walk():
        node.tags.add(tag.id)


async def names(account: Account, **arguments: object) -> list[str]:
    page = await call(account, "nc_files_search_items", **arguments)
    assert page.cursor is None
    return [row.path.rpartition("/")[2] for row in page.items]


SPELLINGS = {
    "100%": ["100% done.txt"],
    "a_b": ["a_b & 'c' \"d\".md"],
    "b & ": ["ab & c.md", "a_b & 'c' \"d\".md"],
    "'c' \"d\"": ["a_b & 'c' \"d\".md"],
    "AME\u0301LIE": ["Amélie.md"],
    "amélie": ["Amélie.md"],
    "</d:literal>": [],
}


async def test_signs_in_a_name_stand_for_themselves_and_accents_may_be_typed_either_way(
    sandbox: Sandbox, alice: Account
) -> None:
    """U49: `%`, `_`, `&`, quotes and angle brackets are searched for as they are; B07: in NFC and in NFD."""
    tag_everything(sandbox, "R&D")

    plain = {text: await names(alice, name=text) for text in SPELLINGS}
    tagged = {text: await names(alice, name=text, tag="R&D") for text in SPELLINGS}

    assert plain == SPELLINGS
    assert tagged == SPELLINGS


async def test_a_tag_is_combined_with_every_other_condition(sandbox: Sandbox, alice: Account) -> None:
    tag_everything(sandbox, "todo")
    await call(alice, "nc_files_set_labels", path="Photos/garden.png", favorite=True)
    moment = "2026-11-18T11:06:44Z"

    assert len(await names(alice, tag="todo")) == len(FILES) + 2
    assert await names(alice, tag="todo", kind="folder") == ["Docs", "Photos"]
    assert await names(alice, tag="todo", kind="pdf") == await names(
        alice, tag="todo", min_size=1000, kind="file"
    )
    assert await names(alice, tag="todo", kind="image") == ["garden.png"]
    assert await names(alice, tag="todo", favorite=True) == ["garden.png"]
    assert await names(alice, tag="todo", folder="/Photos") == ["garden.png"]
    assert await names(alice, tag="todo", max_size=3, kind="file") == ["garden.png"]
    assert "100% done.txt" not in await names(alice, tag="todo", modified_after=moment)
    assert "garden.png" not in await names(alice, tag="todo", modified_before=moment)


async def test_the_pages_of_a_tag_give_everything_once(sandbox: Sandbox, alice: Account) -> None:
    tag_everything(sandbox, "todo")
    found: list[str] = []
    cursor = None

    for _ in range(3):
        page = await call(alice, "nc_files_search_items", tag="TODO", limit=3, cursor=cursor)
        found += [row.path for row in page.items]
        cursor = page.cursor

    assert cursor is None
    assert len(found) == len(set(found)) == len(FILES) + 2
    assert found[2:4] == ["Photos/garden.png", "Docs/big.pdf"]


async def test_an_unknown_tag_or_folder_says_where_to_look(alice: Account) -> None:
    with pytest.raises(NotFound, match="no tag 'nope': see nc_files_list_tags"):
        await call(alice, "nc_files_search_items", tag="nope")
    await call(alice, "nc_files_set_labels", path="Docs", add_tags=["todo"])
    with pytest.raises(NotFound, match="no folder 'nope' to search in"):
        await call(alice, "nc_files_search_items", tag="todo", folder="nope")


async def test_texts_are_searched_where_nextcloud_indexes_them_best_first(alice: Account) -> None:
    every = await names(alice, content="words")
    plain = await names(alice, content="plain", name="1000")

    assert every == ["Amélie.md", "ab & c.md", "a_b & 'c' \"d\".md", "1000 done.txt", "100% done.txt"]
    assert plain == ["1000 done.txt"]
    with pytest.raises(NotFound, match="cannot search in the text"):
        await call(account_in(Sandbox.demo()), "nc_files_search_items", content="words")


async def test_the_pages_of_a_search_in_texts_give_everything_once(sandbox: Sandbox, alice: Account) -> None:
    files = sandbox.state.users["alice"].files
    for number in range(60):
        files.put(f"/Docs/many {number:02}.txt", b"needle", modified_at=1_795_000_000)
    found: list[str] = []
    cursor, pages = None, 0

    while cursor or not pages:
        page = await call(alice, "nc_files_search_items", content="needle", limit=7, cursor=cursor)
        found += [row.path for row in page.items]
        cursor, pages = page.cursor, pages + 1

    assert len(found) == len(set(found)) == 60
    assert pages <= 10


async def test_a_search_in_texts_looks_through_so_many_hits_at_once_and_no_more(
    sandbox: Sandbox, alice: Account
) -> None:
    files = sandbox.state.users["alice"].files
    for number in range(110):
        files.put(f"/Docs/{number:03}.txt", b"needle", modified_at=1_795_000_000)

    first = await alice.file_search.find(Query(content="needle", name="000"), limit=5)
    second = await alice.file_search.find(Query(content="needle", name="000"), limit=5, after=first.rest)

    assert first.found == []
    assert first.rest is not None
    assert [each.entry.name for each in second.found] == ["000.txt"]
    assert second.rest is None


async def test_hits_that_are_gone_or_no_files_are_passed_over_and_other_trouble_is_told() -> None:
    hits = [
        {"title": "gone", "resourceUrl": "/apps/files/?dir=/&scrollto=gone"},
        {"title": "odd", "resourceUrl": "/apps/files/?dir=/..&scrollto=x"},
        {"title": "a note", "resourceUrl": "/apps/notes/7"},
    ]

    def answering(status: int) -> Handler:
        def handler(request: httpx2.Request) -> httpx2.Response:
            if request.method == "PROPFIND" or (status == 401 and "cloud/user" in request.url.path):
                return httpx2.Response(status, stream=httpx2.ByteStream(b""))
            data: object = {"isPaginated": True, "entries": hits, "cursor": 25}
            if not request.url.path.endswith("/search"):
                data = [{"id": "fulltextsearch", "name": "Full Text Search"}]
            return httpx2.Response(200, json={"ocs": {"data": data}})

        return handler

    found = await account_over(answering(404)).file_search.find(Query(content="x"), limit=5)
    with pytest.raises(CredentialRejected):
        await account_over(answering(401)).file_search.find(Query(content="x"), limit=5)

    assert found == ([], None)


async def test_tag_and_text_together_are_refused(alice: Account) -> None:
    with pytest.raises(InvalidInput, match="not by both"):
        await call(alice, "nc_files_search_items", tag="a", content="b")
