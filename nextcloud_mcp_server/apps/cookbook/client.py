"""The Cookbook app (API 1.2, recorded from version 0.11.5; the rest was read in its code).

Cookbook accepts a recipe only as a whole: a PUT deletes the fields it leaves out, and without `id` in the body it
creates another recipe, whatever the URL says. There are no etags. So a recipe is read, compared with the state the
client saw, changed, and sent back completely.

A recipe in a list has a result of its own: it is found by all of its texts, and shown with some of them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import untrusted
from nextcloud_mcp_server.nextcloud import state_etag
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.decoding import decoded_aside
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.php_json import as_map
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.result import OMIT_EMPTY, LongText, Result, Text

_BASE: Final = "/index.php/apps/cookbook/api/v1/recipes"
_SENTENCES: Final = {
    404: "There is no such recipe. Call nc_cookbook_list_recipes for the ones there are.",
    409: "Another recipe has that name, so nothing was saved. Choose another name.",
}
#: Fields that Cookbook adds on reading, and would store if they were sent back.
_SHOWN_ONLY: Final = ("imageUrl", "printImage")


#: Limits in bytes: all of it is sent twice, as text and as structured content, and a result may have 80,000 bytes.
_ROOM: Final = {
    "description": 6_000,
    "ingredients": 9_000,
    "instructions": 16_000,
    **dict.fromkeys(("category", "keywords", "tools", "url", "nutrition"), 1_000),
}
_CUT: Final = (
    "This recipe is too long to be shown whole, and a list that is sent replaces all of its texts: read the rest in "
    "recipe.json of its folder, with the tools for files."
)


#: Every part is kept to be sent back with a change, whatever it is: a file of 4 MB took 150 MB of memory.
_MOST_PARTS: Final = 50_000
_TOO_MANY_PARTS: Final = (
    "This recipe has more parts than this server reads. It is a file, too: nc_files_read_file reads recipe.json of its "
    "folder in parts."
)


def words(keywords: str | None) -> list[str]:
    """Split the keywords of a recipe, which Cookbook keeps as one text."""
    return [word.strip() for word in (keywords or "").split(",") if word.strip()]


def _listed(keywords: object) -> object:
    return (words(keywords) or None) if isinstance(keywords, str) else keywords


def _facts(nutrition: object) -> list[str] | None:
    data = as_map(nutrition).items()
    return [f"{name}: {value}" for name, value in data if name != "@type" and value] or None


def _has_one(image: object) -> bool | None:
    return bool(image) or None


class Stub(Answer):
    """A recipe in a list."""

    id: Id
    name: str
    keywords: str | None = None
    category: str | None = None
    modified: str | None = Field(default=None, validation_alias="dateModified")


class Recipe(Result):
    """A recipe, with the etag that a change needs."""

    #: The fields that Cookbook stores, with its names, which are those of schema.org.
    fields: dict[str, Any] = Field(exclude=True)
    id: Id
    name: str
    #: A hash of its state.
    etag: str
    description: Annotated[LongText | None, OMIT_EMPTY] = None
    ingredients: list[str] = Field(default_factory=list[str], validation_alias="recipeIngredient")
    instructions: list[str] = Field(default_factory=list[str], validation_alias="recipeInstructions")
    servings: int | None = Field(default=None, validation_alias="recipeYield")
    category: Text = Field(default=None, validation_alias="recipeCategory")
    keywords: Annotated[list[str] | None, BeforeValidator(_listed)] = None
    prep_time: Text = Field(default=None, validation_alias="prepTime")
    cook_time: Text = Field(default=None, validation_alias="cookTime")
    total_time: Text = Field(default=None, validation_alias="totalTime")
    tools: Annotated[list[str] | None, OMIT_EMPTY] = Field(default=None, validation_alias="tool")
    nutrition: Annotated[list[str] | None, BeforeValidator(_facts)] = None
    url: Text = None
    has_image: Annotated[bool | None, BeforeValidator(_has_one)] = Field(
        default=None, validation_alias="image"
    )
    modified: str | None = Field(default=None, validation_alias="dateModified")
    note: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        data = cast("dict[str, Any]", value)
        fields = {name: each for name, each in data.items() if name not in _SHOWN_ONLY}
        return {**data, "fields": fields, "etag": state_etag.of(fields)}

    def fitting(self) -> "Recipe":
        """Return the recipe within the limits; its note says if texts were cut."""
        shown: dict[str, object] = {}
        for name, room in _ROOM.items():
            value: str | list[str] = getattr(self, name) or []
            texts = pagination.fitting([value] if isinstance(value, str) else value, room)
            part = texts[0] if isinstance(value, str) else texts
            if part != value:
                shown |= {name: part, "note": _CUT}
        return self.model_copy(update=shown)


_RECIPE: Final = TypeAdapter(Recipe)


class CookbookClient(AppClient):
    """Reads and writes one user's recipes."""

    async def list_recipes(self) -> list[Stub]:
        """Fetch all recipes, sorted by name."""
        return await self._request("GET", _BASE, list[Stub])

    async def recipe(self, recipe_id: Id) -> Recipe:
        """Fetch one recipe.

        Raises:
            NotFound: No such recipe.
            TooLarge: It has too many parts.
        """
        response = await self._http.request("GET", f"{_BASE}/{recipe_id}", sentences=_SENTENCES)
        if untrusted.has_more_elements(response.content, _MOST_PARTS):
            raise errors.TooLarge(_TOO_MANY_PARTS)
        return await decoded_aside(response, _RECIPE, uid=self._http.uid)

    async def create(self, fields: Mapping[str, object]) -> Id:
        """Create a recipe and return its id.

        Raises:
          Conflict: Another recipe has that name.
        """
        return str(await self._request("POST", _BASE, int, json=dict(fields), sentences=_SENTENCES))

    async def update(self, recipe: Recipe, fields: Mapping[str, object]) -> Id:
        """Set the given fields of a recipe that was just read and keep the others; return its id.

        Raises:
          Conflict: Another recipe has the new name.
        """
        whole = {**recipe.fields, **fields, "id": recipe.id}
        path = f"{_BASE}/{recipe.id}"
        return str(await self._request("PUT", path, int, json=whole, sentences=_SENTENCES))

    async def current(self, recipe_id: Id, if_match: str) -> Recipe:
        """Fetch a recipe and check that its etag is still `if_match`.

        Raises:
          EtagMismatch: It was changed since it was read.
        """
        recipe = await self.recipe(recipe_id)
        state_etag.require(if_match, recipe.etag)
        return recipe

    async def delete(self, recipe_id: Id) -> None:
        """Move a recipe's folder to the trash; Cookbook does not report a missing one."""
        await self._http.request("DELETE", f"{_BASE}/{recipe_id}", sentences=_SENTENCES)
