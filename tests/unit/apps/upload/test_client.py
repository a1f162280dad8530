"""Uploads in chunks: against the sandbox, and against a network that loses answers."""

import re
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.apps.upload.chunk_requests import MAX_CHUNKS, ChunkRequests, Target
from nextcloud_mcp_server.apps.upload.client import CHUNK_BYTES, UploadClient
from nextcloud_mcp_server.errors import (
    AlreadyExists,
    CredentialRejected,
    EtagMismatch,
    InvalidInput,
    Locked,
    Maintenance,
    NextcloudError,
    NotFound,
    StorageFull,
    TimedOut,
    TooLarge,
    Unreachable,
)
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.files import FilesClient, Written
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.dav_fakes import account_in, entry, http_over, multistatus, network, recorded

Answer = httpx2.Response | Exception
ID = f"mcp-{'a' * 32}"
TARGET = Target(("Rec", "big.bin"), None)
MADE = httpx2.Response(201)
DELETED = httpx2.Response(204)
LOST = httpx2.ReadTimeout("x")


@dataclass
class Pauses:
    """Waits for nothing, and remembers for how long."""

    seconds: list[float] = field(default_factory=list[float])

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await anyio.lowlevel.checkpoint()


async def unheard(done: float, total: float) -> None:
    assert 0 < done < total


def reader(data: bytes) -> Callable[[int], Awaitable[bytes]]:
    left = bytearray(data)

    async def read(size: int) -> bytes:
        piece = bytes(left[:size])
        del left[:size]
        return piece

    return read


def client_over(
    handler: Callable[[httpx2.Request], httpx2.Response],
    pause: Callable[[float], Awaitable[None]] | None = None,
) -> UploadClient:
    http = http_over(handler)
    return UploadClient(http, FilesClient(http), pause=pause or Pauses())


class Losing(httpx2.ASGITransport):
    """Carries requests of one method out, and loses the answers."""

    lost = ""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if request.method == self.lost:
            raise LOST
        return response


def client_on(transport: httpx2.AsyncBaseTransport, base: str = "http://localhost") -> UploadClient:
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=transport)
    credential = BasicCredential("alice", SecretStr("alice"))
    http = NextcloudHttp(pool, NextcloudUrl.parse(base), credential=credential, uid="alice")
    return UploadClient(http, FilesClient(http), pause=Pauses())


def client_in(sandbox: Sandbox, *, lost: str = "") -> UploadClient:
    transport = Losing(app=sandbox.app)
    transport.lost = lost
    return client_on(transport)


def there(size: int, etag: str = "e2") -> httpx2.Response:
    return multistatus([entry("Rec/big.bin", size=size, etag=etag)])


async def send(client: UploadClient, *, total: int = 3, target: Target = TARGET) -> Written:
    return await client.send(target, reader(b"x" * total), total=total, report=unheard)


async def test_a_large_file_arrives_whole_and_its_upload_is_gone() -> None:
    sandbox = Sandbox.demo()
    client = client_in(sandbox)
    data = bytes(range(256)) * 41_000
    target = await client.check("Documents/big.bin", len(data), version=None)

    written = await client.send(target, reader(data), total=len(data), report=unheard)

    alice = sandbox.state.users["alice"]
    node = alice.files.get("/Documents/big.bin")
    assert node.read() == data
    assert (written.path, written.created, written.version.etag) == ("Documents/big.bin", True, node.etag)
    assert alice.uploads == {}
    methods = [record.method for record in sandbox.requests.records]
    assert methods == ["PROPFIND", "PROPFIND", "MKCOL", "PUT", "PUT", "MOVE"]


async def test_every_request_names_where_the_file_goes_and_how_large_it_is() -> None:
    """B23: chunks go by version 2 of the protocol, with their destination on every request."""
    net = network(MADE, MADE, recorded("webdav/chunked_04_assemble"))

    written = await send(client_over(net))

    where = "https://cloud.example.org/remote.php/dav/files/alice/Rec/big.bin"
    assert net.methods == ["MKCOL", "PUT", "MOVE"]
    assert [request.headers["Destination"] for request in net.seen] == [where] * 3
    assert [request.headers["OC-Total-Length"] for request in net.seen] == ["3"] * 3
    assert net.seen[1].url.path.endswith("/00001")
    assert net.seen[2].headers["Overwrite"] == "F"
    assert str(written.version) == "f7b0a73e5d2e253e13f507571e3e3993~3~"


