"""One consent, in every form that clients understand (docs/protocol.md, wire table)."""

from functools import partial
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitRequestURLParams, ElicitResult, TextContent

from nextcloud_mcp_server.sandbox.document import Document
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.sandbox.profile import NAMES
from tests.integration.personal_app import Asked, PersonalApp, link_in, until

LIST = "nc_notes_list_notes"
OPENS = "The user opens this link in a browser:"
DECLINED = (
    "Not connected: the user declined, and the link no longer works. "
    "If the user wants to allow it after all, call the tool again for a new link."
)
THEN = "When that is done, call the tool again."
ASK = "Grant the MCP server access to your Nextcloud account to continue. This is a one-time setup."


def titles(result: CallToolResult) -> list[str]:
    assert not result.is_error, result.content
    return [note["title"] for note in result.structured_content["notes"]]


def text(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


async def unused(context: object, params: ElicitRequestParams) -> ElicitResult:
    raise NotImplementedError


@pytest.mark.parametrize("personal_app", [{"version": name} for name in NAMES], indirect=True)
async def test_a_2026_client_opens_one_page_and_its_waiting_call_goes_through(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        result = await client.call_tool(LIST, {})

    assert "Shopping list" in titles(result)
    assert len(asked.urls) == 1
    assert "Connected" in alice.seen[-1].text


async def test_a_2025_client_gets_error_32042_and_its_retry_goes_through(personal_app: PersonalApp) -> None:
    """N07: the id is in the error, and in the link."""
    async with (
        personal_app.person() as alice,
        personal_app.client(mode="legacy", elicitation_callback=unused) as client,
    ):
        with pytest.raises(MCPError) as caught:
            await client.call_tool(LIST, {})
        wanted = UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0]
        await alice.allow(wanted.url)
        result = await client.call_tool(LIST, {})

    assert wanted.elicitation_id
    assert wanted.url.endswith(f"/oauth/provision?elicitationId={wanted.elicitation_id}")
    assert wanted.url in caught.value.error.message
    assert "Shopping list" in titles(result)


async def test_a_2025_client_is_notified_when_the_consent_request_is_finished(
    personal_app: PersonalApp,
) -> None:
    heard: list[Any] = []

    async def listen(message: object) -> None:
        heard.append(message)

    async with (
        personal_app.person() as alice,
        personal_app.client(mode="legacy", elicitation_callback=unused, message_handler=listen) as client,
    ):
        with pytest.raises(MCPError) as caught:
            await client.call_tool(LIST, {})
        wanted = UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0]
        await alice.allow(wanted.url)
        await until(
            lambda: any(getattr(one, "method", "") == "notifications/elicitation/complete" for one in heard)
        )

    complete = [one for one in heard if getattr(one, "method", "") == "notifications/elicitation/complete"]
    assert [one.params.elicitation_id for one in complete] == [wanted.elicitation_id]


async def test_a_2025_clients_immediate_retry_is_held_until_the_consent_request_is_finished(
    personal_app: PersonalApp,
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(mode="legacy", elicitation_callback=unused) as client,
    ):
        with pytest.raises(MCPError) as caught:
            await client.call_tool(LIST, {})
        wanted = UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0]
        personal_app.consent_request(alice.allow, wanted.url)
        result = await client.call_tool(LIST, {})

    assert "Shopping list" in titles(result)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_without_elicitation_is_told_in_words_and_called_again(
    personal_app: PersonalApp, mode: str
) -> None:
    async with personal_app.person() as alice, personal_app.client(mode=mode) as client:
        told = await client.call_tool(LIST, {})
        url = link_in(text(told))
        await alice.allow(url)
        result = await client.call_tool(LIST, {})

    assert told.is_error
    assert text(told) == f"{ASK} {OPENS}\n\n{url}\n\n{THEN}"
    assert "Shopping list" in titles(result)


@pytest.mark.parametrize("elicitation", [{}, {"form": {}}])
async def test_a_client_with_forms_only_is_told_in_words(
    personal_app: PersonalApp, elicitation: dict[str, Any]
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.raw(capabilities={"elicitation": elicitation}) as client,
    ):
        told = await client.request("tools/call", {"name": LIST, "arguments": {}})
        await alice.allow(link_in(told["result"]["content"][0]["text"]))
        result = await client.request("tools/call", {"name": LIST, "arguments": {}})

    assert told["result"]["isError"] is True
    assert "Shopping list" in str(result["result"]["structuredContent"])


