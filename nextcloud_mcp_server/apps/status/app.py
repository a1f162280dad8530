"""Declares the toolset `status`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "status",
    about="user status",
    requires="user_status",
    title="Status",
    icon="M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17ZM8.5 14.5c.8 1.3 2 2 3.5 2s2.7-.7 3.5-2M9 9.5v.5"
    "M15 9.5v.5",
    scopes=(
        Scope(
            "status:read",
            what="See who is there",
            detail="Your own status, and what other people show of their status.",
        ),
        Scope(
            "status:write",
            what="Set your status",
            detail="Whether you are there, and your message; others see it.",
            outward=True,
        ),
    ),
    actions={
        "nc_status_get_status": "Looked at a status",
        "nc_status_set_status": "Set your status",
    },
    audit_fields=("person",),
)
