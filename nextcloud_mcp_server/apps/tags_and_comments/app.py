"""Declares the toolset `labels`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App

app = App(
    "tags_and_comments",
    toolset="labels",
    about="tags, favorites and comments of files",
    uses=("files:read", "files:write"),
    actions={
        "nc_files_list_tags": "Looked at tags",
        "nc_files_set_labels": "Tagged or marked a file or folder",
        "nc_files_list_comments": "Read comments on a file",
        "nc_files_add_comment": "Commented on a file",
    },
    audit_fields=("path",),
    named_by=("path",),
    earlier_tools={
        "nc_files_add_comment": ("nc_webdav_create_comment",),
        "nc_files_list_comments": ("nc_webdav_list_comments",),
    },
)