async def test_a_2026_client_that_is_told_in_words_is_held_when_it_calls_again(
    personal_app: PersonalApp,
) -> None:
    async with personal_app.person() as alice, personal_app.client() as client:
        told = await client.call_tool(LIST, {})
        personal_app.consent_request(alice.allow, link_in(text(told)))
        result = await client.call_tool(LIST, {})

    assert "Shopping list" in titles(result)


async def test_a_draft_client_gets_error_32000_and_tracks_the_consent_request_to_its_end(
    personal_app: PersonalApp,
) -> None:
    """N07: the id is in the error, and in the link."""
    async with personal_app.person() as alice, personal_app.raw(draft=True) as client:
        refused = await client.request("tools/call", {"name": LIST, "arguments": {}})
        wanted = refused["error"]["data"]["elicitations"][0]
        personal_app.consent_request(alice.allow, wanted["url"])
        tracked = await client.request(
            "elicitation/track", {"elicitationId": wanted["elicitationId"], "_meta": {"progressToken": "p"}}
        )
        result = await client.request("tools/call", {"name": LIST, "arguments": {}})

    assert refused["error"]["code"] == -32000
    assert refused["error"]["message"] == "Nextcloud access provisioning required"
    assert wanted == {
        "mode": "url",
        "elicitationId": wanted["elicitationId"],
        "url": f"{personal_app.url}/oauth/provision?elicitationId={wanted['elicitationId']}",
        "message": ASK,
    }
    assert tracked["result"] == {"status": "complete"}
    progress = [
        one["params"]["progress"] for one in client.notices if one["method"] == "notifications/progress"
    ]
    assert progress
    assert progress == sorted(set(progress))
    assert "Shopping list" in str(result["result"]["structuredContent"])


@pytest.mark.parametrize(
    "elicitation_id",
    ["550e8400-e29b-41d4-a716-446655440000", "nonsense", "550E8400-E29B-41D4-A716-446655440000"],
)
async def test_tracking_an_unknown_or_malformed_id_is_refused_alike(
    personal_app: PersonalApp, elicitation_id: str
) -> None:
    async with personal_app.raw(draft=True) as client:
        answer = await client.request("elicitation/track", {"elicitationId": elicitation_id})

    assert answer["error"] == {"code": -32602, "message": "No such elicitation"}


async def test_parallel_calls_share_one_consent_request(personal_app: PersonalApp, asked: Asked) -> None:
    results: list[CallToolResult] = []

    async def call(client: Client) -> None:
        results.append(await client.call_tool(LIST, {}))

    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow, once=True)) as client,
        anyio.create_task_group() as group,
    ):
        for _ in range(5):
            group.start_soon(call, client)

    assert len(set(asked.urls)) == 1
    assert all("Shopping list" in titles(result) for result in results)


async def test_calls_that_were_told_the_same_link_all_go_through_and_a_later_question_is_new(
    personal_app: PersonalApp,
) -> None:
    """N09: a client that meets the same link again after it was used takes it for a loop."""
    await personal_app.stop()
    await personal_app.start(hold_seconds=0)
    async with (
        personal_app.person() as alice,
        personal_app.client(mode="legacy", elicitation_callback=unused) as client,
    ):
        first = await asked_of(client)
        again = [await client.call_tool(LIST, {}) for _ in range(2)]
        await alice.allow(first.url)
        results = [await client.call_tool(LIST, {}) for _ in range(3)]
        await client.call_tool("revoke_nextcloud_access", {})
        after = await asked_of(client)

    assert {link_in(text(one)) for one in again} == {first.url}
    assert all("Shopping list" in titles(result) for result in results)
    assert after.elicitation_id != first.elicitation_id
    assert after.url != first.url


async def asked_of(client: Client) -> ElicitRequestURLParams:
    with pytest.raises(MCPError) as caught:
        await client.call_tool(LIST, {})
    return UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0]


async def test_each_copy_of_a_page_can_be_sent_and_the_second_says_that_it_is_done(
    personal_app: PersonalApp,
) -> None:
    """N01: browsers fetch a page in advance, and what the user sees may be the first copy or the second."""
    async with (
        personal_app.client(mode="legacy", elicitation_callback=unused) as client,
        httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser,
    ):
        link = (await asked_of(client)).url
        copies = [(await browser.get(link)).text for _ in range(2)]
        alice = Person("alice", "alice", browser=browser)
        pages = [await sent(browser, link, copies[0])]
        nextcloud = next(one for one in Document.read(pages[0].text).links if "/login/" in one)
        await alice.allow(nextcloud)
        await alice.follow(str(pages[0].url))
        pages.append(await sent(browser, link, copies[1]))
        result = await client.call_tool(LIST, {})

    assert [page.status_code for page in pages] == [200, 200]
    assert "Connected" in pages[1].text
    assert len(personal_app.sandbox.state.app_passwords) == 1
    assert "Shopping list" in titles(result)


