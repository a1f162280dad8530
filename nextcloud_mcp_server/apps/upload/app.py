"""Declares the toolset `upload`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App

app = App(
    "upload",
    uses=("files:read", "files:write"),
    actions={
        "nc_files_upload_file": "Uploaded a file or a part of one",
        "nc_files_download_file": "Saved a file on this computer",
    },
    audit_fields=("path", "local_file", "upload_id"),
    named_by=("path",),
)
