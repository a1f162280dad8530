"""The API 1 of the Cookbook app, recorded from version 0.11.5: recipes are files in folders of their own."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.files import FileTree
from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, refuse_json
from nextcloud_mcp_server.sandbox.node import Node
from nextcloud_mcp_server.sandbox.reply import empty_html, json_reply
from nextcloud_mcp_server.sandbox.state import State, User

FOLDER = "/Recipes"
_FILE = "recipe.json"
_RECIPES = re.compile(r"recipes(?:/(?P<id>\d+))?|search/(?P<query>[^/]+)")
_TAKEN = {
    "msg": "Another recipe with that name already exists",
    "file": "/srv/nextcloud/apps_extra/cookbook/lib/Service/RecipeService.php",
    "line": 248,
}
_NAMELESS = {**_TAKEN, "msg": "No recipe name was given. A unique name is required to store the recipe."}
_DURATION = re.compile(r"PT(\d+)H(\d+)M(\d+)S")

Fields = dict[str, Any]


class CookbookApi:
    """Answers below /apps/cookbook/api/v1."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        methods = ["GET", "POST", "PUT", "DELETE"]
        return [Route("/apps/cookbook/api/v1/{path:path}", self._answer, methods=methods)]

    async def _answer(self, request: Request) -> Response:
        found = _RECIPES.fullmatch(request.path_params["path"])
        if found is None:
            return empty_html(404)
        # It is open to other origins, like the Notes API.
        person = self._gate.identify(request, "notes")
        if isinstance(person, Refusal):
            return refuse_json(person)
        user, number, query = person.user, found["id"], found["query"]
        match request.method, number:
            case "GET", None:
                response = json_reply(self._stubs(user, query))
            case "GET", _:
                response = self._show(user, int(number))
            case "POST", None:
                response = self._save(user, await _body(request))
            case "PUT", str():
                # Which recipe is meant is said by the body alone.
                response = self._save(user, await _body(request))
            case "DELETE", str():
                response = self._delete(user, int(number))
            case _:
                return empty_html(405)
        response.headers["X-User-Id"] = user.uid
        return response

    def _stubs(self, user: User, query: str | None) -> list[Fields]:
        folder = user.files.find(FOLDER)
        folders = [node for node in folder.sorted_children() if _FILE in node.children] if folder else []
        recipes = [recipe_of(node) for node in folders]
        words = re.findall(r"[^ ,]+", (query or "").lower())
        return [
            _stub(recipe)
            for recipe in recipes
            if not words or any(word in _searched(recipe) for word in words)
        ]

    def _show(self, user: User, number: int) -> Response:
        folder = _folder(user, number)
        if folder is None:
            return json_reply(number, status=404)
        recipe = recipe_of(folder)
        facts = {"@type": "NutritionInformation", **dict(recipe["nutrition"])}
        image = f"/apps/cookbook/webapp/recipes/{number}/image?size=full"
        return json_reply(recipe | {"nutrition": facts, "printImage": True, "imageUrl": image})

    def _save(self, user: User, sent: Fields) -> Response:
        if not sent.get("name"):
            return json_reply(_NAMELESS, status=422)
        folder = _folder(user, int(sent["id"])) if sent.get("id") else None
        path = f"{FOLDER}/{_folder_name(_clean(sent['name']))}"
        if (folder is None or folder.path != path) and user.files.find(path) is not None:
            return json_reply(_TAKEN, status=409)
        if folder is not None and folder.path != path:
            user.files.move(folder.path, path)
        return json_reply(store(user.files, sent, self._context.clock(), made=folder is None).file_id)

    def _delete(self, user: User, number: int) -> Response:
        folder = _folder(user, number)
        if folder is not None:
            user.files.trash_file(folder.path)
        return json_reply(f"Recipe {number} deleted successfully")


