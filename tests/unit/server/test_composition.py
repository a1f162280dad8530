import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import CredentialRejected, NextcloudError, WrongAccount
from nextcloud_mcp_server.protocol.availability import NOTHING
from nextcloud_mcp_server.server.composition import build_server
from nextcloud_mcp_server.server.modes.personal import Personal
from nextcloud_mcp_server.server.services import Overrides
from tests.auth_fixtures import ProcessHost
from tests.sdk_request import request
from tests.services_fixtures import configured, personal

OPERATOR = {"nextcloud_username": "alice", "nextcloud_app_password": SecretStr("made-up")}


async def test_the_parts_stop_together(harness: ProcessHost) -> None:
    config = configured(harness)
    parts = build_server(personal(config, harness))
    with anyio.fail_after(100):
        async with parts.running(resume=False):
            services = await parts.services.get()
            running = await services.database.grants.all()

    assert running == []


async def test_consent_requests_are_looked_up_for_waiting_calls(harness: ProcessHost) -> None:
    parts = build_server(personal(configured(harness), harness))
    with anyio.fail_after(100):
        async with parts.running(resume=False):
            assert await parts.pending.wait("550e8400-e29b-41d4-a716-446655440000", seconds=60)


async def test_the_start_says_what_an_old_name_leaves_out(
    harness: ProcessHost, caplog: pytest.LogCaptureFixture
) -> None:
    build_server(Personal(configured(harness, exclude_tools=("nc_deck_list_boards",))))

    assert [said.partition(".")[0] for said in caplog.messages] == [
        "EXCLUDE_TOOLS names nc_deck_list_boards, an old name of nc_deck_get_board"
    ]


@pytest.mark.parametrize(
    ("answer", "error", "audited"),
    [
        (httpx2.Response(401), CredentialRejected, []),
        (httpx2.Response(200, headers={"X-User-Id": "bob"}, json={}), WrongAccount, ["WrongAccount"]),
    ],
)
async def test_an_app_password_that_nextcloud_refuses_for_the_apps_is_not_sent_again(
    harness: ProcessHost, answer: httpx2.Response, error: type[NextcloudError], audited: list[str]
) -> None:
    asked: list[str] = []

    def nextcloud(sent: httpx2.Request) -> httpx2.Response:
        asked.append(sent.url.path.rpartition("/")[2])
        if asked[-1] == "user":
            meta = {"status": "ok", "statuscode": 200}
            return httpx2.Response(200, json={"ocs": {"meta": meta, "data": {"id": "alice"}}})
        return answer

    overrides = Overrides(transport=httpx2.MockTransport(nextcloud), clock=harness.clock)
    parts = build_server(Personal(configured(harness, **OPERATOR), overrides=overrides))
    ctx = request(method="tools/list")
    assert parts.availability.find_access is not None
    with anyio.fail_after(60):
        async with parts.running(resume=False):
            access = await parts.availability.find_access(ctx)
            assert access is not None
            with pytest.raises(error):
                await access[0](NOTHING)
            sent = list(asked)
            again = await parts.availability.find_access(ctx)
            opened = harness.folder.joinpath("state.db").exists()
            services = await parts.services.get()
            await services.audit.flush()
            recorded = [
                entry.result
                for entry in await services.database.audit.recent(parts.mode.caller(ctx).principal, 5)
            ]

    assert sent[:2] == ["user", "capabilities"]
    assert asked == sent
    assert (again is None) == (error is CredentialRejected)
    assert opened == bool(audited)
    assert recorded == audited
