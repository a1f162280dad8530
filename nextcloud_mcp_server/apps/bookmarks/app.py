"""Declares the toolset `bookmarks`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "bookmarks",
    about="bookmarks",
    requires="bookmarks",
    title=Words("Bookmarks", "Lesezeichen"),
    icon="M6.5 4h11v16L12 16l-5.5 4Z",
    scopes=(
        Scope(
            "bookmarks:read",
            what=Words("Read your bookmarks", "Deine Lesezeichen lesen"),
            detail=Words(
                "See and search the addresses you saved.", "Gespeicherte Adressen sehen und durchsuchen."
            ),
        ),
        Scope(
            "bookmarks:write",
            what=Words("Change your bookmarks", "Deine Lesezeichen ändern"),
            detail=Words("Add, change and delete bookmarks.", "Lesezeichen anlegen, ändern und löschen."),
        ),
    ),
    actions={
        "nc_bookmarks_find_bookmarks": Words("Searched bookmarks", "Hat Lesezeichen durchsucht"),
        "nc_bookmarks_save_bookmark": Words("Saved a bookmark", "Hat ein Lesezeichen gespeichert"),
        "nc_bookmarks_delete_bookmark": Words("Deleted a bookmark", "Hat ein Lesezeichen gelöscht"),
    },
    audit_fields=("bookmark_id",),
)
