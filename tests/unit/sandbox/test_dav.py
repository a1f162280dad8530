from collections.abc import AsyncIterator

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox

_FILES = "/remote.php/dav/files/alice"
_PROPERTIES = (
    '<d:propfind xmlns:d="DAV:" xmlns:x="urn:x"><d:prop><d:resourcetype/><x:mine/><d:current-user-principal/>'
    "</d:prop></d:propfind>"
)


def _update(kind: str, name: str, value: str) -> str:
    return (
        '<d:propertyupdate xmlns:d="DAV:" xmlns:x="urn:x">'
        f"<d:{kind}><d:prop><{name}>{value}</{name}></d:prop></d:{kind}></d:propertyupdate>"
    )


async def test_the_end_of_a_big_file_is_served_without_building_the_rest(
    alice: httpx2.AsyncClient, sandbox: Sandbox
) -> None:
    sandbox.state.users["alice"].files.put_generated("/big.txt", 200_000_000, b"0123456789")

    response = await alice.get(f"{_FILES}/big.txt", headers={"Range": "bytes=-3"})

    assert (response.status_code, response.text) == (206, "789")
    assert response.headers["Content-Range"] == "bytes 199999997-199999999/200000000"


@pytest.mark.parametrize("header", ["bytes=-", "lines=1-2", "bytes=0-1,4-5"])
async def test_a_range_nextcloud_does_not_understand_gets_the_whole_file(
    alice: httpx2.AsyncClient, sandbox: Sandbox, header: str
) -> None:
    sandbox.state.users["alice"].files.put("/a.txt", b"abc")

    response = await alice.get(f"{_FILES}/a.txt", headers={"Range": header})

    assert (response.status_code, response.text) == (200, "abc")


async def test_another_etag_than_the_one_known_gets_the_file(
    alice: httpx2.AsyncClient, sandbox: Sandbox
) -> None:
    sandbox.state.users["alice"].files.put("/a.txt", b"abc")

    response = await alice.get(f"{_FILES}/a.txt", headers={"If-None-Match": '"other"'})

    assert response.status_code == 200


async def test_a_property_of_ones_own_is_kept_and_can_be_taken_away(alice: httpx2.AsyncClient) -> None:
    await alice.request("MKCOL", f"{_FILES}/a")

    await alice.request("PROPPATCH", f"{_FILES}/a", content=_update("set", "x:mine", "&lt;1&gt;"))
    kept = await alice.request("PROPFIND", f"{_FILES}/a", content=_PROPERTIES)
    await alice.request("PROPPATCH", f"{_FILES}/a", content=_update("remove", "x:mine", ""))
    gone = await alice.request("PROPFIND", f"{_FILES}/a", content=_PROPERTIES)

    assert '<x1:mine xmlns:x1="urn:x">&lt;1&gt;</x1:mine>' in kept.text
    assert "/remote.php/dav/principals/users/alice/" in kept.text
    assert '<d:prop><x1:mine xmlns:x1="urn:x"/></d:prop><d:status>HTTP/1.1 404' in gone.text


async def test_a_property_the_server_keeps_is_not_set(alice: httpx2.AsyncClient) -> None:
    response = await alice.request("PROPPATCH", f"{_FILES}/", content=_update("set", "d:getetag", "x"))

    assert "<d:getetag/></d:prop><d:status>HTTP/1.1 403 Forbidden" in response.text


async def test_the_time_of_change_can_be_set(alice: httpx2.AsyncClient) -> None:
    await alice.put(f"{_FILES}/a.txt", content=b"x")

    await alice.request("PROPPATCH", f"{_FILES}/a.txt", content=_update("set", "d:lastmodified", "0"))
    response = await alice.request("PROPFIND", f"{_FILES}/a.txt")

    assert "Thu, 01 Jan 1970 00:00:00 GMT" in response.text


