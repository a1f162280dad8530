"""The Cookbook app (API 1.2, recorded from version 0.11.5; what the recordings leave open was read in its code).

Cookbook takes a recipe only as a whole: what a PUT leaves out is gone, and one without the `id` in its body
makes another recipe, whatever its address says. It has no etags. So a recipe is read, compared with what the
caller saw, changed, and sent back with all it had.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.error_mapping import CHANGED
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp, decoded
from nextcloud_mcp_server.nextcloud.ids import Id

_BASE: Final = "/index.php/apps/cookbook/api/v1/recipes"
_SENTENCES: Final = {
    404: "There is no such recipe. Call nc_cookbook_list_recipes for the ones there are.",
    409: "Another recipe has that name, so nothing was saved. Choose another name.",
}
#: What Cookbook adds when it shows a recipe, and would store if it were sent back.
_SHOWN_ONLY: Final = ("imageUrl", "printImage")


def _object(value: object) -> object:
    # PHP writes an empty map as a list.
    return cast("object", value) if isinstance(value, dict) else {}


class Stub(Answer):
    """A recipe in a list."""

    id: Id
    name: str
    keywords: str | None = None
    category: str | None = None
    modified: str | None = Field(default=None, validation_alias="dateModified")


class Recipe(Answer):
    """One recipe in the words of schema.org; `raw` is all that Cookbook says of it."""

    raw: dict[str, Any]
    id: Id
    name: str
    description: str | None = None
    ingredients: list[str] = Field(default_factory=list[str], validation_alias="recipeIngredient")
    instructions: list[str] = Field(default_factory=list[str], validation_alias="recipeInstructions")
    servings: int | None = Field(default=None, validation_alias="recipeYield")
    category: str | None = Field(default=None, validation_alias="recipeCategory")
    keywords: str | None = None
    prep_time: str | None = Field(default=None, validation_alias="prepTime")
    cook_time: str | None = Field(default=None, validation_alias="cookTime")
    total_time: str | None = Field(default=None, validation_alias="totalTime")
    tools: list[str] = Field(default_factory=list[str], validation_alias="tool")
    url: str | None = None
    nutrition: Annotated[dict[str, Any], BeforeValidator(_object)] = Field(default_factory=dict[str, Any])
    image: str | None = None
    modified: str | None = Field(default=None, validation_alias="dateModified")

    @model_validator(mode="before")
    @classmethod
    def _keep(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Any]", value)
        return {**fields, "raw": fields}

    @property
    def fields(self) -> dict[str, Any]:
        """What is stored of it."""
        return {name: value for name, value in self.raw.items() if name not in _SHOWN_ONLY}

    @property
    def etag(self) -> str:
        """Tell one state of the recipe from another, for Cookbook has no etags."""
        return hashlib.sha256(json.dumps(self.fields, sort_keys=True).encode()).hexdigest()[:16]


_STUBS = TypeAdapter(list[Stub], config=ConfigDict(defer_build=True))
_RECIPE = TypeAdapter(Recipe)
_ID: Final[TypeAdapter[str]] = TypeAdapter(Id)


class CookbookClient:
    """Reads and writes one user's recipes."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    async def list_recipes(self) -> list[Stub]:
        """Fetch all recipes, by name."""
        return decoded(await self._http.request("GET", _BASE), _STUBS)

    async def recipe(self, recipe_id: Id) -> Recipe:
        """Fetch one recipe.

        Raises:
            NotFound: No such recipe.
        """
        response = await self._http.request("GET", f"{_BASE}/{recipe_id}", sentences=_SENTENCES)
        return decoded(response, _RECIPE)

    async def create(self, fields: Mapping[str, object]) -> Id:
        """Make a recipe, and give its id.

        Raises:
            Conflict: Another one has that name.
        """
        response = await self._http.request("POST", _BASE, json=dict(fields), sentences=_SENTENCES)
        return decoded(response, _ID)

    async def update(self, recipe: Recipe, fields: Mapping[str, object]) -> Id:
        """Set the given fields of a recipe that was just read; the others stay. Give its id.

        Raises:
            Conflict: Another one has the new name.
        """
        whole = {**recipe.fields, **fields, "id": recipe.id}
        response = await self._http.request("PUT", f"{_BASE}/{recipe.id}", json=whole, sentences=_SENTENCES)
        return decoded(response, _ID)

    async def current(self, recipe_id: Id, if_match: str) -> Recipe:
        """Read a recipe and compare it with what the caller saw.

        Raises:
            EtagMismatch: It was changed since.
        """
        recipe = await self.recipe(recipe_id)
        if if_match.strip().strip('"') != recipe.etag:
            raise errors.EtagMismatch(CHANGED, current_etag=recipe.etag)
        return recipe

    async def delete(self, recipe_id: Id) -> None:
        """Move a recipe's folder to the trash; Cookbook does not say when there was none."""
        await self._http.request("DELETE", f"{_BASE}/{recipe_id}", sentences=_SENTENCES)