async def sent(browser: httpx2.AsyncClient, link: str, page: str) -> httpx2.Response:
    """Send the form of a copy as it was rendered."""
    form = Document.read(page).forms[0]
    fields: dict[str, list[str]] = {"answer": ["allow"]}
    for one in form.fields:
        if not one.is_choice or one.ticked:
            fields.setdefault(one.name, []).append(one.value)
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
    return await browser.post(urljoin(link, form.action), data=fields, headers=headers)


async def test_declining_in_the_client_ends_the_call_and_the_consent_request(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with personal_app.client(elicitation_callback=asked.by(None, action="decline", after=3)) as client:
        result = await client.call_tool(LIST, {})

    assert result.is_error
    assert text(result) == DECLINED
    async with httpx2.AsyncClient() as browser:
        assert (await browser.get(asked.urls[0])).status_code == 404


async def test_declining_on_the_page_ends_the_waiting_call(personal_app: PersonalApp, asked: Asked) -> None:
    """N03: in a tab without a history; what is asked later is asked anew."""
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.decline)) as client,
    ):
        result = await client.call_tool(LIST, {})
        nothing_left = not personal_app.sandbox.state.app_passwords
        await client.call_tool(LIST, {})

    assert nothing_left
    assert len(set(asked.urls)) == 2
    assert text(result) == DECLINED
    assert "Nothing was connected" in alice.seen[-1].text


async def test_accepting_without_opening_the_link_gives_no_access(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await personal_app.stop()
    await personal_app.start(hold_seconds=0)
    async with personal_app.client(elicitation_callback=asked.by(None)) as client:
        result = await client.call_tool(LIST, {})

    assert result.is_error
    assert len(asked.urls) == 1
    assert OPENS in text(result)


async def test_a_missing_permission_is_asked_for_without_another_sign_in(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(None)) as client,
    ):
        asked.go = partial(alice.allow, only=["notes:read"])
        first = await client.call_tool(LIST, {})
        pages = len(alice.seen)
        asked.go = partial(alice.allow, only=["notes:write"])
        second = await client.call_tool("nc_notes_create_note", {"title": "Plans"})

    assert "Shopping list" in titles(first)
    assert not second.is_error
    assert not any("/login/" in page.url for page in alice.seen[pages:])


async def test_after_a_disconnect_the_next_call_asks_again(personal_app: PersonalApp, asked: Asked) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await client.call_tool(LIST, {})
        ended = await client.call_tool("revoke_nextcloud_access", {})
        result = await client.call_tool(LIST, {})

    assert "the access was deleted at Nextcloud too" in text(ended)
    assert len(asked.urls) == 2
    assert "Shopping list" in titles(result)


async def test_another_account_than_the_first_is_refused_and_its_access_deleted(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person("alice") as alice,
        personal_app.person("bob") as bob,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await client.call_tool(LIST, {})
        await client.call_tool("revoke_nextcloud_access", {})
        asked.go = bob.allow
        result = await client.call_tool(LIST, {})

    assert result.is_error
    assert "'alice' is connected here" in text(result)
    await until(lambda: not personal_app.sandbox.state.app_passwords)


async def test_an_explicit_request_waits_for_the_consent_request_in_a_2025_client(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(mode="legacy", elicitation_callback=asked.by(alice.allow)) as client,
    ):
        result = await client.call_tool("request_nextcloud_access", {})

    assert result.structured_content["connected"] is True
    assert result.structured_content["account"] == "alice"


async def test_an_app_password_that_nextcloud_refuses_is_asked_for_again_after_one_request(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await client.call_tool(LIST, {})
        personal_app.sandbox.state.app_passwords.clear()
        before = len(personal_app.sandbox.requests.records)
        asked.go = None
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(partial(client.call_tool, LIST, {}))
            await until(lambda: len(asked.urls) == 4)
            await alice.allow(asked.urls[-1])

    refused = [one for one in list(personal_app.sandbox.requests.records)[before:] if one.status == 401]
    assert 1 <= len(refused) <= 3


async def test_a_2026_client_that_asks_again_and_again_is_told_in_words_before_it_gives_up(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await personal_app.stop()
    await personal_app.start(hold_seconds=0)

    async with personal_app.client(elicitation_callback=asked) as client:
        result = await client.call_tool(LIST, {})

    assert result.is_error
    assert isinstance(result.content[0], TextContent)
    assert asked.urls[0] in result.content[0].text
    assert len(set(asked.urls)) == 1
