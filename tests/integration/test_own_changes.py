"""What a user changes through our tools is heard at once by their clients, not with the next look."""

from typing import Any

import anyio
import pytest

from tests.integration.personal_app import PersonalApp, until

HEARD = "notifications/resources/updated"


def called(name: str, **arguments: object) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


# A file that is written within the second in which it was made keeps its etag, so that nothing can be noticed.
@pytest.mark.parametrize("personal_app", [{"one_second_etags": False}], indirect=True)
@pytest.mark.parametrize(
    ("uri", "name", "arguments"),
    [
        ("nc://files/Readme.md", "nc_files_write_file", {"path": "Readme.md", "content": "new"}),
        ("nc://files/New.md", "nc_files_write_file", {"path": "New.md", "content": "new"}),
    ],
)
async def test_a_session_hears_what_another_client_of_its_person_changed(
    personal_app: PersonalApp, uri: str, name: str, arguments: dict[str, Any]
) -> None:
    await personal_app.stop()
    # The next look of its own comes in an hour.
    await personal_app.start(nextcloud_username="alice", nextcloud_app_password="alice", update_seconds=3600)
    async with personal_app.raw() as hears, personal_app.raw() as writes, anyio.create_task_group() as group:
        await group.start(hears.listen)
        await hears.request("resources/subscribe", {"uri": uri})
        read = await writes.request("tools/call", called("nc_files_get_info", path="Readme.md"))
        etag = read["result"]["structuredContent"]["etag"]
        guarded = {"etag": etag} if arguments["path"] == "Readme.md" else {}

        def heard() -> set[str]:
            return {one["params"]["uri"] for one in hears.notices if one["method"] == HEARD}

        await writes.request("tools/call", called(name, **arguments, **guarded))
        await until(lambda: bool(heard()))
        group.cancel_scope.cancel()
        assert heard() == {uri}
