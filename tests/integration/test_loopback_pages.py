"""The consent page of a server over stdio: real processes, a real port of this computer."""

from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from tests.integration.personal_app import Asked
from tests.integration.stdio_app import LIST, URL, StdioApp, call_until_connected, link, shows_notes

pytestmark = pytest.mark.process

WRITE = "nc_notes_create_note"


@pytest.fixture(autouse=True)
def on_a_page(stdio_app: StdioApp) -> None:
    stdio_app.settings["CONSENT_PAGE"] = "loopback"


async def test_a_person_chooses_on_a_page_of_this_computer_and_the_waiting_call_goes_through(
    stdio_app: StdioApp,
) -> None:
    asked = Asked(stdio_app)
    # The pages end with the process, so the person is ready first.
    async with stdio_app.client(elicitation_callback=asked) as client, stdio_app.person() as alice:
        asked.by(alice.allow)
        result = await client.call_tool(LIST, {})
        status = await client.call_tool("check_provisioning_status", {})

    assert "Shopping list" in str(result.structured_content)
    (url,) = asked.urls
    assert urlsplit(url).hostname == "127.0.0.1"
    assert not url.startswith(stdio_app.nextcloud_url)
    # Only what the call needs is preset, and so granted.
    assert status.structured_content is not None
    assert status.structured_content["permissions"] == ["notes:read"]
    assert "Nextcloud" in alice.seen[-1].text


async def test_more_is_asked_for_when_it_is_needed_on_a_page_without_nextcloud(stdio_app: StdioApp) -> None:
    asked = Asked(stdio_app)
    # The pages end with the process, so the person is ready first.
    async with stdio_app.client(elicitation_callback=asked) as client, stdio_app.person() as alice:
        asked.by(alice.allow)
        await client.call_tool(LIST, {})
        at_nextcloud = len(stdio_app.sandbox.requests.records)
        made = await client.call_tool(WRITE, {"title": "Tea", "content": "Green"})
        status = await client.call_tool("check_provisioning_status", {})

    assert not made.is_error
    assert len(asked.urls) == 2
    assert status.structured_content is not None
    assert status.structured_content["permissions"] == ["notes:read", "notes:write"]
    later = list(stdio_app.sandbox.requests.records)[at_nextcloud:]
    assert not [one for one in later if "/login/" in one.path]


async def test_a_user_declines_on_the_page(stdio_app: StdioApp) -> None:
    async with stdio_app.lines(URL) as client, stdio_app.person() as alice:
        first = await client.call(LIST)
        await alice.decline(link(first))
        second = await client.call(LIST)

    assert "the user declined" in str(second)


async def test_the_port_answers_the_link_alone(stdio_app: StdioApp) -> None:
    async with stdio_app.lines(URL) as client, httpx2.AsyncClient() as http:
        url = link(await client.call(LIST))
        parts = urlsplit(url)
        origin, secret = f"http://{parts.netloc}", parts.path.removesuffix("/oauth/provision")
        statuses = {
            name: (await http.request(method, address, headers=headers)).status_code
            for name, method, address, headers in (
                ("the link", "GET", url, {}),
                ("its own form without a check", "POST", url, {"Origin": origin}),
                ("without the secret path", "GET", f"{origin}/oauth/provision?{parts.query}", {}),
                ("another path", "GET", f"{origin}/", {}),
                ("a path that only begins like it", "GET", f"{origin}{secret}x/oauth/provision?{parts.query}", {}),
                ("no MCP", "POST", f"{origin}{secret}/mcp", {}),
                ("no account page", "GET", f"{origin}{secret}/account", {}),
                ("another name of this computer", "GET", url, {"Host": f"localhost:{parts.port}"}),
                ("a name of another site", "GET", url, {"Host": "evil.example"}),
                ("a form of another site", "POST", url, {"Origin": "https://evil.example"}),
                ("a proxy", "GET", url, {"X-Forwarded-For": "10.0.0.1"}),
            )
        }  # fmt: skip

    assert len(secret) > 30
    assert statuses == {
        "the link": 200,
        "its own form without a check": 400,
        "without the secret path": 404,
        "another path": 404,
        "a path that only begins like it": 404,
        "no MCP": 404,
        "no account page": 404,
        "another name of this computer": 421,
        "a name of another site": 421,
        "a form of another site": 403,
        "a proxy": 403,
    }


async def test_a_client_that_ends_its_process_with_each_call_is_sent_to_nextcloud_from_its_second_call_on(
    stdio_app: StdioApp,
) -> None:
    async with stdio_app.lines(URL) as client:
        dead = link(await client.call(LIST))
        await client.leave()
    async with stdio_app.lines(URL) as client:
        alive = link(await client.call(LIST))
        await client.leave()
    async with stdio_app.person() as alice, httpx2.AsyncClient() as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get(dead)
        await alice.allow(alive)
    async with stdio_app.lines(URL) as client:
        answer = await call_until_connected(client)

    assert alive.startswith(f"{stdio_app.nextcloud_url}/login/v2/flow/")
    assert shows_notes(answer)


async def test_two_processes_of_one_user_each_link_to_their_own_page(stdio_app: StdioApp) -> None:
    async with (
        stdio_app.lines(URL) as one,
        stdio_app.lines(URL) as other,
        stdio_app.person() as alice,
    ):
        first, second = link(await one.call(LIST)), link(await other.call(LIST))
        await alice.allow(second)
        answers = [await call_until_connected(one), await call_until_connected(other)]

    assert urlsplit(first).netloc != urlsplit(second).netloc
    assert urlsplit(first).query == urlsplit(second).query
    assert all(map(shows_notes, answers))


async def test_the_secret_path_is_in_no_log(stdio_app: StdioApp) -> None:
    async with stdio_app.lines(URL) as client, stdio_app.person() as alice:
        url = link(await client.call(LIST))
        await alice.allow(url)
        await call_until_connected(client)

    log = await anyio.Path(stdio_app.log).read_text(encoding="utf-8")
    assert "/oauth/provision" in log
    assert urlsplit(url).path.split("/")[1] not in log
