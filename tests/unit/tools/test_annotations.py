"""What the annotations of a tool promise, by the one rule that docs/tools.md states."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools.registry import TOOLSETS, load
from nextcloud_mcp_server.tools.toolset import ToolSpec
from tests.dav_fakes import call
from tests.every_tool import SPECS, tampered, usual

EVERY: dict[str, ToolSpec] = {spec.name: spec for name in TOOLSETS for spec in load(name).tools}
#: What a call of these adds, a second call adds once more.
ADDING = frozenset(
    {
        "nc_notes_create_note",
        "nc_notes_append_content",
        "nc_notes_edit_note",
        "nc_files_edit_file",
        "nc_files_add_comment",
        "nc_files_upload_file",
        "nc_sharing_share_item",
        "nc_sharing_create_link",
        "nc_calendar_create_event",
        "nc_tasks_create_task",
        "nc_contacts_create_contact",
        "nc_deck_create_card",
        "nc_deck_update_card",
        "nc_tables_create_row",
        "nc_talk_send_message",
        "nc_cookbook_save_recipe",
        "nc_collectives_create_page",
    }
)
#: Toolsets whose changes Nextcloud tells other users of, and the tools of others that speak to users.
OUTWARD_TOOLSETS = frozenset({"sharing", "calendar", "deck", "talk", "status", "collectives"})
SPEAKING = frozenset({"nc_files_add_comment"})


def test_all_is_idempotent_but_what_adds_something_each_time() -> None:
    assert {name for name, spec in EVERY.items() if not spec.idempotent} == ADDING


def test_deleting_and_what_an_etag_guards_is_idempotent() -> None:
    for spec in EVERY.values():
        guarded = "etag" in spec.arguments.schema.get("required", [])
        if "_delete_" in spec.name or guarded:
            assert spec.idempotent or spec.name == "nc_deck_update_card", spec.name


def test_what_reaches_other_people_is_open_world_and_nothing_else_is() -> None:
    reaching = {
        name for name, spec in EVERY.items() if spec.toolset in OUTWARD_TOOLSETS and not spec.read_only
    }

    assert {name for name, spec in EVERY.items() if spec.open_world} == reaching | SPEAKING


def test_a_tool_that_addresses_people_is_open_world() -> None:
    for spec in EVERY.values():
        addressing = {"attendees", "assignees", "comment", "person", "group", "conversation"}
        if addressing & set(spec.arguments.schema["properties"]) and not spec.read_only:
            assert spec.open_world, spec.name


def test_every_tool_has_a_title_of_its_own() -> None:
    titles = [spec.title for spec in EVERY.values()]

    assert all(titles)
    assert max(titles.count(title) for title in titles) <= 2


Fresh = Callable[[Account], Awaitable[dict[str, Any]]]


async def _of_event(nc: Account) -> dict[str, Any]:
    return {"etag": (await call(nc, "nc_calendar_get_event", event_id="personal/standup.ics")).etag}


async def _of_task(nc: Account) -> dict[str, Any]:
    return {"etag": (await call(nc, "nc_tasks_list_tasks", task_id="tasks/boxes.ics")).tasks[0].etag}


async def _of_contact(nc: Account) -> dict[str, Any]:
    return {
        "etag": (await call(nc, "nc_contacts_get_contact", book="contacts", contact_id="contact-1.vcf")).etag
    }


async def _of_recipe(nc: Account) -> dict[str, Any]:
    recipe = (await call(nc, "nc_cookbook_list_recipes")).recipes[0].id
    return {"etag": (await call(nc, "nc_cookbook_get_recipe", recipe_id=recipe)).etag}


async def _of_share(nc: Account) -> dict[str, Any]:
    made = await call(nc, "nc_sharing_create_link", path="/Documents/Welcome.md")
    return {"share_id": made.share_id, "etag": made.etag}


async def _of_trash(nc: Account) -> dict[str, Any]:
    return {"trash_id": (await call(nc, "nc_files_delete_item", path="/Documents/Welcome.md")).trash_id}


async def _of_version(nc: Account) -> dict[str, Any]:
    path = "/Documents/Welcome.md"
    before = await call(nc, "nc_files_get_info", path=path)
    await call(nc, "nc_files_write_file", path=path, content="new", etag=before.etag)
    listed = await call(nc, "nc_files_list_versions", path=path)
    return {"etag": listed.etag, "version_id": listed.items[-1].version_id}


async def _of_message(nc: Account) -> dict[str, Any]:
    listed = await call(nc, "nc_talk_list_messages", conversation="officemove")
    return {"message_id": next(one.id for one in listed.items if not one.system), "emoji": "👍"}


#: What is read before, where the usual arguments are out of date.
FRESH: dict[str, Fresh] = {
    "nc_calendar_update_event": _of_event,
    "nc_calendar_delete_event": _of_event,
    "nc_tasks_update_task": _of_task,
    "nc_tasks_delete_task": _of_task,
    "nc_contacts_update_contact": _of_contact,
    "nc_contacts_delete_contact": _of_contact,
    "nc_cookbook_delete_recipe": _of_recipe,
    "nc_sharing_update_share": _of_share,
    "nc_sharing_delete_share": _of_share,
    "nc_files_restore_trash": _of_trash,
    "nc_files_restore_version": _of_version,
    "nc_talk_set_reaction": _of_message,
}


@pytest.mark.parametrize(
    "tool",
    [name for name, spec in SPECS.items() if spec.idempotent and not spec.read_only and not spec.local],
)
async def test_an_idempotent_change_is_refused_or_answered_alike_the_second_time(tool: str) -> None:
    alice = tampered(Sandbox.demo())[1]
    arguments = (await usual(alice))[tool]
    if tool in FRESH:
        arguments = arguments | await FRESH[tool](alice)

    first = await call(alice, tool, **arguments)
    try:
        second = await call(alice, tool, **arguments)
    except NextcloudMcpError:
        return

    # A time of change and what was before may differ; `created` says that there is nothing new.
    passing = {"etag", "modified_at", "before", "created", "note"}
    assert second.model_dump(exclude=passing) == first.model_dump(exclude=passing)


async def test_a_comment_on_a_card_is_not_guarded_by_its_etag() -> None:
    alice = tampered(Sandbox.demo())[1]
    usually = (await usual(alice))["nc_deck_update_card"]
    arguments = {name: value for name, value in usually.items() if name != "title"} | {"comment": "Again"}

    for _ in range(2):
        await call(alice, "nc_deck_update_card", **arguments)

    place = {name: arguments[name] for name in ("board_id", "stack_id", "card_id")}
    said = (await call(alice, "nc_deck_get_card", **place)).comments
    assert [one.text for one in said].count("Again") == 2
