import json
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.cookbook.tools import cookbook
from nextcloud_mcp_server.apps.files.tools import files
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools import answer
from tests.dav_fakes import account_in, account_over, call_in, network, recorded

FULL: dict[str, Any] = {
    "name": "Pancakes",
    "description": "Thin ones.",
    "ingredients": ["250 g flour", "3 eggs"],
    "instructions": ["Stir.\nLet it rest.", "Bake."],
    "servings": 3,
    "category": "Breakfast",
    "keywords": ["quick", "sweet"],
    "prep_time": "PT90M",
    "cook_time": "PT20M75S",
    "total_time": "PT1H",
    "tools": ["Pan"],
    "url": "https://example.org/pancakes",
}


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


async def call(account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    return await call_in(cookbook, account, f"nc_cookbook_{tool}", **arguments)


async def cheesecake(account: Account) -> Any:  # noqa: ANN401 - a recipe
    [row] = (await call(account, "list_recipes", query="cheese")).recipes
    return await call(account, "get_recipe", recipe_id=row.id)


async def test_a_recipe_has_the_same_time_in_a_list_and_by_itself(alice: Account) -> None:
    [row] = (await call(alice, "list_recipes", query="cheese")).recipes

    assert row.modified == (await cheesecake(alice)).modified


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["Cheesecake", "Lentil soup"]),
        ("CAKES sweet", ["Cheesecake"]),
        ("quick", ["Lentil soup"]),
        ("x", []),
    ],
)
async def test_recipes_are_found_by_name_category_and_keywords(
    alice: Account, query: str, names: list[str]
) -> None:
    found = await call(alice, "list_recipes", query=query)

    assert [row.name for row in found.recipes] == names
    assert (found.total, found.cursor) == (len(names), None)


async def test_following_the_cursor_gives_every_recipe_once(alice: Account) -> None:
    first = await call(alice, "list_recipes", limit=1)
    second = await call(alice, "list_recipes", limit=1, cursor=first.cursor)

    assert [first.recipes[0].name, second.recipes[0].name] == ["Cheesecake", "Lentil soup"]
    assert second.cursor is None


async def test_a_recipe_comes_back_as_it_was_saved(alice: Account) -> None:
    made = await call(alice, "save_recipe", **FULL)

    read = await call(alice, "get_recipe", recipe_id=made.id)

    expected = FULL | {"prep_time": "PT1H30M0S", "cook_time": "PT0H21M15S", "total_time": "PT1H0M0S"}
    assert read.model_dump(include=set(expected)) == expected
    assert (made.created, made.note, made.etag, read.note) == (True, None, read.etag, None)


async def test_only_the_given_parts_change_and_all_else_stays(alice: Account, sandbox: Sandbox) -> None:
    before = await cheesecake(alice)
    node = sandbox.state.users["alice"].files.get("/Recipes/Cheesecake/recipe.json")
    stored = {**json.loads(node.read()), "author": "Grandmother", "nutrition": {"calories": "300 kcal"}}
    sandbox.state.users["alice"].files.put(node.path, json.dumps(stored).encode())
    read = await call(alice, "get_recipe", recipe_id=before.id)

    saved = await call(
        alice, "save_recipe", recipe_id=read.id, etag=read.etag, name="Quark cake", total_time=""
    )

    after = json.loads(sandbox.state.users["alice"].files.get("/Recipes/Quark cake/recipe.json").read())
    changed = {
        "name": "Quark cake",
        "totalTime": None,
        "dateModified": after["dateModified"],
        "id": str(read.id),
    }
    assert after == stored | changed | {"nutrition": after["nutrition"]}
    assert read.nutrition == ["calories: 300 kcal"]
    assert (saved.id, saved.name, saved.created, saved.note) == (read.id, "Quark cake", False, None)
    for tool, more in (("save_recipe", {"servings": 1}), ("delete_recipe", {})):
        with pytest.raises(errors.EtagMismatch, match="again, look at what has changed"):
            await call(alice, tool, recipe_id=read.id, etag=before.etag, **more)


