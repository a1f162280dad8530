"""The tools for large files, against the sandbox."""

import base64
import json
from pathlib import Path

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.apps.upload.client import CHUNK_BYTES
from nextcloud_mcp_server.apps.upload.tools import SINGLE_BYTES, Downloaded, Uploaded, upload
from nextcloud_mcp_server.errors import (
    AlreadyExists,
    EtagMismatch,
    InvalidInput,
    NotFound,
    TooLarge,
    Unreachable,
)
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.local_folder import LocalFolder
from tests.dav_fakes import (
    MOMENT,
    Impatient,
    ProgressLog,
    account_in,
    account_over,
    call_in,
    call_with,
    entry,
    multistatus,
    network,
)


def sandbox() -> Sandbox:
    return Sandbox.demo(one_second_etags=False)


def methods(sandbox: Sandbox) -> list[str]:
    return [record.method for record in sandbox.requests.records]


async def up(sandbox: Sandbox, **arguments: object) -> Uploaded:
    named = {"path": "big.txt", **arguments}
    result = await call_in(upload, account_in(sandbox), "nc_files_upload_file", **named)
    assert isinstance(result, Uploaded)
    return result


async def test_a_file_is_sent_in_parts_and_appears_when_it_is_whole() -> None:
    cloud = sandbox()
    alice = cloud.state.users["alice"]

    first = await up(cloud, content="H\u00e4", then="more")
    second = await up(
        cloud,
        content=base64.b64encode(b"llo").decode(),
        encoding="base64",
        upload_id=first.upload_id,
        offset=3,
        then="more",
    )
    before = alice.files.find("/big.txt")
    last = await up(cloud, content="!", upload_id=second.upload_id, offset=second.offset)

    assert (first.offset, second.offset, before) == (3, 6, None)
    assert alice.files.get("/big.txt").read() == "H\u00e4llo!".encode()
    assert (last.path, last.size, last.created, last.upload_id) == ("big.txt", 7, True, None)
    assert alice.uploads == {}


async def test_the_last_call_may_bring_nothing_but_the_end() -> None:
    cloud = sandbox()
    first = await up(cloud, content="all", then="more")

    last = await up(cloud, upload_id=first.upload_id)

    assert last.size == 3


async def test_a_part_that_was_sent_twice_counts_once() -> None:
    cloud = sandbox()
    first = await up(cloud, content="one ", then="more")
    await up(cloud, content="two ", upload_id=first.upload_id, offset=4, then="more")

    again = await up(cloud, content="two ", upload_id=first.upload_id, offset=4, then="more")
    await up(cloud, content="three", upload_id=first.upload_id, offset=again.offset)

    assert cloud.state.users["alice"].files.get("/big.txt").read() == b"one two three"


@pytest.mark.parametrize("offset", [0, 2, 5, 9])
async def test_a_gap_or_an_overlap_is_refused_with_what_has_arrived(offset: int) -> None:
    cloud = sandbox()
    first = await up(cloud, content="one ", then="more")
    await up(cloud, content="two ", upload_id=first.upload_id, offset=4, then="more")

    with pytest.raises(InvalidInput, match="8 bytes have arrived"):
        await up(cloud, content="x", upload_id=first.upload_id, offset=offset, then="more")


async def test_one_part_alone_is_a_plain_write() -> None:
    cloud = sandbox()

    written = await up(cloud, content="small")

    assert methods(cloud) == ["PUT"]
    assert written.size == 5
    with pytest.raises(InvalidInput, match="0 bytes have arrived"):
        await up(cloud, content="small", offset=3)


async def test_a_taken_name_is_told_at_the_first_part_and_nothing_is_lost_when_it_is_taken_later() -> None:
    cloud = sandbox()
    with pytest.raises(AlreadyExists):
        await up(cloud, path="Readme.md", content="x", then="more")
    assert cloud.state.users["alice"].uploads == {}
    first = await up(cloud, content="mine", then="more")
    theirs = cloud.state.users["alice"].files.put("/big.txt", b"theirs")

    with pytest.raises(AlreadyExists):
        await up(cloud, upload_id=first.upload_id)
    elsewhere = await up(cloud, path="other.txt", upload_id=first.upload_id)

    assert theirs.read() == b"theirs"
    assert elsewhere.path == "other.txt"


async def test_a_file_is_replaced_only_with_the_etag_that_was_read() -> None:
    cloud = sandbox()
    node = cloud.state.users["alice"].files.get("/Readme.md")
    etag = str((await account_in(cloud).files.info("Readme.md")).version)
    first = await up(cloud, path="Readme.md", content="new", then="more", etag=etag)

    done = await up(cloud, path="Readme.md", upload_id=first.upload_id, etag=etag)

    assert (done.created, node.read()) == (False, b"new")
    with pytest.raises(EtagMismatch):
        await up(cloud, path="Readme.md", content="newer", then="more", etag=etag)


