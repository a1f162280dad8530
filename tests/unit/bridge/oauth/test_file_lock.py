"""One process after the other."""

import sys
from pathlib import Path

import anyio
import pytest

from nextcloud_mcp_server.bridge.oauth.faults import TokenStoreFailed
from nextcloud_mcp_server.bridge.oauth.file_lock import file_lock

HOLDER = """
import sys, anyio
from pathlib import Path
from nextcloud_mcp_server.bridge.oauth.file_lock import file_lock

async def hold():
    async with file_lock(Path(sys.argv[1]), seconds=5):
        print("held", flush=True)
        sys.stdin.read()

anyio.run(hold)
"""


async def test_two_tasks_do_not_hold_a_lock_at_once(tmp_path: Path) -> None:
    inside, most = 0, 0

    async def work() -> None:
        nonlocal inside, most
        async with file_lock(tmp_path / "folder" / "lock", seconds=10):
            inside += 1
            most = max(most, inside)
            await anyio.sleep(0.01)
            inside -= 1

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(work)

    assert most == 1


@pytest.mark.process
async def test_a_lock_of_another_process_is_waited_for_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    async with await anyio.open_process([sys.executable, "-c", HOLDER, str(path)]) as holder:
        assert holder.stdout
        assert holder.stdin
        assert (await holder.stdout.receive()).strip() == b"held"
        with pytest.raises(TokenStoreFailed, match="Another process of this program"):
            async with file_lock(path, seconds=0.2):
                raise NotImplementedError
        holder.kill()
        await holder.wait()

    async with file_lock(path, seconds=5):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes of a Unix system")
async def test_a_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(TokenStoreFailed, match="cannot be used for tokens"):
        async with file_lock(tmp_path / "file" / "lock", seconds=1):
            raise NotImplementedError


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes of a Unix system")
async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(TokenStoreFailed):
        async with file_lock(tmp_path / "lock", seconds=1):
            raise NotImplementedError

    assert not (tmp_path / "elsewhere").exists()
