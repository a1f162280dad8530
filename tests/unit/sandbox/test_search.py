import re

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox


@pytest.fixture(autouse=True)
def files(sandbox: Sandbox) -> None:
    files = sandbox.state.users["alice"].files
    files.make_folder("/a")
    for name, size in (("b.txt", 3), ("C.TXT", 2), ("d_1.md", 1)):
        files.put(f"/a/{name}", b"x" * size)
    files.put("/a/b.txt", b"xxx", modified_at=1_600_000_000).favorite = True


async def _search(
    client: httpx2.AsyncClient, where: str, *, scope: str = "/files/alice", tail: str = ""
) -> httpx2.Response:
    body = (
        '<d:searchrequest xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:basicsearch>'
        "<d:select><d:prop><d:displayname/></d:prop></d:select>"
        f"<d:from><d:scope><d:href>{scope}</d:href><d:depth>infinity</d:depth></d:scope></d:from>"
        f"<d:where>{where}</d:where>{tail}</d:basicsearch></d:searchrequest>"
    )
    return await client.request("SEARCH", "/remote.php/dav/", content=body)


def _names(response: httpx2.Response) -> list[str]:
    return re.findall("<d:displayname>([^<]*)", response.text)


def _compare(operator: str, prop: str, literal: str) -> str:
    return f"<d:{operator}><d:prop><{prop}/></d:prop><d:literal>{literal}</d:literal></d:{operator}>"


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("", ["a", "C.TXT", "b.txt", "d_1.md"]),
        ("<d:is-collection/>", ["a"]),
        ("<d:not><d:is-collection/></d:not>", ["C.TXT", "b.txt", "d_1.md"]),
        (_compare("like", "d:displayname", "%.txt"), ["C.TXT", "b.txt"]),
        (_compare("like", "d:displayname", "d\\_1._d"), ["d_1.md"]),
        (_compare("eq", "d:displayname", "b.txt"), ["b.txt"]),
        (_compare("eq", "oc:favorite", "yes"), ["b.txt"]),
        (_compare("eq", "oc:size", "many"), []),
        (_compare("gt", "oc:size", "2"), ["a", "b.txt"]),
        (_compare("gte", "oc:size", "2"), ["a", "C.TXT", "b.txt"]),
        (_compare("lt", "d:getlastmodified", "2021-01-01T00:00:00Z"), ["b.txt"]),
        (_compare("lte", "d:displayname", "C.TXT"), ["C.TXT"]),
        (
            "<d:and>"
            + _compare("like", "d:getcontenttype", "text/%")
            + _compare("lt", "oc:size", "2")
            + "</d:and>",
            ["d_1.md"],
        ),
        (
            "<d:or>" + _compare("eq", "oc:size", "1") + _compare("eq", "oc:size", "2") + "</d:or>",
            ["C.TXT", "d_1.md"],
        ),
    ],
)
async def test_a_condition_finds_what_it_says(
    alice: httpx2.AsyncClient, where: str, found: list[str]
) -> None:
    response = await _search(alice, where)

    assert _names(response) == found


async def test_results_are_ordered_and_paged(alice: httpx2.AsyncClient) -> None:
    order = (
        "<d:orderby><d:order><d:prop><oc:size/></d:prop><d:ascending/></d:order></d:orderby>"
        '<d:limit><d:nresults>2</d:nresults><s:firstresult xmlns:s="https://github.com/icewind1991/SearchDAV/ns">'
        "1</s:firstresult></d:limit>"
    )

    response = await _search(alice, "<d:not><d:is-collection/></d:not>", tail=order)

    assert _names(response) == ["C.TXT", "b.txt"]


async def test_a_search_below_a_folder_stays_there(alice: httpx2.AsyncClient) -> None:
    response = await _search(alice, "", scope="/files/alice/a/")

    assert _names(response) == ["C.TXT", "b.txt", "d_1.md"]


@pytest.mark.parametrize(
    ("where", "scope", "status"),
    [
        ("<d:near/>", "/files/alice", 400),
        (_compare("near", "d:displayname", "x"), "/files/alice", 400),
        ("", "/files/alice/missing", 404),
        ("", "/files/alice/a/b.txt", 500),
    ],
)
async def test_a_search_that_makes_no_sense_is_refused(
    alice: httpx2.AsyncClient, where: str, scope: str, status: int
) -> None:
    response = await _search(alice, where, scope=scope)

    assert response.status_code == status


async def test_a_body_that_is_no_search_is_refused(alice: httpx2.AsyncClient) -> None:
    response = await alice.request("SEARCH", "/remote.php/dav/", content="<a/>")

    assert response.status_code == 400
