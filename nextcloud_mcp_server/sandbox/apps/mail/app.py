"""Declares the app mail of the sandbox."""

from nextcloud_mcp_server.sandbox.apps.mail.api import MailApi
from nextcloud_mcp_server.sandbox.apps.mail.store import MailStore
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.state import State

_DAY_SECONDS = 86_400
_BOXES = "Hi Alice,\n\nthe boxes come on 8 January, see https://boxes.example.test/4?a=1&b=2\n\n-- \nBob\n"
_INVOICE = "<h1>Invoice 4711</h1><table><tr><td>2 hedges</td><td>48 euro</td></tr></table>"


def _add_mail(state: State) -> None:
    """Let alice have an account with some mail."""
    account, now = (
        state.store(MailStore).add_account("alice", "alice@example.test"),
        int(state.clock().timestamp()),
    )
    inbox = state.store(MailStore).add_mailbox(account, "INBOX", "inbox")
    state.store(MailStore).add_mailbox(account, "Sent", "sent")
    to = [("Alice Example", "alice@example.test")]
    bob, garden = ("Bob Builder", "bob@example.test"), ("Kestrel Garden Centre", "hello@garden.example.test")
    state.store(MailStore).add(inbox, "Boxes", bob, now - 2 * _DAY_SECONDS, _BOXES, to=to, flags={"seen"})
    invoice = state.store(MailStore).add(
        inbox, "Invoice 4711", garden, now - _DAY_SECONDS, _INVOICE, is_html=True, to=to
    )
    invoice.attachments.append(("Invoice 4711.pdf", "application/pdf", 48_213))
    invoice.flags.add("hasAttachments")


app = SandboxApp("mail", api=MailApi, menu=("Mail", 3), seed=_add_mail)
