"""What the users of a soak let their clients do: short pieces of work with the tools, each looked at by the ledger."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

#: A result's fields; None after an error that a fault explains.
Fields = dict[str, Any] | None


class Caller(Protocol):
    """A client that calls tools for one user."""

    async def call(self, tool: str, arguments: dict[str, Any], *, own: bool = True) -> Fields:
        """Call a tool; `own` says that the user's name must be in the answer."""
        ...

    async def ask(self, method: str, params: dict[str, Any]) -> None:
        """Send a request that is no call."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work: whose it is, and a number that no other piece has."""

    name: str
    number: int

    @property
    def text(self) -> str:
        """A text that names its user."""
        return f"Text {self.number} of {self.name}"


async def _notes(caller: Caller, task: Task) -> None:
    await caller.call("nc_notes_list_notes", {})
    made = await caller.call("nc_notes_create_note", {"title": task.text, "content": f"{task.text}\n"})
    if made is None:
        return
    note = {"note_id": made["id"]}
    more = await caller.call(
        "nc_notes_append_content", {**note, "content": f"more, of {task.name}"}, own=False
    )
    await caller.call("nc_notes_get_note", note)
    if more is not None:
        await caller.call("nc_notes_edit_note", {**note, "old_text": "more", "new_text": "less"}, own=False)
    await caller.call("nc_notes_delete_note", note, own=False)


async def _searches(caller: Caller, task: Task) -> None:
    await caller.call("nc_notes_search_notes", {"query": task.name}, own=False)
    await caller.call("nc_files_search_items", {"name": task.name}, own=False)
    await caller.call("search", {"query": task.name}, own=False)
    await caller.call("nc_search_find_items", {"query": task.name}, own=False)


async def _files(caller: Caller, task: Task) -> None:
    path = {"path": f"/{task.text}.txt"}
    written = await caller.call("nc_files_write_file", {**path, "content": task.text})
    await caller.call("nc_files_list_folder", {"path": "/"}, own=written is not None)
    if written is None:
        return
    await caller.call("nc_files_read_file", path)
    await caller.call("nc_files_edit_file", {**path, "old_text": "Text", "new_text": "Words"})
    await caller.call("nc_files_get_info", path)
    await caller.call("nc_files_delete_item", path, own=False)


async def _events(caller: Caller, task: Task) -> None:
    made = await caller.call("nc_calendar_create_event", {"title": task.text, "start": "2026-12-01T10:00:00"})
    found = await caller.call(
        "nc_calendar_list_events", {"start": "2026-11-20", "end": "2026-12-20"}, own=made is not None
    )
    if made is None or found is None:
        return
    details = await caller.call("nc_calendar_get_event", {"event_id": made["event_id"]})
    if details is not None:
        gone = {"event_id": made["event_id"], "etag": details["etag"]}
        await caller.call("nc_calendar_delete_event", gone, own=False)


async def _contacts(caller: Caller, task: Task) -> None:
    made = await caller.call("nc_contacts_create_contact", {"name": task.text})
    if made is None:
        return
    await caller.call("nc_contacts_search_contacts", {"query": task.text, "book": made["book"]})
    known = {"book": made["book"], "contact_id": made["id"]}
    details = await caller.call("nc_contacts_get_contact", known)
    if details is not None:
        await caller.call("nc_contacts_delete_contact", {**known, "etag": details["etag"]}, own=False)


async def _lists(caller: Caller, _: Task) -> None:
    await caller.ask("tools/list", {})
    await caller.ask("resources/list", {})
    await caller.ask("prompts/list", {})
    await caller.call("check_provisioning_status", {}, own=False)


STEPS: tuple[Callable[[Caller, Task], Awaitable[None]], ...] = (
    _notes, _searches, _files, _events, _contacts, _lists,
)  # fmt: skip
#: The toolsets that the steps need.
TOOLSETS = "notes,files,calendar,contacts,search,research"
#: What those tools need.
SCOPES = (
    "notes:read", "notes:write", "files:read", "files:write", "calendar:read", "calendar:write", "contacts:read",
    "contacts:write", "search:read",
)  # fmt: skip
