"""Declares the toolset `notes`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Prompt, Scope

app = App(
    "notes",
    about="notes",
    requires="notes",
    title="Notes",
    icon="M6 3.5h8.5L19 8v12.5H6ZM14 3.5v5h5M9 12.5h7M9 16h5",
    scopes=(
        Scope(
            "notes:read",
            what="Read your notes",
            detail="Open them and search in them.",
        ),
        Scope(
            "notes:write",
            what="Change your notes",
            detail="Write new ones, edit, delete.",
        ),
    ),
    actions={
        "nc_notes_list_notes": "Listed notes",
        "nc_notes_search_notes": "Searched notes",
        "nc_notes_get_note": "Read a note",
        "nc_notes_create_note": "Wrote a new note",
        "nc_notes_update_note": "Changed a note",
        "nc_notes_append_content": "Added to a note",
        "nc_notes_edit_note": "Edited a note",
        "nc_notes_delete_note": "Deleted a note",
        "nc_notes_get_attachment": "Looked at an attachment of a note",
    },
    audit_fields=("path", "note_id", "title"),
    named_by=("title", "path"),
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
