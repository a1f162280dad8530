"""How the recordings of Cookbook are replayed."""

from tests.contract.recording import load
from tests.contract.replay import Session, Step, Table, case
from tests.contract.steps import JSON, RECIPES, expect

# The location of an error in Cookbook's own code.
_PLACE = ("file", "line")
_TIMES = ("dateCreated", "dateModified")
_MADE_AS = load("cookbook/recipe_create").json


def made() -> Step:
    """Create the recorded recipe; its id here stands for the recorded one."""

    async def step(session: Session) -> None:
        body = load("cookbook/recipe_create").body
        answer = await session.server.send("POST", RECIPES, headers=JSON, body=body)
        session.bind(_MADE_AS, expect(answer, 200).json())

    return step


COOKBOOK: Table = {
    # The response is only the id.
    "cookbook/recipe_create": case(ignore=("",)),
    "cookbook/recipe_create_duplicate_409": case(made(), ignore=_PLACE),
    "cookbook/recipe_delete": case(made()),
    "cookbook/recipe_get": case(made(), ignore=_TIMES),
    "cookbook/recipe_get_404": case(),
    "cookbook/recipe_update_without_id_409": case(made(), ignore=_PLACE),
    "cookbook/recipes_empty": case(),
    "cookbook/recipes_search": case(made(), ignore=(*_TIMES, "imageUrl")),
}
