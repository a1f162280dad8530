"""Declares the toolset `files`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Prompt, Scope, Words

app = App(
    "files",
    about="files",
    title=Words("Files", "Dateien"),
    icon="M3.5 6.5A1.5 1.5 0 0 1 5 5h4l2 2.5h8A1.5 1.5 0 0 1 20.5 9v8.5A1.5 1.5 0 0 1 19 19H5a1.5 1."
    "5 0 0 1-1.5-1.5Z",
    scopes=(
        Scope(
            "files:read",
            what=Words("Read your files", "Deine Dateien lesen"),
            detail=Words("See folders, open files, search.", "Ordner sehen, Dateien öffnen, suchen."),
        ),
        Scope(
            "files:write",
            what=Words("Change your files", "Deine Dateien ändern"),
            detail=Words(
                "Save, move, rename, move to trash.",
                "Speichern, verschieben, umbenennen, in den Papierkorb legen.",
            ),
        ),
    ),
    actions={
        "nc_files_list_folder": Words("Listed a folder", "Hat einen Ordner aufgelistet"),
        "nc_files_get_info": Words(
            "Looked at a file or folder", "Hat eine Datei oder einen Ordner angesehen"
        ),
        "nc_files_read_file": Words("Read a file", "Hat eine Datei gelesen"),
        "nc_files_search_items": Words("Searched files", "Hat nach Dateien gesucht"),
        "nc_files_write_file": Words("Saved a file", "Hat eine Datei gespeichert"),
        "nc_files_edit_file": Words("Edited a file", "Hat eine Datei bearbeitet"),
        "nc_files_create_folder": Words("Made a folder", "Hat einen Ordner angelegt"),
        "nc_files_move_item": Words("Moved or renamed something", "Hat etwas verschoben oder umbenannt"),
        "nc_files_copy_item": Words("Copied something", "Hat etwas kopiert"),
        "nc_files_delete_item": Words("Moved something to the trash", "Hat etwas in den Papierkorb gelegt"),
        "nc_files_list_trash": Words("Looked into the trash", "Hat in den Papierkorb gesehen"),
        "nc_files_restore_trash": Words(
            "Took something out of the trash", "Hat etwas aus dem Papierkorb geholt"
        ),
    },
    audit_fields=("path", "source", "destination", "trash_id"),
    resources=("Files",),
    prompts=(
        Prompt(
            "find_document",
            title="Find a document",
            description="Look for a file by what you remember of it.",
            argument="memory",
            about_argument="What you remember: words of the name, what it is about, when it was",
            text="Find the document in my Nextcloud of which I remember this: {memory}\n\n"
            "Search by words of the name first (nc_files_search_items), then by kind and date; look into notes too "
            "if those tools are there. Show me at most five candidates with path, date and why it may be the one, "
            "and ask before you read a long one.",
        ),
    ),
)
