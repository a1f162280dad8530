"""Declares the toolset `contacts`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "contacts",
    about="contacts",
    title=Words("Contacts", "Kontakte"),
    icon="M12 11.5A3.75 3.75 0 1 0 12 4a3.75 3.75 0 0 0 0 7.5ZM4.5 20c.8-3.8 3.8-5.5 7.5-5.5s6.7 1.7 7.5 5.5",
    scopes=(
        Scope(
            "contacts:read",
            what=Words("Read your contacts", "Deine Kontakte lesen"),
            detail=Words(
                "Look up people in your address books.", "Personen in deinen Adressbüchern nachschlagen."
            ),
        ),
        Scope(
            "contacts:write",
            what=Words("Change your contacts", "Deine Kontakte ändern"),
            detail=Words("Add, change and delete contacts.", "Kontakte anlegen, ändern und löschen."),
        ),
    ),
    actions={
        "nc_contacts_list_address_books": Words("Listed address books", "Hat Adressbücher aufgelistet"),
        "nc_contacts_search_contacts": Words("Searched contacts", "Hat in Kontakten gesucht"),
        "nc_contacts_get_contact": Words("Read a contact", "Hat einen Kontakt gelesen"),
        "nc_contacts_create_contact": Words("Added a contact", "Hat einen Kontakt angelegt"),
        "nc_contacts_update_contact": Words("Changed a contact", "Hat einen Kontakt geändert"),
        "nc_contacts_delete_contact": Words("Deleted a contact", "Hat einen Kontakt gelöscht"),
    },
    audit_fields=("title", "book", "contact_id"),
    resources=("Contacts",),
)
