import anyio
import pytest

from nextcloud_mcp_server.server.composition import build_server
from nextcloud_mcp_server.server.modes.personal import Personal
from tests.auth_fixtures import ProcessHost
from tests.services_fixtures import configured, personal


async def test_the_parts_stop_together(stage: ProcessHost) -> None:
    config = configured(stage)
    parts = build_server(personal(config, stage))
    with anyio.fail_after(100):
        async with parts.running(resume=False):
            services = await parts.services.get()
            running = await services.database.grants.all()

    assert running == []


async def test_consent_requests_are_looked_up_for_waiting_calls(stage: ProcessHost) -> None:
    parts = build_server(personal(configured(stage), stage))
    with anyio.fail_after(100):
        async with parts.running(resume=False):
            assert await parts.pending.wait("550e8400-e29b-41d4-a716-446655440000", seconds=60)


async def test_the_start_says_what_an_old_name_leaves_out(
    stage: ProcessHost, caplog: pytest.LogCaptureFixture
) -> None:
    build_server(Personal(configured(stage, exclude_tools=("nc_deck_list_boards",))))

    assert [said.partition(".")[0] for said in caplog.messages] == [
        "EXCLUDE_TOOLS names nc_deck_list_boards, an old name of nc_deck_get_board"
    ]
