"""Declares the toolset `forms`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "forms",
    about="forms and what was answered",
    requires="forms",
    title=Words("Forms", "Formulare"),
    icon="M5 4h14v16H5ZM8.5 8.5h1M12 8.5h4M8.5 12h1M12 12h4M8.5 15.5h1M12 15.5h4",
    scopes=(
        Scope(
            "forms:read",
            what=Words("Read your forms", "Deine Formulare lesen"),
            detail=Words(
                "See your forms, their questions and what people answered.",
                "Formulare, ihre Fragen und die Antworten darauf sehen.",
            ),
        ),
    ),
    actions={
        "nc_forms_list_forms": Words("Listed forms", "Hat Formulare aufgelistet"),
        "nc_forms_get_form": Words(
            "Read a form and its answers", "Hat ein Formular und seine Antworten gelesen"
        ),
    },
    audit_fields=("form_id",),
)
