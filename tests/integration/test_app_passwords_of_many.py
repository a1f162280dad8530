"""Mode `oidc` where app passwords open Nextcloud, which people confirm in login flows."""

from typing import Any

import httpx2
from mcp_types import CallToolResult

from nextcloud_mcp_server.sandbox.person import Person
from tests.integration.crowd import Crowd, disconnect
from tests.integration.world import Asked, until

LIST = "nc_notes_list_notes"
INSTEAD: dict[str, Any] = {
    "grant_provider": "login_flow",
    "account_mapping": "preferred_username",
    "nextcloud_oauth_client_id": None,
    "nextcloud_oauth_client_secret": None,
}
URL_MODE: dict[str, Any] = {"elicitation": {"url": {}}}


def titles(result: CallToolResult) -> set[str]:
    assert not result.is_error, result.content
    content: dict[str, Any] = result.structured_content or {}
    return {note["title"] for note in content["notes"]}


async def link_of(crowd: Crowd, name: str) -> str:
    async with crowd.raw(crowd.token(name), capabilities=URL_MODE) as client:
        answer = await client.request("tools/call", {"name": LIST, "arguments": {}})
    return answer["error"]["data"]["elicitations"][0]["url"]


async def test_two_people_confirm_in_login_flows_and_read_their_own_notes(crowd: Crowd) -> None:
    await crowd.restart(**INSTEAD)
    async with crowd.person("alice") as alice, crowd.person("bob") as bob:
        alices, bobs = Asked(crowd).by(alice.consent), Asked(crowd).by(bob.consent)
        async with (
            crowd.client(crowd.token("alice"), elicitation_callback=alices) as hers,
            crowd.client(crowd.token("bob"), elicitation_callback=bobs) as his,
        ):
            her_notes = titles(await hers.call_tool(LIST, {}))
            his_notes = titles(await his.call_tool(LIST, {}))
            again = titles(await hers.call_tool(LIST, {}))

    assert her_notes == again
    assert her_notes.isdisjoint(his_notes)
    assert len(set(alices.urls)) == len(set(bobs.urls)) == 1
    assert any("Waiting for you to confirm" in page.title for page in alice.seen)
    assert "alice" in alice.seen[-1].text
    assert len(crowd.sandbox.state.app_passwords) == 2


async def test_a_disconnect_deletes_the_app_password(crowd: Crowd) -> None:
    await crowd.restart(**INSTEAD)
    async with crowd.person("alice") as alice:
        asked = Asked(crowd).by(alice.consent)
        async with crowd.client(crowd.token("alice"), elicitation_callback=asked) as client:
            titles(await client.call_tool(LIST, {}))
            at_nextcloud = await disconnect(crowd, "alice")

    assert at_nextcloud
    assert crowd.sandbox.state.app_passwords == {}


async def test_who_confirms_as_somebody_else_is_told_so_and_can_try_again(crowd: Crowd) -> None:
    await crowd.restart(**INSTEAD)
    async with httpx2.AsyncClient(timeout=45) as browser:
        link = await link_of(crowd, "alice")
        # Alice sits at a browser in which bob is signed in to Nextcloud.
        await browser.post(f"{crowd.nextcloud_url}/login", data={"user": "bob", "password": "bob"})
        alice = Person("alice", "alice", browser=browser)
        refused = await alice.consent(link)
        await until(lambda: not crowd.sandbox.state.app_passwords)
        await browser.post(f"{crowd.nextcloud_url}/logout")
        done = await alice.consent(link)
        async with crowd.client(crowd.token("alice")) as client:
            notes = titles(await client.call_tool(LIST, {}))

    assert refused.status == 403
    assert "another Nextcloud account" in refused.text
    assert "Connected as alice" in done.text
    assert notes


async def test_a_flow_that_was_begun_before_a_restart_is_taken_to_its_end(crowd: Crowd) -> None:
    await crowd.restart(**INSTEAD)
    async with crowd.person("alice") as alice:
        await alice.consent(await link_of(crowd, "alice"), until=f"{crowd.url}/oauth/waiting")
    await crowd.stop()
    state = crowd.sandbox.state
    (flow,) = state.login_flows
    flow.granted = state.new_app_password(state.users["alice"], login_name="alice")
    # She has closed the page; the call waits for the server to notice what she did at Nextcloud.
    await crowd.start()
    async with crowd.client(crowd.token("alice"), elicitation_callback=Asked(crowd)) as client:
        notes = titles(await client.call_tool(LIST, {}))

    assert notes
    assert len(state.app_passwords) == 1
