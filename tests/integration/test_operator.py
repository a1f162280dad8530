"""The operator gave the access in the settings: no one is asked, and no link leads anywhere."""

import httpx2
import pytest

from tests.integration.personal_app import PersonalApp

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"


async def shown(personal_app: PersonalApp, path: str) -> tuple[int, bytes]:
    async with httpx2.AsyncClient() as browser:
        response = await browser.get(f"{personal_app.url}{path}", headers={"Accept": "text/html"})
    return response.status_code, response.content


@pytest.mark.parametrize("page", ["provision", "waiting"])
async def test_every_link_shows_the_page_that_unknown_links_show_elsewhere(
    personal_app: PersonalApp, page: str
) -> None:
    path = f"/oauth/{page}?elicitationId={UNKNOWN}"
    elsewhere = await shown(personal_app, path)
    await personal_app.stop()
    await personal_app.start(nextcloud_username="alice", nextcloud_app_password="alice")

    answer = await shown(personal_app, path)

    assert answer == elsewhere
    assert answer[0] == 404
    assert b"no longer valid" in answer[1]


async def test_calls_go_through_without_a_question(personal_app: PersonalApp) -> None:
    await personal_app.stop()
    await personal_app.start(nextcloud_username="alice", nextcloud_app_password="alice")

    async with personal_app.client() as client:
        result = await client.call_tool("nc_notes_list_notes", {})

    assert not result.is_error, result.content
