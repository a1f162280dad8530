"""Declares the toolset `talk`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "talk",
    about="Talk conversations",
    requires="spreed",
    title="Talk",
    icon="M12 4.5c4.7 0 8 2.9 8 6.9s-3.3 6.9-8 6.9c-1 0-2-.1-2.9-.4L5 20l.9-3.8C4.7 15 4 13.3 4 11.4"
    "c0-4 3.3-6.9 8-6.9Z",
    scopes=(
        Scope(
            "talk:read",
            what="Read your Talk conversations",
            detail="See conversations and messages, without marking them as read.",
        ),
        Scope(
            "talk:write",
            what="Write in Talk for you",
            detail="Send messages and reactions that others see under your name.",
            outward=True,
        ),
    ),
    actions={
        "nc_talk_list_conversations": "Listed conversations",
        "nc_talk_list_messages": "Read messages in Talk",
        "nc_talk_send_message": "Sent a message in Talk",
        "nc_talk_set_reaction": "Reacted to a message in Talk",
    },
    audit_fields=("conversation", "message_id"),
)
