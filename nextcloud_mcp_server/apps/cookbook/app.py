"""Declares the toolset `cookbook`: what it requires, and what the pages say about it."""

from nextcloud_mcp_server.declarations.app import App, Scope

app = App(
    "cookbook",
    about="recipes",
    requires="cookbook",
    title="Recipes",
    icon="M4.5 10h15v6a3 3 0 0 1-3 3h-9a3 3 0 0 1-3-3ZM2.5 10h19M9 6.5v-2M12 6.5v-3M15 6.5v-2",
    scopes=(
        Scope(
            "cookbook:read",
            what="Read your recipes",
            detail="See and search your recipes in Cookbook.",
        ),
        Scope(
            "cookbook:write",
            what="Change your recipes",
            detail="Add, change and delete recipes.",
        ),
    ),
    actions={
        "nc_cookbook_list_recipes": "Listed recipes",
        "nc_cookbook_get_recipe": "Read a recipe",
        "nc_cookbook_save_recipe": "Saved a recipe",
        "nc_cookbook_delete_recipe": "Deleted a recipe",
    },
    audit_fields=("recipe_id",),
    named_by=("name",),
    earlier_tools={
        "nc_cookbook_list_recipes": (
            "nc_cookbook_search_recipes",
            "nc_cookbook_list_categories",
            "nc_cookbook_list_keywords",
            "nc_cookbook_get_recipes_in_category",
            "nc_cookbook_get_recipes_with_keywords",
        ),
        "nc_cookbook_save_recipe": (
            "nc_cookbook_create_recipe",
            "nc_cookbook_update_recipe",
            "nc_cookbook_import_recipe",
        ),
    },
)
