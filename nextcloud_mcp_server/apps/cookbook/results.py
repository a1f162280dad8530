"""Results of the Cookbook tools."""

import re
from collections.abc import Mapping
from typing import Final

from nextcloud_mcp_server.apps.cookbook.client import Recipe, Stub
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.result import LongText, Result

#: The tools' names for the fields of a recipe, and those of schema.org.
FIELDS: Final[Mapping[str, str]] = {
    "name": "name",
    "description": "description",
    "ingredients": "recipeIngredient",
    "instructions": "recipeInstructions",
    "servings": "recipeYield",
    "category": "recipeCategory",
    "keywords": "keywords",
    "prep_time": "prepTime",
    "cook_time": "cookTime",
    "total_time": "totalTime",
    "tools": "tool",
    "url": "url",
}
_ZONE: Final = re.compile(r"([+-]\d\d)(\d\d)$")
_OTHER_BYTES: Final = 1_000
#: Limits for description, ingredients, instructions and the shorter ones: all of it is sent twice, as text and as
#: structured content, and a result may have 80,000 bytes.
_BYTES: Final = (6_000, 9_000, 16_000, *(_OTHER_BYTES,) * 5)
_CUT: Final = (
    "This recipe is too long to be shown whole, and a list that is sent replaces all of its texts: read the rest in "
    "recipe.json of its folder, with the tools for files."
)


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


class RecipeText(Result):
    """A recipe, with the etag that a change needs."""

    id: Id
    name: str
    etag: str
    description: LongText | None = None
    ingredients: list[str]
    instructions: list[str]
    servings: int | None = None
    category: str | None = None
    keywords: list[str] | None = None
    prep_time: str | None = None
    cook_time: str | None = None
    total_time: str | None = None
    tools: list[str] | None = None
    nutrition: list[str] | None = None
    url: str | None = None
    has_image: bool | None = None
    modified: str | None = None
    note: str | None = None


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


def recipe_row(stub: Stub) -> RecipeRow:
    """Return the list row of a recipe."""
    return RecipeRow(
        id=stub.id,
        name=stub.name,
        category=pagination.fitting([stub.category or ""], _OTHER_BYTES)[0] or None,
        keywords=pagination.fitting(_words(stub.keywords), _OTHER_BYTES) or None,
        # Lists have the time as PHP's DATE_ISO8601 writes it, without the colon of other responses.
        modified=stub.modified and _ZONE.sub(r"\1:\2", stub.modified),
    )


def text(recipe: Recipe) -> RecipeText:
    """Return a recipe, cut to the limits."""
    facts = {name: str(value) for name, value in recipe.nutrition.items() if name != "@type" and value}
    whole: list[list[str]] = [
        [recipe.description or ""],
        recipe.ingredients,
        recipe.instructions,
        [recipe.category or ""],
        _words(recipe.keywords),
        recipe.tools,
        [recipe.url or ""],
        [f"{name}: {value}" for name, value in facts.items()],
    ]
    shown = [pagination.fitting(texts, room) for texts, room in zip(whole, _BYTES, strict=True)]
    (description, *_), ingredients, instructions, (category, *_), keywords, tools, (url, *_), nutrition = (
        shown
    )
    return RecipeText(
        id=recipe.id,
        name=recipe.name,
        etag=recipe.etag,
        description=description or None,
        ingredients=ingredients,
        instructions=instructions,
        servings=recipe.servings,
        category=category or None,
        keywords=keywords or None,
        prep_time=recipe.prep_time or None,
        cook_time=recipe.cook_time or None,
        total_time=recipe.total_time or None,
        tools=tools or None,
        nutrition=nutrition or None,
        url=url or None,
        has_image=True if recipe.image else None,
        modified=recipe.modified,
        note=None if shown == whole else _CUT,
    )


def saved(recipe: Recipe, sent: Mapping[str, object], *, created: bool) -> RecipeSaved:
    """Return what was saved, and which fields Cookbook changed."""
    others = [
        name
        for name, field in FIELDS.items()
        if field in sent and (recipe.raw.get(field) or None) != (sent[field] or None)
    ]
    note = (
        f"Cookbook stored these otherwise than they were sent: {', '.join(others)}. It takes out HTML and "
        "backslashes, and what it cannot read: read the recipe to see what is left."
    )
    return RecipeSaved(
        id=recipe.id, name=recipe.name, etag=recipe.etag, created=created, note=note if others else None
    )


def deleted(recipe: Recipe) -> RecipeDeleted:
    """Return the deleted recipe, and where it can still be found."""
    return RecipeDeleted(
        deleted=f"{recipe.name} ({recipe.id})",
        undo="Its folder is in the trash of the person's files: nc_files_list_trash finds it, nc_files_restore_trash "
        "puts it back, and Cookbook shows it again some minutes later.",
    )


def _words(keywords: str | None) -> list[str]:
    return [word.strip() for word in (keywords or "").split(",") if word.strip()]
