"""Declares the app collectives of the sandbox."""

from nextcloud_mcp_server.sandbox.apps.collectives.api import CollectivesApi, add
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.state import State

_ALICE_PAGES = {
    "Hedges": "# Hedges\n\n- Water them on Mondays and Thursdays\n- The key hangs in the hall\n",
    "Street party": "# Street party\n\nOn 12 June, from 15:00. Everybody brings a chair.\n",
}


def _add_pages(state: State) -> None:
    """Give alice a collective with two pages."""
    alice = state.users["alice"]
    team = add(state, alice, "Neighbourhood", "🏘️")
    for title, text in _ALICE_PAGES.items():
        alice.files.put(f"{team.folder}/{title}.md", text.encode())


app = SandboxApp("collectives", api=CollectivesApi, menu=("Collectives", 12), seed=_add_pages)
