"""Declares the toolset `tables`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "tables",
    about="tables",
    requires="tables",
    title=Words("Tables", "Tabellen"),
    icon="M4 5h16v14H4ZM4 10h16M4 14.5h16M10 5v14",
    scopes=(
        Scope(
            "tables:read",
            what=Words("Read your tables", "Deine Tabellen lesen"),
            detail=Words("See tables and their rows.", "Tabellen und ihre Zeilen sehen."),
        ),
        Scope(
            "tables:write",
            what=Words("Change your tables", "Deine Tabellen ändern"),
            detail=Words("Add, change and delete rows.", "Zeilen anlegen, ändern und löschen."),
        ),
    ),
    actions={
        "nc_tables_list_tables": Words("Listed tables", "Hat Tabellen aufgelistet"),
        "nc_tables_get_table": Words("Looked at a table", "Hat eine Tabelle angesehen"),
        "nc_tables_create_row": Words("Added a row to a table", "Hat eine Tabellenzeile angelegt"),
        "nc_tables_update_row": Words("Changed a row of a table", "Hat eine Tabellenzeile geändert"),
        "nc_tables_delete_row": Words("Deleted a row of a table", "Hat eine Tabellenzeile gelöscht"),
    },
    audit_fields=("table_id", "row_id"),
)
