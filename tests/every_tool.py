"""Every tool that sends requests, with valid arguments, over a network that can be manipulated."""

import base64
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools.registry import CONNECTION, TOOLSETS, load
from nextcloud_mcp_server.tools.toolset import ToolSpec
from tests.dav_fakes import call

SPECS: Final[dict[str, ToolSpec]] = {
    spec.name: spec for name in TOOLSETS if name != CONNECTION for spec in load(name).tools
}
#: An image of one pixel.
PNG: Final = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
#: The arguments for the tools of newer apps, beside their tests.
EXAMPLES: Final = [
    import_module(f"tests.unit.apps.{path.parent.name}.examples")
    for path in sorted(Path(__file__).parent.glob("unit/apps/*/examples.py"))
]
#: Changes a response: returns it, another one, or an exception in place of it.
Change = Callable[[httpx2.Request, httpx2.Response], httpx2.Response | Exception]


class Tampered(httpx2.AsyncBaseTransport):
    """Passes requests on to a sandbox, and its responses through `change`; records the responses."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.answers: list[httpx2.Response] = []
        self.change: Change | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await httpx2.ASGITransport(app=self.sandbox.app).handle_async_request(request)
        body = await answer.aread()
        headers = [(name, value) for name, value in answer.headers.items() if name != "content-length"]
        whole = httpx2.Response(answer.status_code, headers=headers, content=body, request=request)
        self.answers.append(whole)
        told = self.change(request, whole) if self.change else whole
        if isinstance(told, Exception):
            raise told
        # A new stream: a transport returns unread responses.
        kept = [(name, value) for name, value in told.headers.items() if name != "content-length"]
        return httpx2.Response(told.status_code, headers=kept, stream=httpx2.ByteStream(told.content))


def tampered(sandbox: Sandbox) -> tuple[Tampered, Account]:
    """Return alice's account in a sandbox, over a network that can be manipulated."""
    network = Tampered(sandbox)
    return network, account_over(network)


def account_over(network: Tampered) -> Account:
    """Return alice's account in the sandbox behind a network."""
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=network)
    nextcloud = Nextcloud(NextcloudUrl.parse("http://localhost"), pool)
    return nextcloud.account(BasicCredential("alice", SecretStr("alice")), uid="alice")


async def usual(nc: Account) -> dict[str, dict[str, Any]]:
    """Return valid arguments for each tool; some etags for changes are out of date."""
    tree, day, days = "/Documents/Welcome.md", "2026-12-01", {"start": "2026-11-20", "end": "2026-12-20"}
    note = (await call(nc, "nc_notes_list_notes")).notes[0].id
    board = (await call(nc, "nc_deck_list_boards")).boards[0].id
    card = (await call(nc, "nc_deck_get_board", board_id=board)).cards[0]
    place = {"board_id": board, "stack_id": card.stack_id, "card_id": card.id}
    table = (await call(nc, "nc_tables_list_tables")).tables[0].id
    row = (await call(nc, "nc_tables_get_table", table_id=table)).rows[0]
    recipe = (await call(nc, "nc_cookbook_list_recipes")).recipes[0].id
    found = (await call(nc, "search", query="kestrel")).results[0].id
    page = (await call(nc, "nc_collectives_list_pages", collective_id=1)).pages[-1].id
    event, task = {"event_id": "personal/standup.ics"}, {"task_id": "tasks/boxes.ics"}
    person = {"book": "contacts", "contact_id": "contact-1.vcf"}
    talk, form, mail = {"conversation": "officemove"}, {"form_id": 1}, {"mailbox_id": 1}
    given: dict[str, dict[str, Any]] = {
        "nc_notes_search_notes": {"query": "milk"},
        "nc_notes_get_note": {"note_id": note},
        "nc_notes_create_note": {"title": "x"},
        "nc_notes_update_note": {"note_id": note, "title": "x"},
        "nc_notes_append_content": {"note_id": note, "content": "x"},
        "nc_notes_edit_note": {"note_id": note, "old_text": "e", "new_text": "x"},
        "nc_notes_delete_note": {"note_id": note},
        "nc_notes_get_attachment": {"note_id": note, "path": "x.png"},
        "nc_files_search_items": {"name": "e"},
        "nc_files_write_file": {"path": "/new.txt", "content": "x"},
        "nc_files_edit_file": {"path": tree, "old_text": "e", "new_text": "x", "replace_all": True},
        "nc_files_create_folder": {"path": "/a/b"},
        "nc_files_move_item": {"source": tree, "destination": "/x.md"},
        "nc_files_copy_item": {"source": tree, "destination": "/x.md"},
        "nc_files_restore_trash": {"trash_id": "x.d1"},
        "nc_files_restore_version": {"path": tree, "version_id": "1", "etag": "e"},
        "nc_files_list_tags": {},
        "nc_files_set_labels": {"path": tree, "favorite": True},
        "nc_files_add_comment": {"path": tree, "text": "x"},
        "nc_files_upload_file": {"path": "/new.txt", "content": "x"},
        "nc_files_download_file": {"path": tree, "local_file": "x"},
        "nc_sharing_list_shares": {"received": True},
        "nc_sharing_share_item": {"path": tree, "person": "bob"},
        "nc_sharing_create_link": {"path": tree},
        "nc_sharing_update_share": {"share_id": "1", "etag": "e", "note": "x"},
        "nc_sharing_delete_share": {"share_id": "1", "etag": "e"},
        "nc_calendar_list_events": days,
        "nc_calendar_find_free_time": days,
        "nc_calendar_get_event": event,
        "nc_calendar_create_event": {"title": "x", "start": day},
        "nc_calendar_update_event": {**event, "etag": "e", "title": "x"},
        "nc_calendar_delete_event": {**event, "etag": "e"},
        "nc_tasks_create_task": {"title": "x", "due": day},
        "nc_tasks_update_task": {**task, "etag": "e", "title": "x"},
        "nc_tasks_delete_task": {**task, "etag": "e"},
        "nc_contacts_search_contacts": {"book": "contacts"},
        "nc_contacts_get_contact": person,
        "nc_contacts_create_contact": {"name": "x"},
        "nc_contacts_update_contact": {**person, "etag": "e", "name": "x"},
        "nc_contacts_delete_contact": {**person, "etag": "e"},
        "nc_deck_get_board": {"board_id": board},
        "nc_deck_get_card": place,
        "nc_deck_create_card": {"board_id": board, "stack_id": card.stack_id, "title": "x"},
        "nc_deck_update_card": {**place, "etag": card.etag, "title": "x"},
        "nc_deck_move_card": {**place, "etag": card.etag, "to_stack_id": card.stack_id},
        "nc_deck_delete_card": {**place, "etag": card.etag},
        "nc_tables_get_table": {"table_id": table},
        "nc_tables_create_row": {"table_id": table, "values": {"Item": "x"}},
        "nc_tables_update_row": {"row_id": row.id, "values": {"Item": "x"}, "etag": row.etag},
        "nc_tables_delete_row": {"row_id": row.id, "etag": row.etag},
        "nc_talk_list_messages": talk,
        "nc_talk_send_message": {**talk, "message": "x"},
        "nc_talk_set_reaction": {**talk, "message_id": 1, "emoji": "x"},
        "nc_status_get_status": {"person": "bob"},
        "nc_status_set_status": {"status": "away"},
        "nc_search_find_items": {"query": "e"},
        "search": {"query": "e"},
        "fetch": {"id": found},
        "nc_cookbook_get_recipe": {"recipe_id": recipe},
        "nc_cookbook_save_recipe": {"name": "x"},
        "nc_cookbook_delete_recipe": {"recipe_id": recipe, "etag": "e"},
        "nc_collectives_list_pages": {"collective_id": 1},
        "nc_collectives_get_page": {"collective_id": 1, "page_id": page},
        "nc_collectives_create_page": {"collective_id": 1, "title": "x"},
        "nc_forms_get_form": form,
        "nc_news_mark_articles": {"article_ids": [3], "read": True},
        "nc_mail_list_messages": mail,
        "nc_mail_get_message": {"message_id": 2},
    }
    needing_path = {
        name: {"path": tree} for name, spec in SPECS.items() if "path" in spec.arguments.schema["properties"]
    }
    for examples in EXAMPLES:
        given |= await examples.usual(nc)
    return {name: given.get(name, needing_path.get(name, {})) for name in SPECS}


