"""Declares the toolset `forms`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "forms",
    about="forms and what was answered",
    requires="forms",
    title="Forms",
    icon="M5 4h14v16H5ZM8.5 8.5h1M12 8.5h4M8.5 12h1M12 12h4M8.5 15.5h1M12 15.5h4",
    scopes=(
        Scope(
            "forms:read",
            what="Read your forms",
            detail="See your forms, their questions and what people answered.",
        ),
    ),
    actions={
        "nc_forms_list_forms": "Listed forms",
        "nc_forms_get_form": "Read a form and its answers",
    },
    audit_fields=("form_id",),
    named_by=("title",),
)
