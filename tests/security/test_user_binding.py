"""A consent request belongs to the user who was asked: no one else can finish, follow or replay it."""

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import anyio
import httpx2
import mcp.server.request_state
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult

from nextcloud_mcp_server.auth.consent.policy import LIFETIME
from nextcloud_mcp_server.auth.principal import personal
from nextcloud_mcp_server.storage.crypto import new_key
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.integration.personal_app import Asked, PersonalApp, until

LIST = "nc_notes_list_notes"
COMPLETE = "notifications/elicitation/complete"


async def unused(context: object, params: ElicitRequestParams) -> ElicitResult:
    raise NotImplementedError


async def other_users_consent_request(personal_app: PersonalApp) -> str:
    """A consent request of another user in the same database."""
    assert personal_app.parts is not None
    services = await personal_app.parts.services.get()
    consent_request, _ = await services.database.elicitations.open(
        principal=personal("https://elsewhere.example.org"),
        client_id="local",
        client_name="Claude Code",
        kind="page",
        scopes=frozenset({"notes:read"}),
        ttl=timedelta(minutes=10),
        new_url=lambda elicitation_id: elicitation_id,
    )
    return consent_request.id


async def test_another_users_consent_request_looks_like_none_on_the_wire_and_on_every_page(
    personal_app: PersonalApp,
) -> None:
    foreign, unknown = await other_users_consent_request(personal_app), str(uuid4())
    answers: dict[str, list[Any]] = {}
    async with (
        personal_app.raw(draft=True) as client,
        httpx2.AsyncClient(base_url=personal_app.url) as browser,
    ):
        for elicitation_id in (foreign, unknown):
            tracked = await client.request("elicitation/track", {"elicitationId": elicitation_id})
            pages = [
                await browser.get(path, params={"elicitationId": elicitation_id})
                for path in ("/oauth/provision", "/oauth/waiting")
            ]
            answers[elicitation_id] = [tracked["error"], *[(page.status_code, page.text) for page in pages]]

    assert answers[foreign] == answers[unknown]
    assert answers[foreign][0] == {"code": -32602, "message": "No such elicitation"}
    assert answers[foreign][1][0] == 404


