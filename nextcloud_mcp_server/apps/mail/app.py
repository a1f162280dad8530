"""Declares the toolset `mail`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "mail",
    about="mail",
    requires="mail",
    menu=True,
    title="Mail",
    icon="M3.5 6h17v12.5h-17ZM4 6.5l8 6.5 8-6.5",
    scopes=(
        Scope(
            "mail:read",
            what="Read your mail",
            detail="See your mail accounts, and read and search the messages in them. Nothing can be sent.",
        ),
    ),
    actions={
        "nc_mail_list_mailboxes": "Listed your mailboxes",
        "nc_mail_list_messages": "Listed or searched your mail",
        "nc_mail_get_message": "Read an e-mail",
    },
    audit_fields=("message_id", "account_id", "mailbox_id"),
    named_by=("subject",),
    earlier_tools={
        "nc_mail_list_mailboxes": ("nc_mail_list_accounts",),
    },
)