async def test_what_fails_half_way_says_what_of_it_is_still_there() -> None:
    cloud = sandbox()
    alice = cloud.state.users["alice"]
    first = await up(cloud, content="abc", then="more")
    alice.files.put("/big.txt", b"theirs")
    with pytest.raises(
        AlreadyExists, match="The 3 bytes sent before are still there: use the same upload_id"
    ):
        await up(cloud, upload_id=first.upload_id)

    done = await up(cloud, path="other.txt", content="d", offset=3, upload_id=first.upload_id)

    assert alice.files.get("/other.txt").read() == b"abcd"
    assert done.size == 4


async def test_a_first_part_that_cannot_be_stored_leaves_no_upload() -> None:
    missing, top = httpx2.Response(404), multistatus([entry("", folder=True)])
    net = network(missing, top, httpx2.Response(201), httpx2.Response(413), httpx2.Response(204))

    with pytest.raises(TooLarge, match="nothing of what was sent is kept"):
        await call_in(
            upload, account_over(net), "nc_files_upload_file", path="a.txt", content="x", then="more"
        )

    assert net.methods == ["PROPFIND", "PROPFIND", "MKCOL", "PUT", "DELETE"]


async def test_what_was_sent_can_be_thrown_away() -> None:
    cloud = sandbox()
    first = await up(cloud, content="x", then="more")

    gone = await up(cloud, upload_id=first.upload_id, then="discard")

    assert cloud.state.users["alice"].uploads == {}
    assert gone.note == "What was sent is thrown away; no file was changed."
    with pytest.raises(NotFound, match="Begin anew without upload_id"):
        await up(cloud, upload_id=first.upload_id)


async def test_an_upload_of_another_user_is_not_there() -> None:
    cloud = sandbox()
    first = await up(cloud, content="x", then="more")
    bob = account_in(cloud, "bob")

    with pytest.raises(NotFound):
        await call_in(
            upload, bob, "nc_files_upload_file", path="a", upload_id=first.upload_id, then="discard"
        )

    assert len(cloud.state.users["alice"].uploads) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "in 'content', or a 'local_file'"),
        ({"then": "more"}, "in 'content', or a 'local_file'"),
        ({"then": "discard"}, "Pass the upload_id"),
        ({"upload_id": f"mcp-{'0' * 32}", "then": "more"}, "in 'content', or a 'local_file'"),
        ({"content": "x", "local_file": "a"}, "is sent as a whole"),
        ({"local_file": "a", "then": "more"}, "is sent as a whole"),
        ({"content": "?", "encoding": "base64"}, "not base64"),
        ({"local_file": "a"}, "not open to assistants"),
    ],
)
async def test_arguments_that_do_not_go_together_are_refused(
    arguments: dict[str, object], words: str
) -> None:
    cloud = sandbox()

    with pytest.raises(InvalidInput, match=words):
        await up(cloud, **arguments)

    assert methods(cloud) == []


async def test_a_large_write_answers_without_the_content() -> None:
    """B76: writing 200 kB answers with path, etag and size alone, in less than 1 kB."""
    cloud = sandbox()
    text = "x" * 200_000

    sent = answer.result(await up(cloud, content=text))

    assert len(json.dumps(sent.model_dump(mode="json"))) < 1_000


async def test_an_empty_part_changes_nothing() -> None:
    cloud = sandbox()
    first = await up(cloud, content="", then="more")

    assert first.offset == 0
    assert "PUT" not in methods(cloud)


def exchange(tmp_path: Path, **files: bytes) -> LocalFolder:
    folder = tmp_path / "exchange"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return LocalFolder(folder)


async def from_here(
    cloud: Sandbox, local_folder: LocalFolder, told: ProgressLog | None = None, **arguments: object
) -> Uploaded:
    ours = {"local_folder": local_folder, "progress": told or ProgressLog()}
    result = await call_with(ours, upload, account_in(cloud), "nc_files_upload_file", **arguments)
    assert isinstance(result, Uploaded)
    return result


