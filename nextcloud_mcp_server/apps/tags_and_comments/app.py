"""Declares the toolset `labels`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Words

app = App(
    "tags_and_comments",
    toolset="labels",
    about="tags, favorites and comments of files",
    uses=("files:read", "files:write"),
    actions={
        "nc_files_list_tags": Words("Looked at tags", "Hat Schlagworte angesehen"),
        "nc_files_set_labels": Words(
            "Tagged or marked a file or folder", "Hat eine Datei oder einen Ordner markiert"
        ),
        "nc_files_list_comments": Words("Read comments on a file", "Hat Kommentare zu einer Datei gelesen"),
        "nc_files_add_comment": Words("Commented on a file", "Hat eine Datei kommentiert"),
    },
    audit_fields=("path",),
)
