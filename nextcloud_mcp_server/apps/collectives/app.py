"""Declares the toolset `collectives`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "collectives",
    about="pages of collectives",
    requires="collectives",
    menu=True,
    title="Collectives",
    icon="M9 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM3 19c.5-3.3 2.8-5 6-5s5.5 1.7 6 5"
    "M16 11a2.5 2.5 0 1 0-.6-4.9M17.5 14.3c2 .5 3.2 2 3.5 4.2",
    scopes=(
        Scope(
            "collectives:read",
            what="Read your collectives",
            detail="See the pages of your collectives and read them.",
        ),
        Scope(
            "collectives:write",
            what="Add pages to your collectives",
            detail="Add pages that all members of a collective see.",
            outward=True,
        ),
    ),
    actions={
        "nc_collectives_list_pages": "Listed pages of collectives",
        "nc_collectives_get_page": "Read a page of a collective",
        "nc_collectives_create_page": "Added a page to a collective",
    },
    audit_fields=("title", "collective_id", "page_id", "parent_id"),
    named_by=("title",),
)
