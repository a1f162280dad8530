"""Mode `oidc` where app passwords open Nextcloud, which users confirm in login flows."""

from typing import Any

import httpx2
from mcp_types import CallToolResult

from nextcloud_mcp_server.sandbox.person import Person
from tests.integration.oidc_app import OidcApp, disconnect
from tests.integration.personal_app import Asked, until

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


async def link_of(oidc_app: OidcApp, name: str) -> str:
    async with oidc_app.raw(oidc_app.token(name), capabilities=URL_MODE) as client:
        answer = await client.request("tools/call", {"name": LIST, "arguments": {}})
    return answer["error"]["data"]["elicitations"][0]["url"]


async def test_two_people_confirm_in_login_flows_and_read_their_own_notes(oidc_app: OidcApp) -> None:
    await oidc_app.restart(**INSTEAD)
    async with oidc_app.person("alice") as alice, oidc_app.person("bob") as bob:
        alices, bobs = Asked(oidc_app).by(alice.consent), Asked(oidc_app).by(bob.consent)
        async with (
            oidc_app.client(oidc_app.token("alice"), elicitation_callback=alices) as hers,
            oidc_app.client(oidc_app.token("bob"), elicitation_callback=bobs) as his,
        ):
            her_notes = titles(await hers.call_tool(LIST, {}))
            his_notes = titles(await his.call_tool(LIST, {}))
            again = titles(await hers.call_tool(LIST, {}))

    assert her_notes == again
    assert her_notes.isdisjoint(his_notes)
    assert len(set(alices.urls)) == len(set(bobs.urls)) == 1
    assert any("Waiting for you to confirm" in page.title for page in alice.seen)
    assert "Alice Example" in alice.seen[-1].text
    assert len(oidc_app.sandbox.state.app_passwords) == 2


async def test_a_disconnect_deletes_the_app_password(oidc_app: OidcApp) -> None:
    await oidc_app.restart(**INSTEAD)
    async with oidc_app.person("alice") as alice:
        asked = Asked(oidc_app).by(alice.consent)
        async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=asked) as client:
            titles(await client.call_tool(LIST, {}))
            at_nextcloud = await disconnect(oidc_app, "alice")

    assert at_nextcloud
    assert oidc_app.sandbox.state.app_passwords == {}


async def test_a_user_that_confirms_with_another_account_is_told_so_and_can_try_again(
    oidc_app: OidcApp,
) -> None:
    await oidc_app.restart(**INSTEAD)
    async with httpx2.AsyncClient(timeout=60) as browser:
        link = await link_of(oidc_app, "alice")
        # Alice sits at a browser in which bob is signed in to Nextcloud.
        await browser.post(f"{oidc_app.nextcloud_url}/login", data={"user": "bob", "password": "bob"})
        alice = Person("alice", "alice", browser=browser)
        refused = await alice.consent(link)
        await until(lambda: not oidc_app.sandbox.state.app_passwords)
        await browser.post(f"{oidc_app.nextcloud_url}/logout")
        done = await alice.consent(link)
        async with oidc_app.client(oidc_app.token("alice")) as client:
            notes = titles(await client.call_tool(LIST, {}))

    assert refused.status == 403
    assert "another Nextcloud account" in refused.text
    assert "Connected as Alice" in done.text
    assert notes


async def test_a_flow_that_was_begun_before_a_restart_is_taken_to_its_end(oidc_app: OidcApp) -> None:
    await oidc_app.restart(**INSTEAD)
    async with oidc_app.person("alice") as alice:
        await alice.consent(await link_of(oidc_app, "alice"), until=f"{oidc_app.url}/oauth/waiting")
    await oidc_app.stop()
    state = oidc_app.sandbox.state
    (flow,) = state.login_flows
    flow.granted = state.new_app_password(state.users["alice"], login_name="alice")
    # She has closed the page; the call waits for the server to notice what she did at Nextcloud.
    await oidc_app.start()
    async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=Asked(oidc_app)) as client:
        notes = titles(await client.call_tool(LIST, {}))

    assert notes
    assert len(state.app_passwords) == 1
