import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox

_TRASH = "/remote.php/dav/trashbin/alice"


@pytest.fixture
def entry(sandbox: Sandbox) -> str:
    files = sandbox.state.users["alice"].files
    files.make_folder("/old")
    return files.trash_file("/old").entry_name


async def test_a_deleted_folder_is_listed_as_a_folder(alice: httpx2.AsyncClient, entry: str) -> None:
    response = await alice.request("PROPFIND", f"{_TRASH}/trash/{entry}")

    assert f"<d:href>{_TRASH}/trash/{entry}/</d:href>" in response.text
    assert "<d:collection/>" in response.text


async def test_the_list_without_depth_shows_the_trash_alone(alice: httpx2.AsyncClient, entry: str) -> None:
    response = await alice.request("PROPFIND", f"{_TRASH}/trash", headers={"Depth": "0"})

    assert response.text.count("<d:response>") == 1


@pytest.mark.parametrize("path", ["", "/restore"])
async def test_the_folders_around_the_trash_are_seen(alice: httpx2.AsyncClient, path: str) -> None:
    response = await alice.request("PROPFIND", f"{_TRASH}{path}")

    assert f"<d:href>{_TRASH}{path}/</d:href>" in response.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "", 501),
        ("GET", "/trash", 501),
        ("PUT", "/trash/{entry}", 501),
        ("GET", "/elsewhere", 404),
        ("GET", "/trash/never.d1", 404),
        ("GET", "/trash/{entry}/deep", 404),
    ],
)
async def test_other_requests_to_the_trash_are_refused(
    alice: httpx2.AsyncClient, entry: str, method: str, path: str, status: int
) -> None:
    response = await alice.request(method, f"{_TRASH}{path.format(entry=entry)}")

    assert response.status_code == status


@pytest.mark.parametrize("destination", ["/remote.php/dav/files/alice/x", ""])
async def test_an_entry_is_moved_to_the_restore_folder_only(
    alice: httpx2.AsyncClient, entry: str, destination: str
) -> None:
    response = await alice.request("MOVE", f"{_TRASH}/trash/{entry}", headers={"Destination": destination})

    assert response.status_code == 403


async def test_every_name_in_the_restore_folder_counts_as_taken(
    sandbox: Sandbox, alice: httpx2.AsyncClient, entry: str
) -> None:
    headers = {"Destination": f"{_TRASH}/restore/free", "Overwrite": "F"}

    response = await alice.request("MOVE", f"{_TRASH}/trash/{entry}", headers=headers)

    assert (response.status_code, "<s:header>Overwrite</s:header>" in response.text) == (412, True)
    assert sandbox.state.users["alice"].files.find_trash(entry) is not None


async def test_the_trash_of_another_user_is_forbidden(alice: httpx2.AsyncClient) -> None:
    response = await alice.request("PROPFIND", "/remote.php/dav/trashbin/bob/trash")

    assert response.status_code == 403
