"""Declares the toolset `cookbook`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope, Words

app = App(
    "cookbook",
    about="recipes",
    requires="cookbook",
    title=Words("Recipes", "Rezepte"),
    icon="M4.5 10h15v6a3 3 0 0 1-3 3h-9a3 3 0 0 1-3-3ZM2.5 10h19M9 6.5v-2M12 6.5v-3M15 6.5v-2",
    scopes=(
        Scope(
            "cookbook:read",
            what=Words("Read your recipes", "Deine Rezepte lesen"),
            detail=Words(
                "See and search your recipes in Cookbook.", "Rezepte in Cookbook sehen und durchsuchen."
            ),
        ),
        Scope(
            "cookbook:write",
            what=Words("Change your recipes", "Deine Rezepte ändern"),
            detail=Words("Add, change and delete recipes.", "Rezepte anlegen, ändern und löschen."),
        ),
    ),
    actions={
        "nc_cookbook_list_recipes": Words("Listed recipes", "Hat Rezepte aufgelistet"),
        "nc_cookbook_get_recipe": Words("Read a recipe", "Hat ein Rezept gelesen"),
        "nc_cookbook_save_recipe": Words("Saved a recipe", "Hat ein Rezept gespeichert"),
        "nc_cookbook_delete_recipe": Words("Deleted a recipe", "Hat ein Rezept gelöscht"),
    },
    audit_fields=("recipe_id",),
)
