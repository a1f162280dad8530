"""Declares the toolset `bookmarks`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "bookmarks",
    about="bookmarks",
    requires="bookmarks",
    title="Bookmarks",
    icon="M6.5 4h11v16L12 16l-5.5 4Z",
    scopes=(
        Scope(
            "bookmarks:read",
            what="Read your bookmarks",
            detail="See and search the addresses you saved.",
        ),
        Scope(
            "bookmarks:write",
            what="Change your bookmarks",
            detail="Add, change and delete bookmarks.",
        ),
    ),
    actions={
        "nc_bookmarks_find_bookmarks": "Searched bookmarks",
        "nc_bookmarks_save_bookmark": "Saved a bookmark",
        "nc_bookmarks_delete_bookmark": "Deleted a bookmark",
    },
    audit_fields=("bookmark_id",),
    named_by=("title",),
)
