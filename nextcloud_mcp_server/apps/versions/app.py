"""Declares the toolset `history`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App

app = App(
    "versions",
    toolset="history",
    about="earlier versions of files",
    requires="files_versions",
    uses=("files:read", "files:write"),
    actions={
        "nc_files_list_versions": "Looked at earlier versions of a file",
        "nc_files_restore_version": "Brought back an earlier version of a file",
    },
    audit_fields=("path", "version_id"),
    named_by=("path",),
)