@pytest.mark.parametrize(
    ("headers", "status", "message"),
    [
        ({}, 400, "The destination header was not supplied"),
        ({"Destination": "/remote.php/dav/files/bob/x"}, 403, "is out of base uri"),
    ],
)
async def test_a_move_needs_a_destination_among_ones_own_files(
    alice: httpx2.AsyncClient, headers: dict[str, str], status: int, message: str
) -> None:
    await alice.put(f"{_FILES}/a.txt", content=b"x")

    response = await alice.request("MOVE", f"{_FILES}/a.txt", headers=headers)

    assert response.status_code == status
    assert message in response.text


async def test_a_moved_folder_has_no_etag_header(alice: httpx2.AsyncClient) -> None:
    await alice.request("MKCOL", f"{_FILES}/a")

    response = await alice.request("MOVE", f"{_FILES}/a", headers={"Destination": f"{_FILES}/b"})

    assert response.status_code == 201
    assert "ETag" not in response.headers


async def test_a_folder_never_matches_an_etag(alice: httpx2.AsyncClient, sandbox: Sandbox) -> None:
    folder = sandbox.state.users["alice"].files.make_folder("/a")

    response = await alice.delete(f"{_FILES}/a", headers={"If-Match": f'"{folder.etag}"'})

    assert response.status_code == 412
    assert "ETag" not in response.headers


async def test_a_file_that_exists_matches_the_star(alice: httpx2.AsyncClient) -> None:
    await alice.put(f"{_FILES}/a.txt", content=b"x")

    response = await alice.put(f"{_FILES}/a.txt", content=b"y", headers={"If-Match": "*"})

    assert response.status_code == 204


async def test_options_name_the_methods(alice: httpx2.AsyncClient) -> None:
    response = await alice.options(f"{_FILES}/")

    assert "PROPFIND" in response.headers["Allow"]


async def test_an_upload_without_a_length_is_checked_after_it_was_read(
    alice: httpx2.AsyncClient, sandbox: Sandbox
) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"xxx"

    sandbox.state.users["alice"].files.quota_bytes = 2

    response = await alice.put(f"{_FILES}/a.txt", content=body())

    assert response.status_code == 507


async def test_a_read_only_file_is_forbidden(alice: httpx2.AsyncClient, sandbox: Sandbox) -> None:
    sandbox.state.users["alice"].files.put("/a.txt", b"x").readonly = True

    response = await alice.put(f"{_FILES}/a.txt", content=b"y")

    assert response.status_code == 403


async def test_a_request_that_is_not_for_files_has_no_such_area(alice: httpx2.AsyncClient) -> None:
    response = await alice.request("PROPFIND", "/remote.php/dav/avatars/alice/")

    assert response.status_code == 404
    assert "File not found: avatars in 'root'" in response.text


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("PROPFIND", "nobody/", 404, "Principal with name nobody not found"),
        ("MKCOL", "bob/a/b", 409, "Parent node does not exist"),
        ("PUT", "bob/a.txt", 403, "Permission denied to create file (filename a.txt)"),
        ("GET", "bob/a.txt", 404, "File not found: a.txt in 'bob'"),
        ("DELETE", "bob/", 403, "Forbidden"),
    ],
)
async def test_the_home_of_another_user_can_be_neither_read_nor_written(
    alice: httpx2.AsyncClient, method: str, path: str, status: int, message: str
) -> None:
    response = await alice.request(method, f"/remote.php/dav/files/{path}")

    assert response.status_code == status
    assert message in response.text


async def test_the_root_answers_with_the_principal_and_a_greeting(alice: httpx2.AsyncClient) -> None:
    usual = await alice.request("PROPFIND", "/remote.php/dav")
    asked = await alice.request("PROPFIND", "/remote.php/dav/", content=_PROPERTIES)
    greeting = await alice.get("/remote.php/dav/")
    refused = await alice.delete("/remote.php/dav/")

    assert "<d:resourcetype><d:collection/></d:resourcetype>" in usual.text
    assert "/remote.php/dav/principals/users/alice/" in asked.text
    assert "This is the WebDAV interface." in greeting.text
    assert refused.status_code == 501
