"""Declares the toolset `talk`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "talk",
    about="Talk conversations",
    requires="spreed",
    title=Words("Talk", "Talk"),
    icon="M12 4.5c4.7 0 8 2.9 8 6.9s-3.3 6.9-8 6.9c-1 0-2-.1-2.9-.4L5 20l.9-3.8C4.7 15 4 13.3 4 11.4"
    "c0-4 3.3-6.9 8-6.9Z",
    scopes=(
        Scope(
            "talk:read",
            what=Words("Read your Talk conversations", "Deine Unterhaltungen in Talk lesen"),
            detail=Words(
                "See conversations and messages, without marking them as read.",
                "Unterhaltungen und Nachrichten sehen, ohne sie als gelesen zu markieren.",
            ),
        ),
        Scope(
            "talk:write",
            what=Words("Write in Talk for you", "In Talk für dich schreiben"),
            detail=Words(
                "Send messages and reactions that others see under your name.",
                "Nachrichten und Reaktionen senden, die andere unter deinem Namen sehen.",
            ),
            outward=True,
        ),
    ),
    actions={
        "nc_talk_list_conversations": Words("Listed conversations", "Hat Unterhaltungen aufgelistet"),
        "nc_talk_list_messages": Words("Read messages in Talk", "Hat Nachrichten in Talk gelesen"),
        "nc_talk_send_message": Words("Sent a message in Talk", "Hat eine Nachricht in Talk gesendet"),
        "nc_talk_set_reaction": Words(
            "Reacted to a message in Talk", "Hat auf eine Nachricht in Talk reagiert"
        ),
    },
    audit_fields=("conversation", "message_id"),
)
