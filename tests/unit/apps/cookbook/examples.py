"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call


async def usual(nc: Account) -> dict[str, dict[str, Any]]:
    recipe = (await call(nc, "nc_cookbook_list_recipes")).recipes[0].id
    return {
        "nc_cookbook_get_recipe": {"recipe_id": recipe},
        "nc_cookbook_save_recipe": {"name": "x"},
        "nc_cookbook_delete_recipe": {"recipe_id": recipe, "etag": "e"},
    }


async def working(nc: Account, _: str, given: dict[str, Any]) -> dict[str, Any]:
    if "etag" not in given:
        return {}
    return {"etag": (await call(nc, "nc_cookbook_get_recipe", recipe_id=given["recipe_id"])).etag}
