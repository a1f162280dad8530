"""Declares the toolset `collectives`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "collectives",
    about="pages of collectives",
    requires="collectives",
    menu=True,
    title=Words("Collectives", "Kollektive"),
    icon="M9 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM3 19c.5-3.3 2.8-5 6-5s5.5 1.7 6 5"
    "M16 11a2.5 2.5 0 1 0-.6-4.9M17.5 14.3c2 .5 3.2 2 3.5 4.2",
    scopes=(
        Scope(
            "collectives:read",
            what=Words("Read your collectives", "Deine Kollektive lesen"),
            detail=Words(
                "See the pages of your collectives and read them.",
                "Seiten deiner Kollektive sehen und lesen.",
            ),
        ),
        Scope(
            "collectives:write",
            what=Words("Add pages to your collectives", "Deinen Kollektiven Seiten hinzufügen"),
            detail=Words(
                "Add pages that all members of a collective see.",
                "Seiten anlegen, die alle Mitglieder eines Kollektivs sehen.",
            ),
            outward=True,
        ),
    ),
    actions={
        "nc_collectives_list_pages": Words(
            "Listed pages of collectives", "Hat Seiten von Kollektiven aufgelistet"
        ),
        "nc_collectives_get_page": Words(
            "Read a page of a collective", "Hat eine Seite eines Kollektivs gelesen"
        ),
        "nc_collectives_create_page": Words(
            "Added a page to a collective", "Hat einem Kollektiv eine Seite hinzugefügt"
        ),
    },
    audit_fields=("title", "collective_id", "page_id", "parent_id"),
)
