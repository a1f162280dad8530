import anyio
import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.serve import running, serve, serving


async def test_a_sandbox_listens_on_a_free_loopback_port() -> None:
    sandbox = Sandbox.demo(base_path="/nextcloud")

    with anyio.fail_after(60):
        async with serving(sandbox) as url, httpx2.AsyncClient() as client:
            response = await client.get(f"{url}/status.php")

    assert url.startswith("http://127.0.0.1:")
    assert url.endswith("/nextcloud")
    assert response.json()["productname"] == "Nextcloud"


def test_a_sandbox_can_run_in_a_thread() -> None:
    with running(Sandbox.demo()) as url:
        response = httpx2.get(f"{url}/ocs/v2.php/cloud/capabilities", headers={"OCS-APIRequest": "true"})

    assert response.status_code == 200


async def test_a_lost_answer_breaks_the_connection() -> None:
    sandbox = Sandbox.demo()
    sandbox.faults.lost_body()

    with anyio.fail_after(60):
        async with serving(sandbox) as url, httpx2.AsyncClient() as client:
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.get(f"{url}/status.php")


async def test_serving_ends_when_it_is_cancelled() -> None:
    with anyio.move_on_after(0.1) as scope:
        await serve(Sandbox())

    assert scope.cancelled_caught


async def test_after_a_cancelled_one_the_next_sandbox_still_accepts_connections() -> None:
    with anyio.move_on_after(0.5):
        await serve(Sandbox())

    # It gets the file number of the first one's socket, which the event loop must have let go.
    async with serving(Sandbox()) as url, httpx2.AsyncClient(timeout=60) as client:
        response = await client.get(f"{url}/status.php")

    assert response.status_code == 200


async def test_the_demo_people_have_notes_and_files() -> None:
    sandbox = Sandbox.demo()

    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(sandbox.app), base_url="http://nextcloud.test", auth=("alice", "alice")
    ) as client:
        notes = await client.get("/apps/notes/api/v1/notes")

    assert "Shopping list" in [note["title"] for note in notes.json()]
    assert sandbox.state.users["alice"].files.get("/Readme.md").read().startswith(b"## Welcome")
    assert sandbox.state.users["bob"].notes_path == "Notes"
