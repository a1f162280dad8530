"""What each of two users sees of one server, whose Nextcloud has not the same apps for both."""

from typing import Any

import pytest
from mcp.client.client import Client
from mcp_types import ResourceTemplateReference

from nextcloud_mcp_server.sandbox.faults import FaultStatus
from tests.integration.oidc_app import OidcApp
from tests.integration.personal_app import PersonalApp, until
from tests.load_cluster import connect, move_in

NAMES = ("carol", "dave")
STATUS = "check_provisioning_status"
LIST = "nc_notes_list_notes"
TEMPLATE = "nc://notes/{id}"


async def seen(client: Client) -> dict[str, set[str]]:
    """List all that is offered of notes."""
    return {
        "tools": {one.name for one in (await client.list_tools()).tools if "_notes_" in one.name},
        "prompts": {one.name for one in (await client.list_prompts()).prompts} & {"tidy_note"},
        "templates": {one.uri_template for one in (await client.list_resource_templates()).resource_templates}
        & {TEMPLATE},
    }


async def people(oidc_app: OidcApp) -> None:
    """Let two users be connected; for one of them their Nextcloud has no notes."""
    for name in NAMES:
        move_in(oidc_app.sandbox, oidc_app.issuer, name)
    oidc_app.sandbox.state.users["dave"].denied_apps = frozenset({"notes"})
    assert oidc_app.parts is not None
    database = (await oidc_app.parts.services.get()).database
    await connect(NAMES, database, oidc_app.sandbox, oidc_app.issuer, oidc_app.nextcloud_url)


async def test_two_people_of_one_server_see_what_their_nextcloud_has_for_each(oidc_app: OidcApp) -> None:
    """B70."""
    await people(oidc_app)
    offered: dict[str, Any] = {}
    async with (
        oidc_app.client(oidc_app.token("carol")) as hers,
        oidc_app.client(oidc_app.token("dave")) as his,
    ):
        at_first = await seen(his)
        for name, client in (("carol", hers), ("dave", his)):
            await client.call_tool(STATUS, {})
            offered[name] = await seen(client)
        refused = await his.call_tool(LIST, {})
        completed = await his.complete(
            ResourceTemplateReference(uri=TEMPLATE), {"name": "id", "value": "Note"}
        )
        listed = await hers.call_tool(LIST, {})

    assert offered["carol"]["templates"]
    assert at_first == offered["dave"] == {"tools": set(), "prompts": set(), "templates": set()}
    assert refused.is_error
    assert getattr(refused.content[0], "text", "") == (
        "This Nextcloud does not have the app 'notes', or not for this person; its administrator can install it "
        "or allow it to them. Do not retry before that."
    )
    assert completed.completion.values == []
    assert not listed.is_error


async def test_a_call_that_finds_nothing_because_the_app_is_missing_says_so(oidc_app: OidcApp) -> None:
    await people(oidc_app)
    async with oidc_app.client(oidc_app.token("dave")) as his:
        refused = await his.call_tool("nc_notes_get_note", {"note_id": 99999})

    assert "does not have the app 'notes'" in getattr(refused.content[0], "text", "")


MENU = "core/navigation/apps"
SILENT = {"collectives", "mail", "news"}


async def operator(personal_app: PersonalApp, **overrides: object) -> None:
    """Let alice be connected, with these settings."""
    await personal_app.stop()
    await personal_app.start(nextcloud_username="alice", nextcloud_app_password="alice", **overrides)
    personal_app.sandbox.requests.clear()


async def apps_listed(client: Client) -> set[str]:
    """Name the apps, of those that say nothing of themselves, whose tools are listed."""
    tools = [one.name for one in (await client.list_tools()).tools]
    return {app for app in SILENT if any(name.startswith(f"nc_{app}_") for name in tools)}


def menus(personal_app: PersonalApp) -> list[int]:
    """List how the menu was answered each time."""
    return [one.status for one in personal_app.sandbox.requests.records if one.path.endswith(MENU)]


async def test_apps_that_say_nothing_of_themselves_are_looked_for_in_the_menu(
    personal_app: PersonalApp,
) -> None:
    heard: list[object] = []

    async def listen(message: object) -> None:
        heard.append(getattr(message, "method", None))

    await operator(personal_app, toolsets="all")
    alice = personal_app.sandbox.state.users["alice"]
    async with personal_app.client(mode="legacy", message_handler=listen) as client:
        with_all = await apps_listed(client)
        alice.denied_apps = frozenset({"news"})
        status = (await client.call_tool(STATUS, {})).structured_content
        await until(lambda: "notifications/tools/list_changed" in heard)
        without = await apps_listed(client)
        refused = await client.call_tool("nc_news_list_feeds", {})
        heard.clear()
        alice.denied_apps = frozenset({"mail"})
        again = (await client.call_tool(STATUS, {})).structured_content
        await until(lambda: "notifications/tools/list_changed" in heard)
        without_mail = await apps_listed(client)
        read = await client.call_tool("nc_news_list_feeds", {})

    assert with_all == SILENT
    assert without == SILENT - {"news"}
    assert SILENT & set(status["apps"]) == without
    assert "does not have the app 'news'" in getattr(refused.content[0], "text", "")
    assert without_mail == SILENT - {"mail"}
    assert SILENT & set(again["apps"]) == without_mail
    assert not read.is_error


async def test_the_menu_is_asked_for_beside_a_call_and_again_with_its_etag(personal_app: PersonalApp) -> None:
    await operator(personal_app, toolsets="news")
    personal_app.sandbox.state.users["alice"].denied_apps = frozenset({"news"})
    async with personal_app.client() as client:
        await client.call_tool("nc_news_list_feeds", {})
        await until(lambda: bool(menus(personal_app)))
        await client.call_tool(STATUS, {})
        listed = await apps_listed(client)

    assert listed == set()
    assert menus(personal_app) == [200, 304]


@pytest.mark.parametrize("status", [503, 429])
async def test_a_menu_that_is_not_answered_hides_nothing(
    personal_app: PersonalApp, status: FaultStatus
) -> None:
    await operator(personal_app, toolsets="notes,news")
    # The account is asked for first, then the capabilities.
    personal_app.sandbox.faults.status(status, area="ocs", after=2)
    async with personal_app.client() as client:
        answered = (await client.call_tool(STATUS, {})).structured_content
        listed = await apps_listed(client)

    assert menus(personal_app) == [status]
    assert "notes" in answered["apps"]
    assert listed == {"news"}


async def test_an_access_that_only_the_menu_refuses_is_used_on(personal_app: PersonalApp) -> None:
    """One route's refusal does not end an access that another route accepts."""
    await operator(personal_app, toolsets="notes,news")
    personal_app.sandbox.faults.status(401, area="ocs", after=2)
    async with personal_app.client() as client:
        first = await client.call_tool(LIST, {})
        await until(lambda: bool(menus(personal_app)))
        again = [await client.call_tool(LIST, {}) for _ in range(3)]

    assert not first.is_error
    assert set(menus(personal_app)) == {401}
    assert not any(answer.is_error for answer in again)


async def test_where_no_toolset_needs_it_the_menu_is_not_asked_for(personal_app: PersonalApp) -> None:
    await operator(personal_app)
    async with personal_app.client() as client:
        await client.call_tool(LIST, {})
        await client.call_tool(STATUS, {})
        await until(lambda: any("capabilities" in one.path for one in personal_app.sandbox.requests.records))

    assert menus(personal_app) == []