async def test_a_large_file_of_this_computer_is_uploaded_with_progress(tmp_path: Path) -> None:
    cloud, told = sandbox(), ProgressLog()
    data = bytes(range(256)) * (CHUNK_BYTES // 128)

    done = await from_here(cloud, exchange(tmp_path, big=data), told, path="big.bin", local_file="big")

    assert cloud.state.users["alice"].files.get("/big.bin").read() == data
    assert done.size == len(data)
    assert [report[0] for report in told.reports] == [CHUNK_BYTES, 2 * CHUNK_BYTES]
    assert told.reports[0][2] == "Uploading big"


async def test_a_small_file_of_this_computer_is_one_write(tmp_path: Path) -> None:
    cloud = sandbox()
    local_folder = exchange(tmp_path, small=b"x" * SINGLE_BYTES)

    done = await from_here(cloud, local_folder, path="a.bin", local_file=str(tmp_path / "exchange" / "small"))

    assert methods(cloud) == ["PROPFIND", "PROPFIND", "PUT"]
    assert done.size == SINGLE_BYTES


async def down(
    cloud: Sandbox, local_folder: LocalFolder, told: ProgressLog | None = None, **arguments: object
) -> Downloaded:
    ours = {"local_folder": local_folder, "progress": told or ProgressLog()}
    result = await call_with(ours, upload, account_in(cloud), "nc_files_download_file", **arguments)
    assert isinstance(result, Downloaded)
    return result


async def test_a_large_file_is_downloaded_to_this_computer(tmp_path: Path) -> None:
    cloud, told = sandbox(), ProgressLog()
    cloud.state.users["alice"].files.put_generated("/Documents/big.bin", 9_000_001, b"0123456789" * 100_000)

    done = await down(cloud, exchange(tmp_path), told, path="Documents/big.bin")

    saved = tmp_path / "exchange" / "big.bin"
    assert saved.stat().st_size == done.size == 9_000_001
    assert saved.read_bytes()[-3:] == b"890"
    assert saved.stat().st_mode & 0o777 == 0o600
    assert done.local_file == "big.bin"
    assert {report[1:] for report in told.reports} == {(9_000_001, "Downloading big.bin")}


async def test_nothing_on_this_computer_is_overwritten(tmp_path: Path) -> None:
    cloud = sandbox()
    local_folder = exchange(tmp_path, **{"Readme.md": b"mine"})

    with pytest.raises(InvalidInput, match="exists already in the folder for exchange"):
        await down(cloud, local_folder, path="Readme.md")
    other = await down(cloud, local_folder, path="Readme.md", local_file="theirs.md")

    assert (tmp_path / "exchange" / "Readme.md").read_bytes() == b"mine"
    assert other.size == (tmp_path / "exchange" / "theirs.md").stat().st_size


async def test_a_download_that_breaks_off_leaves_nothing_behind(tmp_path: Path) -> None:
    headers = {"ETag": '"e1"', "Last-Modified": MOMENT, "Content-Length": "10"}
    net = network(multistatus([entry("a.bin")]), httpx2.Response(200, headers=headers, content=b"part"))
    ours = {"local_folder": exchange(tmp_path)}

    with pytest.raises(Unreachable, match="after 4 of 10 bytes"):
        await call_with(ours, upload, account_over(net), "nc_files_download_file", path="a.bin")

    assert list((tmp_path / "exchange").iterdir()) == []


async def test_a_cancelled_download_leaves_nothing_behind(tmp_path: Path) -> None:
    cloud = sandbox()
    cloud.state.users["alice"].files.put_generated("/big.bin", 9_000_000, b"x" * 1_000_000)
    local_folder = exchange(tmp_path)

    with anyio.CancelScope() as scope:
        await down(cloud, local_folder, Impatient(scope), path="big.bin")

    assert scope.cancelled_caught
    assert list((tmp_path / "exchange").iterdir()) == []


async def test_a_folder_is_not_downloaded(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="one by one"):
        await down(sandbox(), exchange(tmp_path), path="Documents")


async def test_a_download_of_unknown_length_that_breaks_off_leaves_nothing_behind(tmp_path: Path) -> None:
    net = network(
        multistatus([entry("a.bin")]),
        httpx2.Response(200, content=b"abc"),
        multistatus([entry("a.bin")]),
        httpx2.Response(200, content=b"a"),
    )
    for one in net.answers:
        assert isinstance(one, httpx2.Response)
        del one.headers["Content-Length"]
    account, ours = account_over(net), {"local_folder": exchange(tmp_path)}

    found = await call_with(ours, upload, account, "nc_files_download_file", path="a.bin")
    with pytest.raises(Unreachable, match="after 1 of 3 bytes"):
        await call_with(ours, upload, account, "nc_files_download_file", path="a.bin", local_file="b.bin")

    assert found.size == 3
    assert [file.name for file in (tmp_path / "exchange").iterdir()] == ["a.bin"]
