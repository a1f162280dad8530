import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.previews import PIXEL

_HOME = "/remote.php/dav/uploads/alice"
_TARGET = "/remote.php/dav/files/alice/big.bin"


async def begin(alice: httpx2.AsyncClient, *chunks: tuple[str, bytes]) -> None:
    assert (await alice.request("MKCOL", f"{_HOME}/u")).status_code == 201
    for name, data in chunks:
        assert (await alice.put(f"{_HOME}/u/{name}", content=data)).status_code == 201


async def assemble(alice: httpx2.AsyncClient, target: str = _TARGET, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await alice.request("MOVE", f"{_HOME}/u/.file", headers={"Destination": target, **named})


async def test_chunks_are_put_together_by_the_numbers_in_their_names(
    alice: httpx2.AsyncClient, sandbox: Sandbox
) -> None:
    await begin(alice, ("10", b"c"), ("2", b"?"), ("1", b"a"))
    again = await alice.put(f"{_HOME}/u/2", content=b"b")

    response = await assemble(alice)

    assert (again.status_code, response.status_code) == (204, 201)
    assert sandbox.state.users["alice"].files.get("/big.bin").read() == b"abc"
    assert sandbox.state.users["alice"].uploads == {}


async def test_a_file_is_replaced_only_in_the_state_it_was_read_in(
    alice: httpx2.AsyncClient, sandbox: Sandbox
) -> None:
    node = sandbox.state.users["alice"].files.put("/big.bin", b"old")
    etag = node.etag
    await begin(alice, ("1", b"new"))

    refused = await assemble(alice, Overwrite="F")
    stale = await assemble(alice, If=f'<{_TARGET}> (["{etag}x"])')
    strange = await assemble(alice, If=f"<{_TARGET}>")
    gone = await assemble(alice, If=f'<{_TARGET}x> (["{etag}"])')
    done = await assemble(alice, If=f'<{_TARGET}> (["{etag}"])')

    assert [answer.status_code for answer in (refused, stale, gone, done)] == [412, 412, 404, 204]
    assert strange.status_code in {400, 403}
    assert node.read() == b"new"


async def test_chunks_cannot_become_a_folder_or_go_where_none_is(
    alice: httpx2.AsyncClient, sandbox: Sandbox
) -> None:
    sandbox.state.users["alice"].files.make_folder("/big.bin")
    await begin(alice, ("1", b"new"))

    folder = await assemble(alice)
    nowhere = await assemble(alice, "/remote.php/dav/files/alice/no/where.txt")
    forbidden = await assemble(alice, "/remote.php/dav/files/alice/.htaccess")

    assert [folder.status_code, nowhere.status_code, forbidden.status_code] == [400, 409, 400]
    assert "The given destination files/alice/big.bin is a directory." in folder.text


async def test_the_chunks_may_be_more_than_there_is_room_for(
    alice: httpx2.AsyncClient, sandbox: Sandbox
) -> None:
    await begin(alice, ("1", b"new"))
    sandbox.state.users["alice"].files.quota_bytes = 2

    assert (await assemble(alice)).status_code == 507


async def test_what_an_upload_does_not_have_is_refused(alice: httpx2.AsyncClient) -> None:
    await begin(alice)

    statuses = [
        (await alice.request(method, f"/remote.php/dav/uploads{path}")).status_code
        for method, path in (
            ("MKCOL", "/alice/u"),
            ("PUT", "/alice/u/.file"),
            ("GET", "/alice/u/1"),
            ("PROPFIND", "/alice"),
            ("PROPFIND", "/alice/u/1/2"),
            ("PROPFIND", "/bob/u"),
        )
    ]

    assert statuses == [405, 501, 501, 404, 404, 404]


async def test_properties_that_are_asked_for_are_told_or_missing(alice: httpx2.AsyncClient) -> None:
    await begin(alice, ("1", b"new"))
    body = b'<d:propfind xmlns:d="DAV:"><d:prop><d:getcontentlength/></d:prop></d:propfind>'

    flat = await alice.request("PROPFIND", f"{_HOME}/u", content=body, headers={"Depth": "0"})

    assert flat.text.count("<d:response>") == 1
    assert "404 Not Found" in flat.text


@pytest.mark.parametrize(
    ("query", "status"), [("fileId=x", 400), ("", 400), ("fileId=1&x=0", 400), ("fileId=999", 404)]
)
async def test_a_preview_of_nothing_is_refused(alice: httpx2.AsyncClient, query: str, status: int) -> None:
    response = await alice.get(f"/core/preview?{query}")

    assert (response.status_code, response.json()) == (status, [])


async def test_a_preview_is_a_small_picture(alice: httpx2.AsyncClient, sandbox: Sandbox) -> None:
    node = sandbox.state.users["alice"].files.put("/a.jpg", b"large")

    response = await alice.get(f"/index.php/core/preview?fileId={node.file_id}&x=64&y=64")

    assert (response.content, response.headers["X-User-Id"]) == (PIXEL, "alice")


async def test_a_preview_needs_a_user(anonymous: httpx2.AsyncClient) -> None:
    assert (await anonymous.get("/core/preview?fileId=1")).status_code == 401
