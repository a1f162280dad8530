"""Declares the toolset `sharing`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "sharing",
    about="sharing",
    requires="files_sharing",
    title="Sharing",
    icon="M8.5 12a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0ZM20 6a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0Z"
    "M20 18a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0ZM8.3 10.9l7-3.7M8.3 13.1l7 3.7",
    scopes=(
        Scope(
            "sharing:read",
            what="See what is shared",
            detail="Whom you share with, what is shared with you, and your public links.",
        ),
        Scope(
            "sharing:write",
            what="Share your files",
            detail="Open files to people, groups or all who have a link; change and end that.",
            outward=True,
        ),
    ),
    actions={
        "nc_sharing_list_shares": "Looked at what is shared",
        "nc_sharing_share_item": "Shared something",
        "nc_sharing_create_link": "Made a public link",
        "nc_sharing_update_share": "Changed what is shared",
        "nc_sharing_delete_share": "Ended what was shared",
    },
    audit_fields=("path", "share_id", "person", "group"),
    named_by=("path",),
    earlier_tools={
        "nc_sharing_share_item": ("nc_share_create",),
        "nc_sharing_create_link": ("nc_share_create_public_link",),
        "nc_sharing_delete_share": ("nc_share_delete",),
        "nc_sharing_list_shares": (
            "nc_share_list",
            "nc_share_get",
        ),
        "nc_sharing_update_share": ("nc_share_update",),
    },
)
