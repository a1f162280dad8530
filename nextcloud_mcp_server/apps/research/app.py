"""Declares the toolset `research`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App

app = App(
    "research",
    about="research in notes and files",
    uses=("notes:read", "files:read"),
    actions={
        "search": "Searched notes and files",
        "fetch": "Read a note or file",
    },
    named_by=("title",),
)
