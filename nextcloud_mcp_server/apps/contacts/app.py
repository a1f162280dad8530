"""Declares the toolset `contacts`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "contacts",
    about="contacts",
    title="Contacts",
    icon="M12 11.5A3.75 3.75 0 1 0 12 4a3.75 3.75 0 0 0 0 7.5ZM4.5 20c.8-3.8 3.8-5.5 7.5-5.5s6.7 1.7 7.5 5.5",
    scopes=(
        Scope(
            "contacts:read",
            what="Read your contacts",
            detail="Look up people in your address books.",
        ),
        Scope(
            "contacts:write",
            what="Change your contacts",
            detail="Add, change and delete contacts.",
        ),
    ),
    actions={
        "nc_contacts_list_address_books": "Listed address books",
        "nc_contacts_search_contacts": "Searched contacts",
        "nc_contacts_get_contact": "Read a contact",
        "nc_contacts_create_contact": "Added a contact",
        "nc_contacts_update_contact": "Changed a contact",
        "nc_contacts_delete_contact": "Deleted a contact",
    },
    audit_fields=("title", "book", "contact_id"),
    named_by=("name",),
    resources=("Contacts",),
    earlier_tools={
        "nc_contacts_list_address_books": ("nc_contacts_list_addressbooks",),
        "nc_contacts_search_contacts": ("nc_contacts_list_contacts",),
    },
)