@pytest.mark.parametrize("lost", [LOST, httpx2.RemoteProtocolError("x"), httpx2.Response(504)])
async def test_an_assembly_whose_answer_is_lost_is_looked_for_and_nothing_is_sent_twice(lost: Answer) -> None:
    """B22: after a time-out of the final MOVE the target is looked at; there is exactly one upload."""
    missing = recorded("webdav/propfind_404")
    net = network(MADE, MADE, lost, missing, there(2), there(3))

    written = await send(client_over(net))

    assert net.methods == ["MKCOL", "PUT", "MOVE", "PROPFIND", "PROPFIND", "PROPFIND"]
    assert str(written.version).startswith("e2~3~")


async def test_the_assembly_alone_has_a_long_time_limit() -> None:
    """B22: a long time limit for the MOVE only."""
    net = network(MADE, MADE, recorded("webdav/chunked_04_assemble"))

    await send(client_over(net))

    limits = [request.extensions["timeout"]["read"] for request in net.seen]
    assert limits == [30.0, 600.0, 1_800.0]


async def test_an_assembly_that_does_not_come_is_asked_for_again_and_then_left_to_nextcloud() -> None:
    missing = recorded("webdav/propfind_404")
    net = network(MADE, MADE, *[LOST, *[missing] * 4] * 3)

    with pytest.raises(TimedOut, match="Do not send it again"):
        await send(client_over(net))

    assert net.methods.count("MOVE") == 3
    assert net.methods.count("PUT") == 1
    assert "DELETE" not in net.methods


@pytest.mark.parametrize("name", ["webdav/copy_overwrite_f_412", "webdav/chunked_09_assemble_missing_404"])
async def test_an_assembly_that_was_done_meanwhile_is_a_success(name: str) -> None:
    missing = recorded("webdav/propfind_404")
    net = network(MADE, MADE, LOST, *[missing] * 4, recorded(name), there(3))

    written = await send(client_over(net))

    assert written.created
    assert net.methods[-1] == "PROPFIND"


async def test_a_file_that_is_replaced_must_be_another_one_than_before() -> None:
    sandbox = Sandbox.demo(one_second_etags=False)
    sandbox.state.users["alice"].files.put("/big.bin", b"old")
    client = client_in(sandbox, lost="MOVE")
    before = (await account_in(sandbox).files.info("big.bin")).version
    target = await client.check("big.bin", 3, version=str(before))

    written = await send(client, target=target)

    assert sandbox.state.users["alice"].files.get("/big.bin").read() == b"xxx"
    assert (written.created, written.version == before) == (False, False)
    assert [record.method for record in sandbox.requests.records].count("MOVE") == 1


async def test_the_old_file_of_the_same_size_is_not_taken_for_the_new_one() -> None:
    net = network(there(3, "e1"), multistatus([entry("Rec", folder=True)]), LOST, there(3, "e1"), there(3))
    client = client_over(net)
    target = await client.check("Rec/big.bin", 3, version="e1")

    written = await client.finish(ID, target, total=3, report=unheard)

    assert str(written.version).startswith("e2~3~")
    assert net.seen[2].headers["If"] == '</remote.php/dav/files/alice/Rec/big.bin> (["e1"])'


async def test_a_file_that_changed_since_it_was_read_is_not_replaced() -> None:
    sandbox = Sandbox.demo(one_second_etags=False)
    files = sandbox.state.users["alice"].files
    files.put("/big.bin", b"old")
    client = client_in(sandbox)
    before = (await account_in(sandbox).files.info("big.bin")).version
    target = await client.check("big.bin", 3, version=str(before))
    files.put("/big.bin", b"theirs")

    with pytest.raises(EtagMismatch, match="changed since it was read"):
        await send(client, target=target)
    with pytest.raises(EtagMismatch):
        await client.check("big.bin", 3, version=str(before))

    assert files.get("/big.bin").read() == b"theirs"
    assert sandbox.state.users["alice"].uploads == {}


async def test_a_name_that_was_taken_meanwhile_is_not_overwritten() -> None:
    sandbox = Sandbox.demo()
    client = client_in(sandbox)
    target = await client.check("big.bin", 3, version=None)
    sandbox.state.users["alice"].files.put("/big.bin", b"theirs")

    with pytest.raises(AlreadyExists, match="exists already"):
        await send(client, target=target)
    with pytest.raises(AlreadyExists):
        await client.check("big.bin", 3, version=None)
    with pytest.raises(AlreadyExists):
        await client.check("Documents", 3, version="x")

    assert sandbox.state.users["alice"].uploads == {}


async def test_a_failed_assembly_leaves_no_upload_and_no_part_of_a_file() -> None:
    """B23: a failed MOVE leaves no upload folder, and nothing called .part in a list."""
    sandbox = Sandbox.demo()
    client = client_in(sandbox)
    alice = sandbox.state.users["alice"]
    alice.files.lock("/big.bin")
    target = await client.check("big.bin", 3, version=None)

    with pytest.raises(Locked):
        await send(client, target=target)

    assert alice.uploads == {}
    names = [row.name for row in (await account_in(sandbox).files.list_folder("/")).entries]
    assert not [name for name in names if name.startswith("big.bin") or name.endswith(".part")]


