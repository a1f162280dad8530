"""Declares the toolset `status`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "status",
    about="user status",
    requires="user_status",
    title=Words("Status", "Status"),
    icon="M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17ZM8.5 14.5c.8 1.3 2 2 3.5 2s2.7-.7 3.5-2M9 9.5v.5"
    "M15 9.5v.5",
    scopes=(
        Scope(
            "status:read",
            what=Words("See who is there", "Sehen, wer da ist"),
            detail=Words(
                "Your own status, and what other people show of their status.",
                "Deinen Status und was andere von ihrem zeigen.",
            ),
        ),
        Scope(
            "status:write",
            what=Words("Set your status", "Deinen Status setzen"),
            detail=Words(
                "Whether you are there, and your message; others see it.",
                "Ob du da bist und was du dazu sagst; andere sehen es.",
            ),
            outward=True,
        ),
    ),
    actions={
        "nc_status_get_status": Words("Looked at a status", "Hat einen Status angesehen"),
        "nc_status_set_status": Words("Set your status", "Hat deinen Status gesetzt"),
    },
    audit_fields=("person",),
)
