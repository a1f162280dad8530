"""Declares the toolset `upload`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Words

app = App(
    "upload",
    uses=("files:read", "files:write"),
    actions={
        "nc_files_upload_file": Words(
            "Uploaded a file or a part of one", "Hat eine Datei oder einen Teil davon hochgeladen"
        ),
        "nc_files_download_file": Words(
            "Saved a file on this computer", "Hat eine Datei auf diesem Computer gespeichert"
        ),
    },
    audit_fields=("path", "local_file", "upload_id"),
)
