"""Declares the toolset `status`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "status",
    about="user status",
    requires="user_status",
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
