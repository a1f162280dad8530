"""Declares the toolset `notes`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Prompt, Scope, Words

app = App(
    "notes",
    about="notes",
    requires="notes",
    title=Words("Notes", "Notizen"),
    icon="M6 3.5h8.5L19 8v12.5H6ZM14 3.5v5h5M9 12.5h7M9 16h5",
    scopes=(
        Scope(
            "notes:read",
            what=Words("Read your notes", "Deine Notizen lesen"),
            detail=Words("Open them and search in them.", "Sie öffnen und darin suchen."),
        ),
        Scope(
            "notes:write",
            what=Words("Change your notes", "Deine Notizen ändern"),
            detail=Words("Write new ones, edit, delete.", "Neue schreiben, bearbeiten, löschen."),
        ),
    ),
    actions={
        "nc_notes_list_notes": Words("Listed notes", "Hat Notizen aufgelistet"),
        "nc_notes_search_notes": Words("Searched notes", "Hat in Notizen gesucht"),
        "nc_notes_get_note": Words("Read a note", "Hat eine Notiz gelesen"),
        "nc_notes_create_note": Words("Wrote a new note", "Hat eine neue Notiz geschrieben"),
        "nc_notes_update_note": Words("Changed a note", "Hat eine Notiz geändert"),
        "nc_notes_append_content": Words("Added to a note", "Hat einer Notiz etwas hinzugefügt"),
        "nc_notes_edit_note": Words("Edited a note", "Hat eine Notiz bearbeitet"),
        "nc_notes_delete_note": Words("Deleted a note", "Hat eine Notiz gelöscht"),
        "nc_notes_get_attachment": Words(
            "Looked at an attachment of a note", "Hat den Anhang einer Notiz angesehen"
        ),
    },
    audit_fields=("path", "note_id", "title"),
    resources=("Notes",),
    prompts=(
        Prompt(
            "tidy_note",
            title="Tidy a note",
            description="Bring order into a note without losing anything of it.",
            argument="note",
            about_argument="The note, by its number or title",
            completes="nc://notes/{id}",
            text="Tidy this note of mine: {note}\n\n"
            "Read it (nc_notes_get_note). Mend spelling and Markdown, put related things together under headings, "
            "turn what is to be done into a checklist; keep every fact, link and name. Show me the new text and "
            "what you changed, and write it (nc_notes_update_note, with the etag you read) only when I agree.",
        ),
    ),
)
