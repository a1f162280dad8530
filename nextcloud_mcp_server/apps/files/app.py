"""Declares the toolset `files`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Prompt, Scope

app = App(
    "files",
    about="files",
    title="Files",
    icon="M3.5 6.5A1.5 1.5 0 0 1 5 5h4l2 2.5h8A1.5 1.5 0 0 1 20.5 9v8.5A1.5 1.5 0 0 1 19 19H5a1.5 1."
    "5 0 0 1-1.5-1.5Z",
    scopes=(
        Scope(
            "files:read",
            what="Read your files",
            detail="See folders, open files, search.",
        ),
        Scope(
            "files:write",
            what="Change your files",
            detail="Save, move, rename, move to trash.",
        ),
    ),
    actions={
        "nc_files_list_folder": "Listed a folder",
        "nc_files_get_info": "Looked at a file or folder",
        "nc_files_read_file": "Read a file",
        "nc_files_search_items": "Searched files",
        "nc_files_write_file": "Saved a file",
        "nc_files_edit_file": "Edited a file",
        "nc_files_create_folder": "Made a folder",
        "nc_files_move_item": "Moved or renamed something",
        "nc_files_copy_item": "Copied something",
        "nc_files_delete_item": "Moved something to the trash",
        "nc_files_list_trash": "Looked into the trash",
        "nc_files_restore_trash": "Took something out of the trash",
    },
    audit_fields=("path", "source", "destination", "trash_id"),
    named_by=("path", "source"),
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
    earlier_tools={
        "nc_files_copy_item": ("nc_webdav_copy_resource",),
        "nc_files_create_folder": ("nc_webdav_create_directory",),
        "nc_files_delete_item": ("nc_webdav_delete_resource",),
        "nc_files_list_folder": ("nc_webdav_list_directory",),
        "nc_files_move_item": ("nc_webdav_move_resource",),
        "nc_files_read_file": ("nc_webdav_read_file",),
        "nc_files_search_items": (
            "nc_webdav_search_files",
            "nc_webdav_find_by_name",
            "nc_webdav_find_by_type",
            "nc_webdav_list_favorites",
        ),
        "nc_files_write_file": ("nc_webdav_write_file",),
    },
)