async def test_a_deleted_recipe_is_in_the_trash(alice: Account) -> None:
    before = await cheesecake(alice)

    gone = await call(alice, "delete_recipe", recipe_id=before.id, etag=before.etag)

    [item] = (await call_in(files, alice, "nc_files_list_trash")).items
    await call_in(files, alice, "nc_files_restore_trash", trash_id=item.trash_id)
    assert "nc_files_list_trash" in gone.undo
    assert await cheesecake(alice) == before


async def test_what_cookbook_stores_otherwise_is_told(alice: Account) -> None:
    saved = await call(
        alice, "save_recipe", name="A <b>cake</b>", instructions=["Below <90 °C>, stir."], url=""
    )

    assert saved.name == "A cake"
    assert saved.note.startswith("Cookbook stored these otherwise than they were sent: name, instructions.")


async def test_a_recipe_that_is_saved_but_cannot_be_read_is_saved(alice: Account) -> None:
    net = network(recorded("cookbook/recipe_create"), httpx2.Response(500), httpx2.Response(500))

    saved = await call(account_over(net), "save_recipe", name="Käsekuchen")

    assert (saved.id, saved.etag, saved.created) == ("359", None, True)
    assert saved.note.startswith("It is saved, but it could not be read afterwards.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Send a 'name'"),
        ({"name": " "}, "'name' is empty"),
        ({"name": "a", "etag": "x"}, "or the recipe_id with its etag"),
        ({"recipe_id": 1, "name": "a"}, "Send the 'etag'"),
        ({"recipe_id": 1, "etag": "x"}, "and what to change"),
        ({"name": "a", "prep_time": "90 minutes"}, "'prep_time' must be hours and minutes"),
        ({"name": "a", "cook_time": "PT"}, "'cook_time' must be"),
    ],
)
async def test_what_cannot_be_saved_is_refused_before_anything_is_sent(
    alice: Account, sandbox: Sandbox, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=words):
        await call(alice, "save_recipe", **arguments)

    assert sandbox.requests.total == 0


async def test_a_taken_name_is_refused(alice: Account) -> None:
    with pytest.raises(errors.Conflict, match="Another recipe has that name"):
        await call(alice, "save_recipe", name="Cheesecake")


async def test_a_recipe_too_long_for_a_result_is_cut_and_says_so(alice: Account) -> None:
    long = ["\x01" * 50_000, "second"]
    made = await call(
        alice, "save_recipe", name="Long", description="d" * 9_000, ingredients=["i" * 100] * 500,
        instructions=long, category="c" * 9_000, keywords=["k" * 9_000], tools=["\x01" * 16_000, "second"],
        url="u" * 9_000,
    )  # fmt: skip

    read = await call(alice, "get_recipe", recipe_id=made.id)
    listed = await call(alice, "list_recipes", query="long")

    assert answer.result(read)
    assert answer.result(listed)
    assert "recipe.json" in read.note
    assert read.ingredients[0] == "i" * 100
    assert len(read.instructions) == 1


async def test_a_recipe_of_another_user_is_not_there(alice: Account, sandbox: Sandbox) -> None:
    recipe = await cheesecake(alice)

    with pytest.raises(errors.NotFound, match="no such recipe"):
        await call(account_in(sandbox, "bob"), "get_recipe", recipe_id=recipe.id)


async def test_a_recipe_of_a_million_parts_is_refused_with_the_way_to_read_it() -> None:
    """A file of 4 MB took 150 MB of memory."""
    parts = ",".join(['{"a":0}'] * 30_000)
    body = f'{{"id":1,"name":"Cake","x":[{parts}]}}'
    account = account_over(network(httpx2.Response(200, text=body)))

    with pytest.raises(errors.TooLarge, match="nc_files_read_file reads recipe"):
        await call(account, "get_recipe", recipe_id="1")
