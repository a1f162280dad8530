"""Declares the toolset `tasks`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "tasks",
    about="tasks",
    title=Words("Tasks", "Aufgaben"),
    icon="M4.5 4.5h15v15h-15ZM8 12l3 3 5-6",
    scopes=(
        Scope(
            "tasks:read",
            what=Words("Read your tasks", "Deine Aufgaben lesen"),
            detail=Words("See your task lists.", "Deine Aufgabenlisten sehen."),
        ),
        Scope(
            "tasks:write",
            what=Words("Change your tasks", "Deine Aufgaben ändern"),
            detail=Words(
                "Add, change, complete and delete tasks.", "Aufgaben anlegen, ändern, erledigen und löschen."
            ),
        ),
    ),
    actions={
        "nc_tasks_list_tasks": Words("Listed tasks", "Hat Aufgaben aufgelistet"),
        "nc_tasks_create_task": Words("Created a task", "Hat eine Aufgabe angelegt"),
        "nc_tasks_update_task": Words("Changed a task", "Hat eine Aufgabe geändert"),
        "nc_tasks_delete_task": Words("Deleted a task", "Hat eine Aufgabe gelöscht"),
    },
    audit_fields=("title", "calendar", "task_id"),
)
