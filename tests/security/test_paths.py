"""Names and addresses that try to leave the user's own files, or to become something else."""

from urllib.parse import unquote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.errors import InvalidInput, NextcloudMcpError
from nextcloud_mcp_server.nextcloud import dav
from nextcloud_mcp_server.nextcloud.file_query import Query
from nextcloud_mcp_server.nextcloud.files import FilesClient
from nextcloud_mcp_server.nextcloud.trash import TrashClient
from tests.dav_fakes import SECONDS, Network, entry, http_over, multistatus, network

TRAVERSALS = (
    "..",
    "../bob/secret.txt",
    "/../bob/secret.txt",
    "Docs/../../bob/secret.txt",
    "Docs/..",
    "./x",
    "Docs/./x",
    "..\\bob",
    "Docs\\..\\..\\bob",
    "a\x00b",
    "a\r\nX-Evil: 1",
    "a\nb",
    "a\tb",
    "x" * 300,
    "ü" * 128,
    "\ud800",
)
#: Spellings that other programs decode; to us they are names like any other.
LITERAL = (
    "%2e%2e/bob",
    "..%2fbob",
    "%2e%2e%2fbob",
    "..%252fbob",
    "%c0%ae%c0%ae/bob",
    "..;/bob",
    "\uff0e\uff0e/bob",
    "\u2025/bob",
    "...",
    ". .",
    "https://evil.example/x",
    "//evil.example/x",
    "?x=y",
    "#fragment",
    "user@host:80",
)


def files(net: Network) -> FilesClient:
    return FilesClient(http_over(net))


@pytest.mark.parametrize("path", TRAVERSALS)
async def test_traversal_and_broken_names_are_refused_before_any_request(path: str) -> None:
    net = network()
    client = files(net)

    for attempt in (
        client.list_folder(path),
        client.details(path),
        client.read(path, length=1),
        client.write(path, b""),
        client.write(path, b"", version="e1"),
        client.create_folder(path),
        client.move(path, "x"),
        client.move("x", path),
        client.copy("x", path, overwrite="e1"),
        client.delete(path),
        client.search(Query(name="x", folder=path), limit=1),
        TrashClient(http_over(net)).restore(path),
    ):
        with pytest.raises(InvalidInput):
            await attempt

    assert net.seen == []


@pytest.mark.parametrize("path", LITERAL)
async def test_other_spellings_are_names_inside_the_persons_own_tree(path: str) -> None:
    """B01: tool input is never decoded."""
    net = network(httpx2.Response(201, headers={"ETag": '"e1"'}))

    await files(net).write(path, b"x")

    sent = net.seen[0].url
    inside = sent.raw_path.decode().removeprefix("/remote.php/dav/files/alice/")
    assert sent.host == "cloud.example.org"
    assert sent.raw_path.decode() != inside
    assert tuple(unquote(part) for part in inside.split("/")) == dav.split(path)


@given(st.text(max_size=60))
async def test_no_text_at_all_leaves_the_persons_own_tree(path: str) -> None:
    net = network(httpx2.Response(201, headers={"ETag": '"e1"'}))

    try:
        await files(net).write(path, b"x")
    except InvalidInput:
        assert net.seen == []
        return

    segments = net.seen[0].url.raw_path.decode().split("/")
    assert segments[:5] == ["", "remote.php", "dav", "files", "alice"]
    assert not {"", ".", ".."} & set(segments[5:])


@pytest.mark.parametrize("name", ["a\r\nX-Evil: 1", "a\nb", "a\rb"])
async def test_no_line_break_gets_into_a_destination(name: str) -> None:
    net = network()

    with pytest.raises(InvalidInput):
        await files(net).move("x", name)

    assert net.seen == []


@pytest.mark.parametrize("name", ["a\u2028b", "ü", "a b", "a\x85b"])
async def test_a_destination_is_plain_ascii(name: str) -> None:
    net = network(httpx2.Response(201), multistatus([entry(name)]))

    await files(net).move("x", name)

    assert net.seen[0].headers["Destination"].isascii()
    assert not {" ", "\r", "\n"} & set(net.seen[0].headers["Destination"])


@pytest.mark.parametrize("etag", ['e1"\r\nX-Evil: 1', "*", "e1\n", 'a", "b', "é", "e1~3~\r\nX: y"])
async def test_no_made_up_etag_gets_into_if_match(etag: str) -> None:
    net = network(*(multistatus([entry("a", etag="e0")]) for _ in range(2)))

    with pytest.raises(NextcloudMcpError):
        await files(net).write("a", b"x", version=etag)

    assert net.methods in ([], ["PROPFIND"])


async def test_a_hostile_etag_of_the_server_gets_into_no_header() -> None:
    net = network(multistatus([entry("a", etag="e1&#13;&#10;X-Evil: 1")]))

    net.answers.append(httpx2.Response(204, headers={"ETag": '"e2"'}))

    await files(net).write("a", b"x", version=f"~3~{SECONDS}")

    assert "If-Match" not in net.seen[1].headers
    assert "X-Evil" not in net.seen[1].headers


async def test_a_uid_cannot_lead_to_another_tree() -> None:
    net = network(multistatus([entry("", href="/remote.php/dav/files/a%2F..%2Fbob/", folder=True)]))

    with pytest.raises(InvalidInput):
        await FilesClient(http_over(net, uid="a/../bob")).list_folder()

    assert net.seen == []


async def test_entries_of_other_people_and_places_are_not_listed() -> None:
    hrefs = [
        "/remote.php/dav/files/bob/x",
        "/remote.php/dav/files/alice/../bob/x",
        "/remote.php/dav/files/alice/%2e%2e%2fbob",
        "https://evil.example/remote.php/dav/files/alice/x",
        "//evil.example/remote.php/dav/files/alice/x",
    ]
    net = network(multistatus([entry("", folder=True), *(entry("", href=href) for href in hrefs)]))

    listing = await files(net).list_folder()

    assert listing.entries == []
