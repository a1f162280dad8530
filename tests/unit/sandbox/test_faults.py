from collections.abc import Callable

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.faults import Faults, FaultStatus, LostAnswer

OCS = {"OCS-APIRequest": "true"}
USER = "/ocs/v2.php/cloud/user?format=json"
NOTES = "/index.php/apps/notes/api/v1/notes"
HOME = "/remote.php/dav/files/alice/"
NOTES_BODIES = {
    401: '{"message":""}',
    423: '{"errorType":"OCP\\\\Lock\\\\LockedException"}',
    429: '{"message":"Reached maximum delay"}',
    507: '{"errorType":"OCA\\\\Notes\\\\Service\\\\InsufficientStorageException"}',
}
DAV_EXCEPTIONS = {
    401: "NotAuthenticated",
    423: "FileLocked",
    429: "TooManyRequests",
    503: "ServerMaintenanceMode",
    507: "InsufficientStorage",
}


@pytest.mark.parametrize("status", [401, 423, 429, 507])
async def test_a_status_fault_of_notes_is_json(
    sandbox: Sandbox, alice: httpx2.AsyncClient, status: FaultStatus
) -> None:
    sandbox.faults.status(status, area="notes")

    response = await alice.get(NOTES)
    elsewhere = await alice.get(USER, headers=OCS)

    assert (response.status_code, response.text) == (status, NOTES_BODIES[status])
    assert elsewhere.status_code == 200


@pytest.mark.parametrize("status", [401, 423, 429, 503, 507])
async def test_a_status_fault_of_dav_is_an_exception(
    sandbox: Sandbox, alice: httpx2.AsyncClient, status: FaultStatus
) -> None:
    sandbox.faults.status(status, area="dav")

    response = await alice.put(f"{HOME}a.txt", content=b"x")

    assert (response.status_code, DAV_EXCEPTIONS[status] in response.text) == (status, True)
    assert sandbox.state.users["alice"].files.find("/a.txt") is None


@pytest.mark.parametrize("status", [401, 423, 429, 503, 507])
async def test_a_status_fault_of_ocs_is_in_the_envelope(
    sandbox: Sandbox, alice: httpx2.AsyncClient, status: FaultStatus
) -> None:
    sandbox.faults.status(status, area="ocs")

    response = await alice.get(USER, headers=OCS)

    code = response.json()["ocs"]["meta"]["statuscode"]
    assert (response.status_code, code) == (status, 997 if status == 401 else status)


async def test_a_status_fault_of_the_login_flow_is_a_page(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient
) -> None:
    sandbox.faults.status(429, area="login")

    response = await anonymous.post("/login/v2")

    assert (response.status_code, response.headers["Content-Type"]) == (429, "text/html; charset=UTF-8")


async def test_a_fault_lets_some_requests_pass_and_then_hits_some(
    sandbox: Sandbox, alice: httpx2.AsyncClient
) -> None:
    sandbox.faults.status(423, area="notes", after=1, times=2)

    statuses = [(await alice.get(NOTES)).status_code for _ in range(5)]

    assert statuses == [200, 423, 423, 200, 200]
    assert sandbox.faults.active == []


async def test_a_lost_answer_comes_after_the_write(sandbox: Sandbox, alice: httpx2.AsyncClient) -> None:
    sandbox.faults.lost_body(area="notes", methods=frozenset({"POST"}))

    await alice.get(NOTES)
    with pytest.raises(LostAnswer):
        await alice.post(NOTES, json={"title": "written"})
    response = await alice.get(NOTES)

    assert [note["title"] for note in response.json()] == ["written"]
    assert [record.status for record in sandbox.requests.records] == [200, 200, 200]


async def test_a_slow_answer_still_comes(sandbox: Sandbox, alice: httpx2.AsyncClient) -> None:
    sandbox.faults.slow(0.0, times=1)

    response = await alice.get(NOTES)

    assert (response.status_code, sandbox.faults.active) == (200, [])


def test_faults_can_be_switched_off() -> None:
    faults = Faults()
    faults.slow(1.0)

    faults.clear()

    assert faults.hits("notes", "GET") == []


