"""Declares the toolset `sharing`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "sharing",
    about="sharing",
    requires="files_sharing",
    title=Words("Sharing", "Freigaben"),
    icon="M8.5 12a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0ZM20 6a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0Z"
    "M20 18a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0ZM8.3 10.9l7-3.7M8.3 13.1l7 3.7",
    scopes=(
        Scope(
            "sharing:read",
            what=Words("See what is shared", "Sehen, was geteilt ist"),
            detail=Words(
                "Whom you share with, what is shared with you, and your public links.",
                "Mit wem du teilst, was mit dir geteilt ist, und deine öffentlichen Links.",
            ),
        ),
        Scope(
            "sharing:write",
            what=Words("Share your files", "Deine Dateien teilen"),
            detail=Words(
                "Open files to people, groups or all who have a link; change and end that.",
                "Dateien für Menschen, Gruppen oder alle mit einem Link öffnen; das ändern und beenden.",
            ),
            outward=True,
        ),
    ),
    actions={
        "nc_sharing_list_shares": Words("Looked at what is shared", "Hat angesehen, was geteilt ist"),
        "nc_sharing_share_item": Words("Shared something", "Hat etwas geteilt"),
        "nc_sharing_create_link": Words("Made a public link", "Hat einen öffentlichen Link gemacht"),
        "nc_sharing_update_share": Words("Changed what is shared", "Hat geändert, was geteilt ist"),
        "nc_sharing_delete_share": Words("Ended what was shared", "Hat Geteiltes beendet"),
    },
    audit_fields=("path", "share_id", "person", "group"),
)
