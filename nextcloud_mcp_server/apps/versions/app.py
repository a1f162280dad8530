"""Declares the toolset `history`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Words

app = App(
    "versions",
    toolset="history",
    about="earlier versions of files",
    requires="files_versions",
    uses=("files:read", "files:write"),
    actions={
        "nc_files_list_versions": Words(
            "Looked at earlier versions of a file", "Hat frühere Fassungen einer Datei angesehen"
        ),
        "nc_files_restore_version": Words(
            "Brought back an earlier version of a file", "Hat eine frühere Fassung einer Datei zurückgeholt"
        ),
    },
    audit_fields=("path", "version_id"),
)
