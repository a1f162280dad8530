"""Declares the toolset `tables`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "tables",
    about="tables",
    requires="tables",
    title="Tables",
    icon="M4 5h16v14H4ZM4 10h16M4 14.5h16M10 5v14",
    scopes=(
        Scope(
            "tables:read",
            what="Read your tables",
            detail="See tables and their rows.",
        ),
        Scope(
            "tables:write",
            what="Change your tables",
            detail="Add, change and delete rows.",
        ),
    ),
    actions={
        "nc_tables_list_tables": "Listed tables",
        "nc_tables_get_table": "Looked at a table",
        "nc_tables_create_row": "Added a row to a table",
        "nc_tables_update_row": "Changed a row of a table",
        "nc_tables_delete_row": "Deleted a row of a table",
    },
    audit_fields=("table_id", "row_id"),
    named_by=("title",),
    earlier_tools={
        "nc_tables_create_row": ("nc_tables_insert_row",),
        "nc_tables_get_table": (
            "nc_tables_read_table",
            "nc_tables_get_schema",
        ),
    },
)