def store(files: FileTree, sent: Mapping[str, Any], now: datetime, *, made: bool) -> Node:
    """Store a recipe as the app does: it drops what it cannot read, without an error."""
    moment = f"{now:%Y-%m-%dT%H:%M:%S}+00:00"
    recipe: Fields = {
        **sent,
        "@context": "http://schema.org",
        "@type": "Recipe",
        "name": _clean(sent["name"]),
        "description": _clean(sent.get("description")),
        "recipeIngredient": _texts(sent.get("recipeIngredient")),
        "recipeInstructions": _texts(sent.get("recipeInstructions")),
        "recipeYield": sent.get("recipeYield"),
        "recipeCategory": _clean(sent.get("recipeCategory")),
        "keywords": ",".join(dict.fromkeys(_texts((sent.get("keywords") or "").split(",")))),
        "tool": _texts(sent.get("tool")),
        "url": sent.get("url") or "",
        "image": sent.get("image") or "",
        "nutrition": sent.get("nutrition") or [],
        "datePublished": sent.get("datePublished"),
        "dateCreated": moment if made else sent.get("dateCreated"),
        "dateModified": moment,
        **{name: _duration(sent.get(name)) for name in ("prepTime", "cookTime", "totalTime")},
    }
    folder = files.make_folder(f"{FOLDER}/{_folder_name(recipe['name'])}", parents=True)
    files.put(f"{folder.path}/{_FILE}", json.dumps(recipe).encode())
    return folder


def recipe_of(folder: Node) -> Fields:
    """Return the recipe in a folder."""
    return {**json.loads(folder.children[_FILE].read()), "id": str(folder.file_id)}


def _folder(user: User, number: int) -> Node | None:
    found = user.files.find_by_id(number)
    inside = found is not None and found.parent is not None and found.parent.path == FOLDER
    return found if inside and found is not None and _FILE in found.children else None


def _searched(recipe: Fields) -> str:
    return f"{recipe['name']}\n{recipe['recipeCategory']}\n{recipe['keywords']}".lower()


def _stub(recipe: Fields) -> Fields:
    number = recipe["id"]
    image = f"/apps/cookbook/webapp/recipes/{number}/image"
    modified = datetime.fromisoformat(recipe["dateModified"]).timestamp()
    return {
        "recipe_id": int(number),
        "name": recipe["name"],
        "keywords": ",".join(sorted(recipe["keywords"].split(","))) or None,
        "category": recipe["recipeCategory"] or None,
        "dateCreated": (recipe["dateCreated"] or "").replace("+00:00", "+0000") or None,
        "dateModified": recipe["dateModified"].replace("+00:00", "+0000"),
        "imageUrl": f"{image}?t={modified:.0f}&size=thumb",
        "imagePlaceholderUrl": f"{image}?size=thumb16",
        "id": number,
    }


async def _body(request: Request) -> Fields:
    return cast("Fields", json.loads(await request.body()))


def _clean(text: str | None) -> str:
    plain = re.sub(r"<[^>]*>", "", text or "").replace("\\", "_")
    return re.sub(" +", " ", html.unescape(plain)).strip()


def _texts(texts: Sequence[str] | None) -> list[str]:
    return [cleaned for text in texts or [] if (cleaned := _clean(text))]


def _duration(text: str | None) -> str | None:
    return text if text and _DURATION.fullmatch(text) else None


def _folder_name(name: str) -> str:
    return re.sub(r"[/:?!\"\\'|&^#]", "_", name)[:100]


_ALICE_RECIPES = (
    {
        "name": "Cheesecake",
        "description": "As grandmother made it.",
        "recipeIngredient": ["500 g quark", "200 g sugar", "4 eggs", "1 lemon"],
        "recipeInstructions": ["Stir everything together.", "Bake it for 50 minutes at 170 °C."],
        "recipeYield": 8,
        "recipeCategory": "Cakes",
        "keywords": "sweet,baking",
        "totalTime": "PT1H15M0S",
    },
    {
        "name": "Lentil soup",
        "recipeIngredient": ["250 g red lentils", "2 carrots", "1 l broth"],
        "recipeInstructions": ["Cook it all for 20 minutes."],
        "recipeYield": 4,
        "recipeCategory": "Soups",
        "keywords": "quick",
    },
)


def _add_recipes(state: State) -> None:
    """Give alice two recipes."""
    for recipe in _ALICE_RECIPES:
        store(state.users["alice"].files, recipe, state.clock(), made=True)


def _capability(_context: Context, _user: User) -> dict[str, object]:
    return {"api-version": {"epoch": 0, "major": 1, "minor": 2}, "version": [0, 11, 5]}


app = SandboxApp(
    "cookbook", api=CookbookApi, capability=_capability, menu=("Cookbook", 100), seed=_add_recipes
)
