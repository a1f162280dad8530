"""Declares the toolset `tasks`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "tasks",
    about="tasks",
    title="Tasks",
    icon="M4.5 4.5h15v15h-15ZM8 12l3 3 5-6",
    scopes=(
        Scope(
            "tasks:read",
            what="Read your tasks",
            detail="See your task lists.",
        ),
        Scope(
            "tasks:write",
            what="Change your tasks",
            detail="Add, change, complete and delete tasks.",
        ),
    ),
    actions={
        "nc_tasks_list_tasks": "Listed tasks",
        "nc_tasks_create_task": "Created a task",
        "nc_tasks_update_task": "Changed a task",
        "nc_tasks_delete_task": "Deleted a task",
    },
    audit_fields=("title", "calendar", "task_id"),
    named_by=("title",),
    earlier_tools={
        "nc_tasks_create_task": ("nc_calendar_create_todo",),
        "nc_tasks_delete_task": ("nc_calendar_delete_todo",),
        "nc_tasks_list_tasks": (
            "nc_calendar_list_todos",
            "nc_calendar_search_todos",
        ),
        "nc_tasks_update_task": (
            "nc_calendar_update_todo",
            "nc_calendar_complete_todo",
        ),
    },
)