async def test_maintenance_mode_answers_503_in_each_areas_own_form(
    sandbox: Sandbox, alice: httpx2.AsyncClient
) -> None:
    sandbox.state.maintenance = True

    notes = await alice.get(NOTES)
    dav = await alice.request("PROPFIND", HOME)
    ocs = [await alice.get(USER.replace("v2", version), headers=OCS) for version in ("v1", "v2")]
    login = await alice.post("/login/v2")
    status = await alice.get("/status.php")

    assert [(page.status_code, page.headers["Retry-After"]) for page in (notes, login)] == [(503, "120")] * 2
    assert notes.headers["X-Nextcloud-Maintenance-Mode"] == "1"
    assert (dav.status_code, "System is in maintenance mode." in dav.text) == (503, True)
    assert [(answer.status_code, answer.json()["ocs"]["meta"]["message"]) for answer in ocs] == [
        (503, "Service unavailable")
    ] * 2
    assert ocs[1].headers["X-Nextcloud-Maintenance-Mode"] == "1"
    assert (status.status_code, status.json()["maintenance"]) == (200, True)


async def test_an_unknown_host_is_refused(sandbox: Sandbox, alice: httpx2.AsyncClient) -> None:
    sandbox.state.trusted_domains = frozenset({"cloud.example.org"})

    response = await alice.get(NOTES)
    trusted = await alice.get(NOTES, headers={"Host": "cloud.example.org"})

    assert (response.status_code, trusted.status_code) == (400, 200)


async def test_a_path_outside_the_installation_is_not_found(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    sandbox = Sandbox.demo(base_path="/nextcloud/", pretty_urls=False)

    async with connect(sandbox, auth=("alice", "alice")) as client:
        paths = [
            "/status.php",
            "/nextcloudx/status.php",
            "/nextcloud/apps/notes/api/v1/notes",
            "/nextcloud/status.php",
            "/nextcloud/index.php/apps/notes/api/v1/notes",
            "/nextcloud",
            "/nextcloud/index.php",
        ]
        statuses = [(await client.get(path)).status_code for path in paths]
        home = await client.request("PROPFIND", "/nextcloud/remote.php/dav/files/alice/")

    assert statuses == [404, 404, 404, 200, 200, 404, 404]
    assert "<d:href>/nextcloud/remote.php/dav/files/alice/</d:href>" in home.text


@pytest.mark.parametrize(("name", "status"), [("nul%00.txt", 400), ("new%0Aline.txt", 404)])
async def test_the_web_server_refuses_control_characters_itself(
    alice: httpx2.AsyncClient, name: str, status: int
) -> None:
    response = await alice.put(f"{HOME}{name}", content=b"x")

    assert (response.status_code, response.headers["Content-Type"]) == (status, "text/html")
    assert "nginx" in response.text
    assert "Set-Cookie" not in response.headers


async def test_faults_can_be_ordered_over_http(sandbox: Sandbox, anonymous: httpx2.AsyncClient) -> None:
    ordered = await anonymous.post(
        "/__sandbox/faults", json={"kind": "status", "status": 423, "area": "notes", "times": 1}
    )
    hit = await anonymous.get(NOTES)
    await anonymous.post("/__sandbox/faults", json={"kind": "slow", "seconds": 9})
    cleared = await anonymous.delete("/__sandbox/faults")
    refused = await anonymous.post("/__sandbox/faults", json={"kind": "flood"})

    assert (ordered.status_code, hit.status_code, cleared.status_code) == (204, 423, 204)
    assert sandbox.faults.active == []
    assert (refused.status_code, "kind" in refused.json()["error"]) == (400, True)


async def test_requests_are_logged_with_person_and_kind_of_credential(
    sandbox: Sandbox, alice: httpx2.AsyncClient, anonymous: httpx2.AsyncClient
) -> None:
    await alice.get(f"{NOTES}?exclude=content")
    await anonymous.get(USER, headers=OCS | {"Authorization": "Bearer bogus"})
    await anonymous.get("/status.php")

    response = await anonymous.get("/__sandbox/requests")
    document = response.json()
    await anonymous.delete("/__sandbox/requests")

    assert document["total"] == 3
    assert document["requests"][0] == {
        "method": "GET",
        "path": "/apps/notes/api/v1/notes",
        "query": "exclude=content",
        "user": "alice",
        "auth": "basic",
        "status": 200,
    }
    assert [(entry["user"], entry["auth"]) for entry in document["requests"][1:]] == [
        (None, "bearer"),
        (None, "none"),
    ]
    assert (sandbox.requests.total, list(sandbox.requests.records)) == (0, [])


async def test_a_method_that_a_path_does_not_know_is_405(anonymous: httpx2.AsyncClient) -> None:
    response = await anonymous.put("/login/v2")

    assert (response.status_code, response.text) == (405, "")
