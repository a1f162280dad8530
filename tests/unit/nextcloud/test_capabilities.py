from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server.errors import CredentialRejected, TooLarge
from nextcloud_mcp_server.nextcloud.capabilities import CapabilitiesClient
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

VERSION = {"major": 32, "minor": 0, "micro": 1, "string": "32.0.1", "edition": "", "extendedSupport": False}
NOTES = {"api_version": ["0.2", "1.3", "1.4"], "version": "5.0.2", "notes_path": "Notes"}


def client(capabilities: dict[str, Any], *, uid: str | None = "alice") -> CapabilitiesClient:
    def answer(request: httpx2.Request) -> httpx2.Response:
        body = {"ocs": {"meta": {}, "data": {"version": VERSION, "capabilities": capabilities}}}
        headers = {"ETag": '"e1"', **({"X-User-Id": uid} if uid else {})}
        if request.method == "PROPFIND":
            # The probe, where the anonymous set puts the credential in doubt.
            return httpx2.Response(401)
        if request.headers.get("If-None-Match") == '"e1"':
            return httpx2.Response(304, headers=headers)
        return httpx2.Response(200, headers=headers, json=body)

    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    return CapabilitiesClient(NextcloudHttp(pool, NextcloudUrl.parse("https://h"), uid="alice"))


async def test_version_apps_and_notes_api_versions_are_read() -> None:
    found = await client({"core": {"pollinterval": 60}, "files": {}, "notes": NOTES}).get()

    assert found.version == "32.0.1"
    assert found.apps == {"core", "files", "notes"}
    assert found.notes_api_versions == ("0.2", "1.3", "1.4")


async def test_far_more_than_apps_say_of_themselves_is_refused() -> None:
    with pytest.raises(TooLarge):
        await client({"core": {}, "odd": "x" * 2_097_152}).get()


async def test_with_the_etag_only_a_change_is_answered() -> None:
    asked = client({"core": {}, "notes": NOTES})

    first = await asked.changed(None)
    again = await asked.changed("e1")
    other = await asked.changed("e0")

    assert first is not None
    assert first.etag == "e1"
    assert again is None
    assert other == first


@pytest.mark.parametrize("notes", [[], {}])
async def test_an_app_that_answers_an_empty_map_is_still_there(notes: object) -> None:
    found = await client({"core": {}, "notes": notes}).get()

    assert found.apps == {"core", "notes"}
    assert found.notes_api_versions == ()


async def test_the_anonymous_set_means_that_the_credential_was_not_taken() -> None:
    with pytest.raises(CredentialRejected, match="request_nextcloud_access"):
        await client({"bruteforce": {"delay": 0}, "theming": {}}, uid=None).get()


@pytest.mark.parametrize("odd", [None, [], {}, "x", 7])
async def test_an_app_that_tells_nonsense_of_itself_hides_no_other(odd: object) -> None:
    told = {"core": {"user": odd}, "notes": {"api_version": odd or 1}, "files": {"versioning": odd}}

    found = await client(told).get()

    assert (found.apps, found.notes_api_versions, found.timezone) == ({"core", "notes", "files"}, (), "")
