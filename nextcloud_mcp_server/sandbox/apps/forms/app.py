"""Declares the app forms of the sandbox."""

from nextcloud_mcp_server.sandbox.apps.forms.api import FormsApi
from nextcloud_mcp_server.sandbox.apps.forms.store import FormStore, StoredForm
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.state import State, User


def _capability(_context: Context, _user: User) -> dict[str, object]:
    return {"version": "5.3.5", "apiVersions": ["v3"]}


def _add_form(state: State) -> None:
    """Let alice ask who comes to the party; bob may answer, and did."""
    form = StoredForm(1, "DemoFormHash0001", "alice", int(state.clock().timestamp()), title="Street party")
    form.state, form.shown_to = 0, {"bob"}
    form.ask("multiple_unique", "Do you come?", "Yes", "No", required=True)
    form.ask("short", "What do you bring?")
    form.answer("bob", "Bob Builder", form.made_at, [(1, "Yes"), (2, "A salad")])
    state.store(FormStore).append(form)


app = SandboxApp("forms", api=FormsApi, capability=_capability, menu=("Forms", 77), seed=_add_form)
