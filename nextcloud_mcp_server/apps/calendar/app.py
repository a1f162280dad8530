"""Declares the toolset `calendar`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "calendar",
    about="calendars",
    scopes=(
        Scope(
            "calendar:read",
            what=Words("Read your calendars", "Deine Kalender lesen"),
            detail=Words(
                "See events, invitations and free time.", "Termine, Einladungen und freie Zeit sehen."
            ),
        ),
        Scope(
            "calendar:write",
            what=Words("Change your calendars and invite people", "Deine Kalender ändern und Leute einladen"),
            detail=Words(
                "Add, move and delete events, answer invitations; Nextcloud mails those who are invited.",
                "Termine anlegen, verschieben und löschen, Einladungen beantworten; Nextcloud schreibt den Eingeladenen.",
            ),
            outward=True,
        ),
    ),
    actions={
        "nc_calendar_list_calendars": Words("Listed calendars", "Hat Kalender aufgelistet"),
        "nc_calendar_list_events": Words("Listed events", "Hat Termine aufgelistet"),
        "nc_calendar_get_event": Words("Read an event", "Hat einen Termin gelesen"),
        "nc_calendar_create_event": Words("Created an event", "Hat einen Termin angelegt"),
        "nc_calendar_update_event": Words("Changed an event", "Hat einen Termin geändert"),
        "nc_calendar_delete_event": Words("Deleted an event", "Hat einen Termin gelöscht"),
        "nc_calendar_find_free_time": Words("Looked for free time", "Hat freie Zeit gesucht"),
    },
    audit_fields=("title", "calendar", "event_id"),
    resources=("Events",),
)
