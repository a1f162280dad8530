"""Tools for the Cookbook app."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from nextcloud_mcp_server.apps.cookbook.client import CookbookClient, Recipe, Stub, words
from nextcloud_mcp_server.errors import InvalidInput, NextcloudError
from nextcloud_mcp_server.nextcloud import file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.named import having_words
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

cookbook = Toolset("cookbook")

_DURATION = re.compile(r"PT(?=\d)(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,5})S)?")
_MINUTE = 60
#: How many bytes of its category, and of its keywords, a list shows of a recipe.
_ROW_BYTES = 1_000
#: The names that Cookbook has for the parts of a recipe.
_FIELDS = {name: str(field.validation_alias or name) for name, field in Recipe.model_fields.items()}
_ZONE = re.compile(r"([+-]\d\d)(\d\d)$")

Texts = list[str] | None
_TAKEN_OFF = Empty("takes it off")
Time = Annotated[str | None, Field(description='Such as PT1H30M; "" for none.'), _TAKEN_OFF]


class RecipeRow(Result):
    """A recipe in a list."""

    id: Id
    name: str
    category: str | None = None
    keywords: list[str] | None = None
    modified: str | None = None


class RecipeList(Result):
    """A page of recipes; `total` counts those that were found."""

    recipes: list[RecipeRow]
    total: int
    cursor: str | None = None


class RecipeSaved(Result):
    """What was saved, under the name that Cookbook gave it."""

    id: Id
    name: str
    etag: str | None = None
    created: bool
    note: str | None = None


class RecipeDeleted(Result):
    """What was deleted, and how to undo it."""

    deleted: str
    undo: str


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
    listing = pagination.Listing(cursor, query)
    stubs = await nc.client(CookbookClient).list_recipes()
    found = await having_words(
        query, stubs, lambda stub: (stub.name, str(stub.category), str(stub.keywords)), uid=nc.uid
    )
    rows, cursor = listing.page([_row(stub) for stub in found], limit)
    return RecipeList(recipes=rows, total=len(found), cursor=cursor)


@cookbook.tool("Read a recipe", read_only=True)
@require_provisioning("cookbook:read")
async def nc_cookbook_get_recipe(nc: Account, recipe_id: Id) -> Recipe:
    """Read a recipe: its ingredients and steps, and the etag a change needs."""
    return (await nc.client(CookbookClient).recipe(recipe_id)).fitting()


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
    sent = {part: value for part, value in given.items() if value is not None}
    fields = {_FIELDS[part]: value for part, value in sent.items()}
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
    return await _saved(nc, number, sent, created=recipe_id is None)


async def _saved(nc: Account, number: Id, sent: Mapping[str, object], *, created: bool) -> RecipeSaved:
    """Read a saved recipe, and tell which parts of it Cookbook changed."""
    try:
        recipe = await nc.client(CookbookClient).recipe(number)
    except file_errors.OF_ACCESS:
        raise
    except NextcloudError as error:
        note = f"It is saved, but it could not be read afterwards. {error}"
        return RecipeSaved(id=number, name=str(sent.get("name", "")), created=created, note=note)
    others = [
        part for part, value in sent.items() if (recipe.fields.get(_FIELDS[part]) or None) != (value or None)
    ]
    note = (
        f"Cookbook stored these otherwise than they were sent: {', '.join(others)}. It takes out HTML and "
        "backslashes, and what it cannot read: read the recipe to see what is left."
    )
    return RecipeSaved(
        id=recipe.id, name=recipe.name, etag=recipe.etag, created=created, note=note if others else None
    )


@cookbook.tool("Delete a recipe", destructive=True)
@require_provisioning("cookbook:write")
async def nc_cookbook_delete_recipe(nc: Account, recipe_id: Id, *, etag: str) -> RecipeDeleted:
    """Delete a recipe; the answer says how to restore it."""
    recipe = await nc.client(CookbookClient).current(recipe_id, etag)
    await nc.client(CookbookClient).delete(recipe_id)
    return RecipeDeleted(
        deleted=f"{recipe.name} ({recipe.id})",
        undo="Its folder is in the trash of the person's files: nc_files_list_trash finds it, nc_files_restore_trash "
        "puts it back, and Cookbook shows it again some minutes later.",
    )


def _row(stub: Stub) -> RecipeRow:
    return RecipeRow(
        id=stub.id,
        name=stub.name,
        category=pagination.fitting([stub.category or ""], _ROW_BYTES)[0] or None,
        keywords=pagination.fitting(words(stub.keywords), _ROW_BYTES) or None,
        # Lists have the time as PHP's DATE_ISO8601 writes it, without the colon of other responses.
        modified=stub.modified and _ZONE.sub(r"\1:\2", stub.modified),
    )


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
