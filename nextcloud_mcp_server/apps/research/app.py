"""Declares the toolset `research`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Words

app = App(
    "research",
    about="research in notes and files",
    uses=("notes:read", "files:read"),
    actions={
        "search": Words("Searched notes and files", "Hat Notizen und Dateien durchsucht"),
        "fetch": Words("Read a note or file", "Hat eine Notiz oder Datei gelesen"),
    },
)