async def test_parts_are_kept_where_a_later_call_may_put_them_together() -> None:
    sandbox = Sandbox.demo()
    client = client_in(sandbox)
    alice = sandbox.state.users["alice"]
    upload_id = await client.requests.begin()
    await client.requests.put(upload_id, 1, b"abc")
    alice.files.lock("/big.bin")

    with pytest.raises(Locked, match="still there: call again with its upload_id"):
        await client.finish(upload_id, Target(("big.bin",), None), total=3, report=unheard, keep=True)
    written = await client.finish(upload_id, Target(("other.bin",), None), total=3, report=unheard, keep=True)

    assert alice.files.get("/other.bin").read() == b"abc"
    assert written.path == "other.bin"


async def test_a_lock_that_goes_away_is_waited_for() -> None:
    locked = recorded("webdav/put_locked_423")
    net = network(MADE, MADE, locked, recorded("webdav/chunked_04_assemble"))

    assert (await send(client_over(net))).created


async def test_a_lock_of_the_assembly_itself_does_not_throw_the_chunks_away() -> None:
    missing, locked = recorded("webdav/propfind_404"), recorded("webdav/put_locked_423")
    net = network(MADE, MADE, LOST, *[missing] * 4, *[locked, *[missing] * 5] * 2)

    with pytest.raises(TimedOut):
        await send(client_over(net))

    assert "DELETE" not in net.methods


async def test_a_chunk_whose_connection_breaks_is_sent_once_more() -> None:
    net = network(MADE, httpx2.RemoteProtocolError("x"), MADE, recorded("webdav/chunked_04_assemble"))

    await send(client_over(net))

    assert net.methods == ["MKCOL", "PUT", "PUT", "MOVE"]


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([httpx2.RemoteProtocolError("x")] * 8, Unreachable),
        ([httpx2.Response(413)], TooLarge),
        ([recorded("webdav/chunked_10_put_missing_session")], NotFound),
    ],
)
async def test_a_chunk_that_cannot_be_sent_ends_the_upload_and_clears_it_away(
    answers: list[Answer], error: type[NextcloudError]
) -> None:
    net = network(MADE, *answers, DELETED)

    with pytest.raises(error, match="nothing of what was sent is kept"):
        await send(client_over(net))

    assert net.methods[-1] == "DELETE"


async def test_what_cannot_be_cleared_away_hides_nothing() -> None:
    net = network(MADE, httpx2.Response(413), *[httpx2.Response(503)] * 3)

    with pytest.raises(TooLarge):
        await send(client_over(net))


async def test_a_cancelled_upload_clears_away_what_was_sent() -> None:
    sandbox = Sandbox.demo()
    client = client_in(sandbox)
    target = await client.check("big.bin", CHUNK_BYTES + 1, version=None)

    async with anyio.create_task_group() as group:

        async def report(done: float, total: float) -> None:
            assert sandbox.state.users["alice"].uploads
            group.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()

        read = reader(b"x" * (CHUNK_BYTES + 1))
        await client.send(target, read, total=CHUNK_BYTES + 1, report=report)

    assert group.cancel_scope.cancelled_caught
    assert sandbox.state.users["alice"].uploads == {}


async def test_the_quota_is_told_before_anything_is_sent() -> None:
    sandbox = Sandbox.demo()
    files = sandbox.state.users["alice"].files
    files.quota_bytes = files.used_bytes + 9

    with pytest.raises(StorageFull, match="needs 10 bytes and the quota leaves 9, so nothing was sent"):
        await client_in(sandbox).check("big.bin", 10, version=None)

    assert {record.method for record in sandbox.requests.records} == {"PROPFIND"}


@pytest.mark.parametrize("at_assembly", [False, True])
async def test_a_refusal_for_room_blames_the_quota_only_if_it_is_used_up(at_assembly: bool) -> None:  # noqa: FBT001 - a parameter
    """B25: what the server does not say is looked at, and 507 while the quota is free is not put down to it."""
    room = multistatus(
        [entry("Rec", folder=True, extra="<d:quota-available-bytes>-3</d:quota-available-bytes>")]
    )
    refused = httpx2.Response(507, text="<s:message>Not allowed here</s:message>")
    net = network(MADE, *[MADE] * at_assembly, refused, room, DELETED)

    with pytest.raises(StorageFull) as caught:
        await send(client_over(net))

    assert "Not allowed here" in str(caught.value)
    assert "The quota is not the reason" in str(caught.value)
    assert net.methods[-1] == "DELETE"


