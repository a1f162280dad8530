"""Long work as a client sees it: it hears how far the work is, and what it cancels ends and leaves nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client

from nextcloud_mcp_server.apps.upload.client import CHUNK_BYTES
from nextcloud_mcp_server.sandbox.files import FileTree
from tests.document_files import pdf
from tests.integration.personal_app import People, PersonalApp, until
from tests.integration.stdio_app import StdioApp

ALICE = {"nextcloud_username": "alice", "nextcloud_app_password": "alice"}
READ = "nc_files_read_file"
#: Longer than any of these tests waits.
FOREVER_SECONDS = 600


class ProgressLog:
    """Remembers what a client is told of how far its call is."""

    def __init__(self) -> None:
        self.reports: list[tuple[float, float | None, str | None]] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.reports.append((progress, total, message))


def files(people: People) -> FileTree:
    return people.sandbox.state.users["alice"].files


async def cancelled(client: Client, tool: str, arguments: dict[str, Any], begun: Callable[[], bool]) -> None:
    """Call a tool, and cancel the call once it is in the middle of its work."""
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: client.call_tool(tool, arguments))
        await until(begun)
        group.cancel_scope.cancel()


@pytest.fixture
def exchange(stdio_app: StdioApp, tmp_path: Path) -> Path:
    """The folder of this computer that is open to a server over stdio."""
    folder = tmp_path / "exchange"
    folder.mkdir()
    stdio_app.settings |= {name.upper(): value for name, value in ALICE.items()}
    stdio_app.settings |= {"LOCAL_FOLDER": str(folder), "TOOLSETS": "files,upload"}
    return folder


async def test_reading_a_document_says_how_many_of_its_parts_are_read(personal_app: PersonalApp) -> None:
    await personal_app.stop()
    await personal_app.start(**ALICE)
    files(personal_app).put("/Plan.pdf", pdf(["one", "two", "three"]))
    told = ProgressLog()

    async with personal_app.client() as client:
        result = await client.call_tool(READ, {"path": "Plan.pdf"}, progress_callback=told)

    assert all(word in result.structured_content["content"] for word in ("one", "two", "three"))
    done = [each for each, _, _ in told.reports]
    assert done == sorted(set(done))
    assert {(total, message) for _, total, message in told.reports} == {
        (3.0, f"Read {int(each)} of 3 parts") for each in done
    }


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_reading_that_is_cancelled_makes_the_next_one_wait_for_nothing(
    personal_app: PersonalApp, mode: str
) -> None:
    await personal_app.stop()
    await personal_app.start(**ALICE)
    files(personal_app).put("/Plan.pdf", pdf(["one"]))
    async with personal_app.client(mode=mode) as client:
        # One look at what it is, then the file itself.
        personal_app.sandbox.faults.slow(FOREVER_SECONDS, area="dav", after=1, times=1)
        await cancelled(client, READ, {"path": "Plan.pdf"}, lambda: not personal_app.sandbox.faults.active)
        with anyio.fail_after(120):
            result = await client.call_tool(READ, {"path": "Plan.pdf"})

    assert "one" in result.structured_content["content"]


async def test_a_large_file_goes_up_and_down_with_progress(stdio_app: StdioApp, exchange: Path) -> None:
    data = bytes(range(256)) * (CHUNK_BYTES // 256) + b"the rest"
    (exchange / "big.bin").write_bytes(data)
    up, down = ProgressLog(), ProgressLog()

    async with stdio_app.client() as client:
        sent = await client.call_tool(
            "nc_files_upload_file", {"path": "big.bin", "local_file": "big.bin"}, progress_callback=up
        )
        saved = await client.call_tool(
            "nc_files_download_file", {"path": "big.bin", "local_file": "copy.bin"}, progress_callback=down
        )

    assert not sent.is_error, sent.content
    assert not saved.is_error, saved.content
    assert (exchange / "copy.bin").read_bytes() == data == files(stdio_app).get("/big.bin").read()
    assert up.reports[0][0] == CHUNK_BYTES
    assert {message for _, _, message in up.reports} == {"Uploading big.bin"}
    assert {report[1:] for report in down.reports} == {(len(data), "Downloading copy.bin")}
    assert 0 < down.reports[0][0] < len(data)


async def test_a_download_or_upload_that_is_cancelled_leaves_nothing_behind(
    stdio_app: StdioApp, exchange: Path
) -> None:
    files(stdio_app).put("/here.bin", b"1")
    faults, user = stdio_app.sandbox.faults, stdio_app.sandbox.state.users["alice"]
    async with stdio_app.client() as client:
        # One look at what it is, then the file itself.
        faults.slow(FOREVER_SECONDS, area="dav", after=1, times=1)
        downloading = {"path": "here.bin"}
        await cancelled(client, "nc_files_download_file", downloading, lambda: bool(list(exchange.iterdir())))
        await until(lambda: not list(exchange.iterdir()))

        (exchange / "big.bin").write_bytes(b"x" * (CHUNK_BYTES + 1))
        # Two looks and the folder for the parts; then the first part waits.
        faults.slow(FOREVER_SECONDS, area="dav", after=3, times=1)
        uploading = {"path": "big.bin", "local_file": "big.bin"}
        await cancelled(client, "nc_files_upload_file", uploading, lambda: not faults.active)
        begun = bool(user.uploads)
        await until(lambda: not user.uploads)

    assert begun
    assert files(stdio_app).find("/big.bin") is None
