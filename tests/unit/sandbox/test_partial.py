import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox

_HOME = "/remote.php/dav/files/alice"
_KEPT = f"{_HOME}/x.part"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("PUT", _KEPT, {}, 400),
        ("PUT", _KEPT, {"If-None-Match": "*"}, 412),
        ("PUT", _KEPT, {"If-None-Match": '"abc"'}, 400),
        ("PUT", _KEPT, {"If-Match": '"abc"'}, 412),
        ("PUT", _KEPT, {"If-Match": "*"}, 400),
        ("LOCK", _KEPT, {}, 501),
        ("COPY", _KEPT, {}, 501),
        ("GET", _KEPT, {}, 503),
        ("GET", f"{_HOME}/x.PART", {}, 404),
        ("GET", f"{_HOME}/missing/x.part", {}, 404),
    ],
)
async def test_a_kept_name_is_answered_for_as_if_it_were_there_and_empty(
    alice: httpx2.AsyncClient, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    response = await alice.request(method, path, headers=headers)

    assert response.status_code == status


async def test_a_kept_name_is_free_below_no_folder(sandbox: Sandbox, alice: httpx2.AsyncClient) -> None:
    sandbox.state.users["alice"].files.put("/a.txt", b"x")

    response = await alice.request("PROPFIND", f"{_HOME}/a.txt/x.part")

    assert response.status_code == 404
