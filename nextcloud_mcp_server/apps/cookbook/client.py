"""The Cookbook app (API 1.2, recorded from version 0.11.5; the rest was read in its code).

Cookbook accepts a recipe only as a whole: a PUT deletes the fields it leaves out, and without `id` in the body it
creates another recipe, whatever the URL says. There are no etags. So a recipe is read, compared with the state the
client saw, changed, and sent back completely.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.error_mapping import CHANGED
from nextcloud_mcp_server.nextcloud.http import Answer, decoded
from nextcloud_mcp_server.nextcloud.ids import Id

_BASE: Final = "/index.php/apps/cookbook/api/v1/recipes"
_SENTENCES: Final = {
    404: "There is no such recipe. Call nc_cookbook_list_recipes for the ones there are.",
    409: "Another recipe has that name, so nothing was saved. Choose another name.",
}
#: Fields that Cookbook adds on reading, and would store if they were sent back.
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
    """One recipe in terms of schema.org; `raw` is Cookbook's complete answer."""

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
        """The fields that Cookbook stores."""
        return {name: value for name, value in self.raw.items() if name not in _SHOWN_ONLY}

    @property
    def etag(self) -> str:
        """A hash of the recipe's state, since Cookbook has no etags."""
        return hashlib.sha256(json.dumps(self.fields, sort_keys=True).encode()).hexdigest()[:16]


_STUBS = TypeAdapter(list[Stub], config=ConfigDict(defer_build=True))
_RECIPE = TypeAdapter(Recipe)
_ID: Final[TypeAdapter[str]] = TypeAdapter(Id)


class CookbookClient(AppClient):
    """Reads and writes one user's recipes."""

    async def list_recipes(self) -> list[Stub]:
        """Fetch all recipes, sorted by name."""
        return decoded(await self._http.request("GET", _BASE), _STUBS)

    async def recipe(self, recipe_id: Id) -> Recipe:
        """Fetch one recipe.

        Raises:
            NotFound: No such recipe.
        """
        response = await self._http.request("GET", f"{_BASE}/{recipe_id}", sentences=_SENTENCES)
        return decoded(response, _RECIPE)

    async def create(self, fields: Mapping[str, object]) -> Id:
        """Create a recipe and return its id.

        Raises:
          Conflict: Another recipe has that name.
        """
        response = await self._http.request("POST", _BASE, json=dict(fields), sentences=_SENTENCES)
        return decoded(response, _ID)

    async def update(self, recipe: Recipe, fields: Mapping[str, object]) -> Id:
        """Set the given fields of a recipe that was just read and keep the others; return its id.

        Raises:
          Conflict: Another recipe has the new name.
        """
        whole = {**recipe.fields, **fields, "id": recipe.id}
        response = await self._http.request("PUT", f"{_BASE}/{recipe.id}", json=whole, sentences=_SENTENCES)
        return decoded(response, _ID)

    async def current(self, recipe_id: Id, if_match: str) -> Recipe:
        """Fetch a recipe and check that its etag is still `if_match`.

        Raises:
          EtagMismatch: It was changed since it was read.
        """
        recipe = await self.recipe(recipe_id)
        if if_match.strip().strip('"') != recipe.etag:
            raise errors.EtagMismatch(CHANGED, current_etag=recipe.etag)
        return recipe

    async def delete(self, recipe_id: Id) -> None:
        """Move a recipe's folder to the trash; Cookbook does not report a missing one."""
        await self._http.request("DELETE", f"{_BASE}/{recipe_id}", sentences=_SENTENCES)