async def working(nc: Account, tool: str, every: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return arguments with which a tool succeeds; creates what that needs."""
    given, path = every[tool], {"path": "/Documents/Welcome.md"}
    more: dict[str, Any] = {}
    match tool:
        case "nc_files_list_folder":
            more = {"path": "/"}
        case "nc_notes_edit_note":
            more = {"old_text": (await call(nc, "nc_notes_get_note", note_id=given["note_id"])).content}
        case "nc_notes_get_attachment":
            more = {"path": f".attachments.{given['note_id']}/x.png"}
            await nc.files.create_folder(f"/Notes/.attachments.{given['note_id']}")
            await nc.files.write(f"/Notes/{more['path']}", PNG)
        case "nc_files_restore_trash":
            more = {"trash_id": (await call(nc, "nc_files_delete_item", **path)).trash_id}
        case "nc_files_restore_version":
            etag = (await call(nc, "nc_files_get_info", **path)).etag
            etag = (await call(nc, "nc_files_write_file", **path, content="x", etag=etag)).etag
            versions = await call(nc, "nc_files_list_versions", **path)
            more = {"version_id": versions.items[-1].version_id, "etag": etag}
        case "nc_sharing_update_share" | "nc_sharing_delete_share":
            made = await call(nc, "nc_sharing_create_link", **path)
            more = {"share_id": made.share_id, "etag": made.etag}
        case "nc_talk_set_reaction":
            newest = (await call(nc, "nc_talk_list_messages", conversation=given["conversation"])).items[0]
            more = {"message_id": newest.id, "emoji": "\N{THUMBS UP SIGN}"}
        case _ if given.get("etag") == "e":
            more = {"etag": await _etag_of(nc, given)}
        case _:
            pass
    return {**given, **more}


async def _etag_of(nc: Account, given: dict[str, Any]) -> str:
    """Read the etag of the object that the arguments of a change name."""
    if "task_id" in given:
        tasks = (await call(nc, "nc_tasks_list_tasks")).tasks
        return str(next(task.etag for task in tasks if task.task_id == given["task_id"]))
    readings = {
        "event_id": "nc_calendar_get_event",
        "contact_id": "nc_contacts_get_contact",
        "recipe_id": "nc_cookbook_get_recipe",
    }
    name = next(name for name in readings if name in given)
    named = {key: given[key] for key in ("book", name) if key in given}
    return str((await call(nc, readings[name], **named)).etag)
