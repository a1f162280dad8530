"""Declares the toolset `calendar`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Prompt, Scope

app = App(
    "calendar",
    about="calendars",
    title="Calendar",
    icon="M4.5 5.5h15v14h-15ZM4.5 10h15M8.5 3v4M15.5 3v4",
    scopes=(
        Scope(
            "calendar:read",
            what="Read your calendars",
            detail="See events, invitations and free time.",
        ),
        Scope(
            "calendar:write",
            what="Change your calendars and invite people",
            detail="Add, move and delete events, answer invitations; Nextcloud mails those who are invited.",
            outward=True,
        ),
    ),
    actions={
        "nc_calendar_list_calendars": "Listed calendars",
        "nc_calendar_list_events": "Listed events",
        "nc_calendar_get_event": "Read an event",
        "nc_calendar_create_event": "Created an event",
        "nc_calendar_update_event": "Changed an event",
        "nc_calendar_delete_event": "Deleted an event",
        "nc_calendar_find_free_time": "Looked for free time",
    },
    audit_fields=("title", "calendar", "event_id"),
    named_by=("title",),
    resources=("Events",),
    prompts=(
        Prompt(
            "prepare_meeting",
            title="Prepare a meeting",
            description="Gather what you have on an appointment.",
            argument="meeting",
            about_argument="Which one: a title, a person, a time",
            text="Help me prepare this meeting: {meeting}\n\n"
            "Find it in my calendar, with time, place and who comes. Then look in my files and notes for what belongs "
            "to it or to these people. Give me half a page: what it is about, what was agreed before, open questions, "
            "links to what you found. Change nothing.",
        ),
        Prompt(
            "weekly_review",
            title="Weekly review",
            description="Look back on the week, and ahead.",
            text="Let us review my week. List what was in my calendar in the last seven days and what comes in the next "
            "seven. If there are tools for tasks and notes, add what is overdue or due, and notes changed this week. Point "
            "out clashes and what seems forgotten, then ask me what to move, add or close; change nothing before I say so.",
        ),
    ),
    earlier_tools={
        "nc_calendar_create_event": (
            "nc_calendar_create_meeting",
            "nc_calendar_bulk_operations",
        ),
        "nc_calendar_find_free_time": ("nc_calendar_find_availability",),
        "nc_calendar_list_events": ("nc_calendar_get_upcoming_events",),
    },
)
