"""The operator gave the access in the settings: nobody is asked, and no link leads anywhere."""

import httpx2
import pytest

from tests.integration.world import World

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"


async def shown(world: World, path: str) -> tuple[int, bytes]:
    async with httpx2.AsyncClient() as browser:
        response = await browser.get(f"{world.url}{path}", headers={"Accept": "text/html"})
    return response.status_code, response.content


@pytest.mark.parametrize("page", ["provision", "waiting"])
async def test_every_link_shows_the_page_that_unknown_links_show_elsewhere(world: World, page: str) -> None:
    path = f"/oauth/{page}?elicitationId={UNKNOWN}"
    elsewhere = await shown(world, path)
    await world.stop()
    await world.start(nextcloud_username="alice", nextcloud_app_password="alice")

    answer = await shown(world, path)

    assert answer == elsewhere
    assert answer[0] == 404
    assert b"no longer valid" in answer[1]


async def test_calls_go_through_without_a_question(world: World) -> None:
    await world.stop()
    await world.start(nextcloud_username="alice", nextcloud_app_password="alice")

    async with world.client() as client:
        result = await client.call_tool("nc_notes_list_notes", {})

    assert not result.is_error, result.content
