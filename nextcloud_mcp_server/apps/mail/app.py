"""Declares the toolset `mail`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "mail",
    about="mail",
    requires="mail",
    menu=True,
    title=Words("Mail", "E-Mails"),
    icon="M3.5 6h17v12.5h-17ZM4 6.5l8 6.5 8-6.5",
    scopes=(
        Scope(
            "mail:read",
            what=Words("Read your mail", "Deine E-Mails lesen"),
            detail=Words(
                "See your mail accounts, and read and search the messages in them. Nothing can be sent.",
                "Deine Mailkonten sehen und ihre Nachrichten lesen und durchsuchen. Gesendet werden kann nichts.",
            ),
        ),
    ),
    actions={
        "nc_mail_list_mailboxes": Words("Listed your mailboxes", "Hat deine Postfächer aufgelistet"),
        "nc_mail_list_messages": Words(
            "Listed or searched your mail", "Hat deine E-Mails aufgelistet oder durchsucht"
        ),
        "nc_mail_get_message": Words("Read an e-mail", "Hat eine E-Mail gelesen"),
    },
    audit_fields=("message_id", "account_id", "mailbox_id"),
)