async def test_accepting_without_opening_the_link_gives_nothing(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await personal_app.stop()
    await personal_app.start(hold_seconds=0)
    async with personal_app.client(elicitation_callback=asked.by(None)) as client:
        result = await client.call_tool(LIST, {})
        status = await client.call_tool("check_provisioning_status", {})

    assert result.is_error
    assert status.structured_content is not None
    assert status.structured_content["connected"] is False
    assert personal_app.sandbox.state.login_flows == []


async def test_access_that_another_user_gives_is_deleted_at_nextcloud(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person("alice") as alice,
        personal_app.person("bob") as bob,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await client.call_tool(LIST, {})
        personal_app.sandbox.state.app_passwords.clear()
        asked.go = bob.allow
        await client.call_tool(LIST, {})
        result = await client.call_tool(LIST, {})

    assert result.is_error
    await until(lambda: not personal_app.sandbox.state.app_passwords)


Change = Callable[[str], str]

TAMPERED: dict[str, Change] = {
    "first": lambda state: ("A" if state[0] != "A" else "B") + state[1:],
    "middle": lambda state: state[:40] + ("A" if state[40] != "A" else "B") + state[41:],
    "cut": lambda state: state[:-4],
    "empty": lambda _: "",
    "plain": lambda _: '{"e":"550e8400-e29b-41d4-a716-446655440000","r":1}',
}


async def begin(client: Client, arguments: dict[str, Any]) -> InputRequiredResult:
    asked_for = await client.session.call_tool(LIST, arguments, allow_input_required=True)
    assert isinstance(asked_for, InputRequiredResult)
    return asked_for


async def retry(client: Client, name: str, arguments: dict[str, Any], state: str) -> int | str:
    """Bring back a state with a decline, which would end the consent request; tell how it was refused."""
    try:
        result = await client.session.call_tool(
            name,
            arguments,
            input_responses={"provision": ElicitResult(action="decline")},
            request_state=state,
            allow_input_required=True,
        )
    except MCPError as error:
        return error.error.code
    return "answered" if isinstance(result, CallToolResult) else "asked"


async def consent_state(personal_app: PersonalApp, url: str) -> ElicitationState:
    assert personal_app.parts is not None
    services = await personal_app.parts.services.get()
    consent_request = await services.database.elicitations.find(url.partition("elicitationId=")[2])
    assert consent_request is not None
    return consent_request.state


def url_of(asked_for: InputRequiredResult) -> str:
    assert asked_for.input_requests is not None
    return str(asked_for.input_requests["provision"].params.url)  # type: ignore[union-attr]


async def test_request_state_that_was_changed_or_is_for_another_call_is_refused_without_effect(
    personal_app: PersonalApp,
) -> None:
    async with personal_app.client(elicitation_callback=unused) as client:
        asked_for = await begin(client, {})
        state = asked_for.request_state or ""
        answers = {name: await retry(client, LIST, {}, change(state)) for name, change in TAMPERED.items()}
        answers["arguments"] = await retry(client, LIST, {"limit": 3}, state)
        answers["tool"] = await retry(client, "nc_notes_search_notes", {"query": "x"}, state)
        untouched = await consent_state(personal_app, url_of(asked_for))
        answers["right"] = await retry(client, LIST, {}, state)

    assert answers.pop("right") == "answered"
    assert set(answers.values()) == {-32602}
    assert untouched is ElicitationState.PENDING


async def test_request_state_of_a_server_with_another_key_is_refused_without_effect(
    personal_app: PersonalApp,
) -> None:
    async with personal_app.client(elicitation_callback=unused) as client:
        asked_for = await begin(client, {})
    await personal_app.stop()
    await personal_app.start(token_encryption_keys=(new_key(),))

    async with personal_app.client(elicitation_callback=unused) as client:
        answer = await retry(client, LIST, {}, asked_for.request_state or "")

    assert answer == -32602


async def test_request_state_is_good_for_as_long_as_its_consent_request_and_no_longer(
    personal_app: PersonalApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 0.0
    clock = SimpleNamespace(time=lambda: time.time() + ahead)
    monkeypatch.setattr(mcp.server.request_state, "time", clock)
    async with personal_app.client(elicitation_callback=unused) as client:
        asked_for = await begin(client, {})
        state = asked_for.request_state or ""
        ahead = LIFETIME.total_seconds() + 1
        late = await retry(client, LIST, {}, state)
        untouched = await consent_state(personal_app, url_of(asked_for))
        ahead = LIFETIME.total_seconds() - 60
        in_time = await retry(client, LIST, {}, state)

    assert (late, in_time) == (-32602, "answered")
    assert untouched is ElicitationState.PENDING


async def test_request_state_replayed_after_the_end_changes_nothing(personal_app: PersonalApp) -> None:
    async with personal_app.person() as alice, personal_app.client(elicitation_callback=unused) as client:
        asked_for = await begin(client, {})
        await alice.allow(url_of(asked_for))
        again = [await retry(client, LIST, {}, asked_for.request_state or "") for _ in range(2)]
        after = await consent_state(personal_app, url_of(asked_for))
        result = await client.call_tool(LIST, {})

    assert again == ["answered", "answered"]
    assert after is ElicitationState.COMPLETE
    assert not result.is_error
    assert len(personal_app.sandbox.state.app_passwords) == 1


async def test_only_the_session_that_was_told_hears_how_it_ended(personal_app: PersonalApp) -> None:
    heard: dict[str, list[str]] = {"told": [], "other": []}

    async def listen(name: str, message: object) -> None:
        heard[name].append(getattr(message, "method", ""))

    legacy = partial(personal_app.client, mode="legacy", elicitation_callback=unused)
    async with (
        personal_app.person() as alice,
        legacy(message_handler=partial(listen, "told")) as told,
        legacy(message_handler=partial(listen, "other")) as other,
    ):
        await other.call_tool("check_provisioning_status", {})
        with pytest.raises(MCPError) as caught:
            await told.call_tool(LIST, {})
        url = UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0].url
        await alice.allow(url)
        await until(lambda: COMPLETE in heard["told"])
        await other.call_tool("check_provisioning_status", {})

    assert COMPLETE not in heard["other"]


async def test_a_session_that_left_does_not_break_the_consent_request(personal_app: PersonalApp) -> None:
    async with personal_app.person() as alice:
        async with personal_app.client(mode="legacy", elicitation_callback=unused) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool(LIST, {})
        url = UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0].url
        page = await alice.allow(url)

    assert "Connected" in page.text


async def test_sessions_that_use_the_same_request_ids_get_their_own_answers(
    personal_app: PersonalApp,
) -> None:
    got: dict[int, str] = {}

    async def ask(number: int) -> None:
        async with personal_app.raw() as client:
            answer = await client.request("tools/call", {"name": f"no-tool-{number}-here", "arguments": {}})
            got[number] = str(answer)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(ask, number)

    assert len(got) == 20
    assert all(f"no-tool-{number}-here" in answer for number, answer in got.items())


async def test_a_session_id_that_was_not_given_here_opens_nothing(personal_app: PersonalApp) -> None:
    headers = {
        "Authorization": f"Bearer {personal_app.secret}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
        "Mcp-Session-Id": uuid4().hex,
    }
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    async with httpx2.AsyncClient(headers=headers) as http:
        posted = await http.post(f"{personal_app.url}/mcp", json=message)
        listened = await http.get(f"{personal_app.url}/mcp", headers={"Last-Event-ID": "1"})
        deleted = await http.delete(f"{personal_app.url}/mcp")

    assert [answer.status_code for answer in (posted, listened, deleted)] == [404, 404, 404]