@pytest.mark.parametrize("at_assembly", [False, True])
async def test_the_numbers_that_nextcloud_gives_are_told_and_nothing_else_is_said(at_assembly: bool) -> None:  # noqa: FBT001 - a parameter
    refused = recorded("webdav/chunked_put_quota_507")
    found = re.search(r"(\d+) required, (\d+) available", refused.text)
    assert found is not None
    net = network(MADE, *[MADE] * at_assembly, refused, DELETED)

    with pytest.raises(StorageFull) as caught:
        await send(client_over(net))

    assert f"needs {found[1]} bytes and the quota leaves {found[2]}" in str(caught.value)
    assert "not the reason" not in str(caught.value)
    assert net.methods[-1] == "DELETE"


@pytest.mark.parametrize(
    "refusal",
    [httpx2.Response(423), httpx2.Response(502), httpx2.Response(503, headers={"Retry-After": "5"})],
)
async def test_one_refused_chunk_throws_away_nothing_that_was_sent(refusal: httpx2.Response) -> None:
    """Refused eight times in a row, which is longer than a proxy takes to restart."""
    net = network(MADE, MADE, *[refusal] * 8, MADE, httpx2.Response(201, headers={"ETag": '"e"'}))
    pauses = Pauses()

    data = bytes(CHUNK_BYTES + 1)
    written = await client_over(net, pauses).send(TARGET, reader(data), total=len(data), report=unheard)

    assert written.version.etag == "e"
    assert net.methods.count("DELETE") == 0
    assert pauses.seconds[0] == 5.0


async def test_chunks_that_do_not_add_up_are_not_taken() -> None:
    net = network(MADE, MADE, recorded("webdav/chunked_07_assemble_size_mismatch"), DELETED)

    with pytest.raises(NextcloudError, match=r"did not put the parts together \(it says: Chunks on server"):
        await send(client_over(net))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (recorded("maintenance/dav"), Maintenance),
        (recorded("auth/bad_password_dav_401"), CredentialRejected),
    ],
)
async def test_what_is_known_to_be_refused_is_not_waited_for(
    answer: httpx2.Response, error: type[Exception]
) -> None:
    pauses = Pauses()
    # A refused access is confirmed by a probe.
    net = network(MADE, MADE, answer, answer, DELETED)

    with pytest.raises(error):
        await send(client_over(net, pauses))

    assert [seconds for seconds in pauses.seconds if seconds != 5.0] == []


async def test_a_long_assembly_keeps_the_client_waiting_with_progress() -> None:
    heard: list[float] = []
    assembled = anyio.Event()

    class Slow(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            assert isinstance(request.stream, AsyncIterable)
            await assembled.wait()
            return httpx2.Response(201, headers={"ETag": '"e"'})

    async def report(done: float, total: float) -> None:
        assert done < total
        heard.append(done)
        if len(heard) == 30:
            assembled.set()

    with anyio.fail_after(60):
        await client_on(Slow()).finish(ID, TARGET, total=100, report=report)

    assert heard == sorted(set(heard))


async def test_a_file_without_an_etag_in_the_answer_is_looked_at() -> None:
    net = network(MADE, MADE, httpx2.Response(201), there(3))

    assert (await send(client_over(net))).version.etag == "e2"


async def test_a_file_larger_than_all_chunks_is_refused_at_once() -> None:
    with pytest.raises(TooLarge):
        await client_over(network()).send(
            TARGET, reader(b""), total=CHUNK_BYTES * MAX_CHUNKS + 1, report=unheard
        )
    with pytest.raises(TooLarge):
        await ChunkRequests(http_over(network())).put(ID, MAX_CHUNKS + 1, b"x")


async def test_the_parts_that_arrived_are_listed_in_their_order() -> None:
    requests = ChunkRequests(http_over(network(recorded("webdav/chunked_03_propfind"))))

    parts = await requests.parts(ID)

    assert parts == [5_242_880, 1_024]
    assert sum(parts) == 5_243_904


@pytest.mark.parametrize("upload_id", ["rec-upload-1", f"../{ID}", f"{ID}/.file", "", f"{ID}\n"])
async def test_uploads_of_other_programs_are_out_of_reach(upload_id: str) -> None:
    requests = ChunkRequests(http_over(network()))

    with pytest.raises(InvalidInput, match="not an upload_id"):
        await requests.discard(upload_id)
    with pytest.raises(InvalidInput):
        await requests.parts(upload_id)
    with pytest.raises(InvalidInput):
        await requests.assemble(upload_id, TARGET, total=1)


async def test_the_folder_must_be_there_and_the_file_to_replace_too() -> None:
    client = client_in(Sandbox.demo())

    with pytest.raises(NotFound, match="create it with nc_files_create_folder"):
        await client.check("No/where.bin", 1, version=None)
    with pytest.raises(NotFound, match=r"no 'big\.bin'"):
        await client.check("big.bin", 1, version="e1~1~1")
