"""Tools for the Cookbook app."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from nextcloud_mcp_server.apps.cookbook import results
from nextcloud_mcp_server.apps.cookbook.client import CookbookClient
from nextcloud_mcp_server.apps.cookbook.results import (
    FIELDS,
    RecipeDeleted,
    RecipeList,
    RecipeSaved,
    RecipeText,
)
from nextcloud_mcp_server.errors import InvalidInput, NextcloudError
from nextcloud_mcp_server.nextcloud import file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.spelling import folded
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

cookbook = Toolset("cookbook")

_DURATION = re.compile(r"PT(?=\d)(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,5})S)?")
_MINUTE = 60

Texts = list[str] | None
_TAKEN_OFF = Empty("takes it off")
Time = Annotated[str | None, Field(description='Such as PT1H30M; "" for none.'), _TAKEN_OFF]


@cookbook.tool("List recipes", read_only=True)
@require_provisioning("cookbook:read")
async def nc_cookbook_list_recipes(
    nc: Account,
    *,
    query: Annotated[str, Field(description="Words of the name, category or keywords.")] = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 100,
    cursor: str | None = None,
) -> RecipeList:
    """List the person's recipes by name, or find some; go on with cursor."""
    start = pagination.start(cursor, query)
    words = folded(query).split()
    found = [
        stub
        for stub in await nc.client(CookbookClient).list_recipes()
        if all(word in folded(f"{stub.name}\n{stub.category}\n{stub.keywords}") for word in words)
    ]
    rows = pagination.fit([results.recipe_row(stub) for stub in found[start : start + limit]])
    return RecipeList(
        recipes=rows, total=len(found), cursor=pagination.following(start + len(rows), len(found), query)
    )


@cookbook.tool("Read a recipe", read_only=True)
@require_provisioning("cookbook:read")
async def nc_cookbook_get_recipe(nc: Account, recipe_id: Id) -> RecipeText:
    """Read a recipe: its ingredients and steps, and the etag a change needs."""
    return results.text(await nc.client(CookbookClient).recipe(recipe_id))


@cookbook.tool("Save a recipe", destructive=True)
@require_provisioning("cookbook:write")
async def nc_cookbook_save_recipe(
    nc: Account,
    *,
    recipe_id: Annotated[Id | None, Field(description="To change one; with its etag.")] = None,
    etag: str | None = None,
    name: str | None = None,
    description: Annotated[str | None, _TAKEN_OFF] = None,
    ingredients: Texts = None,
    instructions: Annotated[Texts, Field(description="One text per step.")] = None,
    servings: Annotated[int | None, Field(ge=1)] = None,
    category: Annotated[str | None, _TAKEN_OFF] = None,
    keywords: Texts = None,
    prep_time: Time = None,
    cook_time: Time = None,
    total_time: Time = None,
    tools: Texts = None,
    url: Annotated[str | None, Field(description="Where it is from."), _TAKEN_OFF] = None,
) -> RecipeSaved:
    """Create a recipe, or change only the given parts of one; a list that is given replaces the whole list."""
    given = {
        "name": name,
        "description": description,
        "ingredients": ingredients,
        "instructions": instructions,
        "servings": servings,
        "category": category,
        "keywords": None if keywords is None else ",".join(keywords),
        "prep_time": _duration("prep_time", prep_time),
        "cook_time": _duration("cook_time", cook_time),
        "total_time": _duration("total_time", total_time),
        "tools": tools,
        "url": url,
    }
    fields = {FIELDS[part]: value for part, value in given.items() if value is not None}
    if name is not None and not name.strip():
        raise InvalidInput("'name' is empty: every recipe has one.")
    if recipe_id is None:
        if name is None or etag is not None:
            raise InvalidInput(
                "Send a 'name' to create a recipe, or the recipe_id with its etag to change one."
            )
        number = await nc.client(CookbookClient).create(fields)
    else:
        if etag is None or not fields:
            raise InvalidInput("Send the 'etag' that nc_cookbook_get_recipe answers, and what to change.")
        number = await nc.client(CookbookClient).update(
            await nc.client(CookbookClient).current(recipe_id, etag), fields
        )
    return await _saved(nc, number, fields, created=recipe_id is None)


async def _saved(nc: Account, number: Id, fields: Mapping[str, object], *, created: bool) -> RecipeSaved:
    try:
        recipe = await nc.client(CookbookClient).recipe(number)
    except file_errors.OF_ACCESS:
        raise
    except NextcloudError as error:
        note = f"It is saved, but it could not be read afterwards. {error}"
        return RecipeSaved(id=number, name=str(fields.get("name", "")), created=created, note=note)
    return results.saved(recipe, fields, created=created)


@cookbook.tool("Delete a recipe", destructive=True)
@require_provisioning("cookbook:write")
async def nc_cookbook_delete_recipe(nc: Account, recipe_id: Id, *, etag: str) -> RecipeDeleted:
    """Delete a recipe; the answer says how to restore it."""
    recipe = await nc.client(CookbookClient).current(recipe_id, etag)
    await nc.client(CookbookClient).delete(recipe_id)
    return results.deleted(recipe)


def _duration(name: str, text: str | None) -> str | None:
    """Return a duration in the form that Cookbook stores; it silently drops any other form."""
    if not text:
        return text
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidInput(f"'{name}' must be hours and minutes such as PT1H30M, or PT45M.")
    hours, minutes, seconds = (int(number or 0) for number in found.groups())
    minutes, seconds = minutes + seconds // _MINUTE, seconds % _MINUTE
    return f"PT{hours + minutes // _MINUTE}H{minutes % _MINUTE}M{seconds}S"
