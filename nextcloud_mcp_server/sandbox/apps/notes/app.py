"""Declares the app notes of the sandbox."""

from nextcloud_mcp_server.sandbox.apps.notes.api import NOTES_API_VERSIONS, NotesApi
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.state import User


def _capability(context: Context, user: User) -> dict[str, object]:
    return {
        "api_version": list(NOTES_API_VERSIONS),
        "version": context.profile.notes,
        "notes_path": user.notes_path,
    }


app = SandboxApp("notes", api=NotesApi, capability=_capability, menu=("Notes", 10))
