import json

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.cookbook.client import CookbookClient
from tests.dav_fakes import Network, http_over, network, recorded


def client(*answers: httpx2.Response) -> tuple[CookbookClient, Network]:
    net = network(*answers)
    return CookbookClient(http_over(net)), net


async def test_a_change_sends_the_whole_recipe_with_its_id_and_nothing_that_was_only_shown() -> None:
    cookbook, net = client(recorded("cookbook/recipe_get"), recorded("cookbook/recipe_create"))
    recipe = await cookbook.recipe("359")

    number = await cookbook.update(recipe, {"recipeYield": 6})

    shown = json.loads(recorded("cookbook/recipe_get").content)
    del shown["imageUrl"], shown["printImage"]
    assert json.loads(net.seen[1].content) == shown | {"recipeYield": 6, "id": "359"}
    assert number == "359"


async def test_what_is_missing_or_has_a_taken_name_is_told() -> None:
    cookbook, _ = client(
        recorded("cookbook/recipe_get_404"), recorded("cookbook/recipe_create_duplicate_409")
    )

    with pytest.raises(errors.NotFound, match="no such recipe"):
        await cookbook.recipe("359")
    with pytest.raises(errors.Conflict, match="Another recipe has that name"):
        await cookbook.create({"name": "Käsekuchen"})


async def test_recipes_are_listed_with_what_they_are_found_by() -> None:
    cookbook, net = client(recorded("cookbook/recipes_search"), recorded("cookbook/recipes_empty"))

    [stub], none = await cookbook.list_recipes(), await cookbook.list_recipes()

    assert (stub.id, stub.name, stub.category, stub.keywords) == (
        "359",
        "Käsekuchen",
        "Dessert",
        "cake,sweet",
    )
    assert (none, net.methods) == ([], ["GET", "GET"])


async def test_facts_in_numbers_are_read_like_texts() -> None:
    """U71: a recipe whose nutrition is a number does not break reading it."""
    recipe = {"id": 359, "name": "Käsekuchen", "nutrition": {"calories": 310, "fatContent": "12 g"}}
    cookbook, _ = client(
        httpx2.Response(200, json=recipe), httpx2.Response(200, json={**recipe, "nutrition": 7})
    )

    facts, none = [(await cookbook.recipe("359")).nutrition for _ in range(2)]

    assert (facts, none) == (["calories: 310", "fatContent: 12 g"], None)


@pytest.mark.parametrize("body", ["[]", "{}", '{"id": "x", "name": "a"}'])
async def test_what_is_no_recipe_is_refused(body: str) -> None:
    cookbook, _ = client(httpx2.Response(200, text=body))

    with pytest.raises(errors.ServerFault, match="unreadable"):
        await cookbook.recipe("1")
