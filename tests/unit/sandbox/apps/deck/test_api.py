from collections.abc import Callable

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.deck.store import DeckCard, DeckStore

BOARDS = "/index.php/apps/deck/api/v1.0/boards"
COMMENTS = "/ocs/v2.php/apps/deck/api/v1.0/cards"


async def test_what_is_not_there_or_not_open_is_refused(connect: Callable[..., httpx2.AsyncClient]) -> None:
    sandbox = Sandbox.demo()
    card = next(iter(sandbox.state.store(DeckStore).cards.values()))
    where = f"{BOARDS}/1/stacks/{card.stack_id}/cards/{card.id}"
    alice, nobody = connect(sandbox, auth=("alice", "alice")), connect(sandbox)
    header = {"OCS-APIRequest": "true"}

    answers = [
        await alice.patch(BOARDS),
        await nobody.get(BOARDS),
        await nobody.get(f"{COMMENTS}/{card.id}/comments", headers=header),
        await alice.get(f"{COMMENTS}/9/comments", headers=header),
        await alice.put(f"{where}/assignLabel", json={"labelId": 9}),
        await alice.put(f"{where}/unassignUser", json={"userId": "bob"}),
        await alice.put(f"{where}/assignUser", json={"userId": "carol"}),
        await alice.get(f"{BOARDS}/1/stacks/1/cards/9"),
        await alice.post(f"{BOARDS}/1/stacks/9/cards", json={"title": "x"}),
    ]

    assert [answer.status_code for answer in answers] == [405, 401, 401, 403, 403, 404, 400, 403, 403]


async def test_an_archived_card_takes_no_label_and_an_unchanged_list_is_not_sent_again(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    sandbox = Sandbox.demo()
    card: DeckCard = next(iter(sandbox.state.store(DeckStore).cards.values()))
    card.archived = True
    alice = connect(sandbox, auth=("alice", "alice"))

    label = await alice.put(
        f"{BOARDS}/1/stacks/{card.stack_id}/cards/{card.id}/assignLabel", json={"labelId": 9}
    )
    listed = await alice.get(BOARDS)
    again = await alice.get(BOARDS, headers={"If-None-Match": listed.headers["ETag"]})

    assert (label.status_code, again.status_code) == (500, 304)


async def test_a_deleted_board_is_still_listed_but_not_given(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    alice = connect(Sandbox.demo(), auth=("alice", "alice"))
    [before] = (await alice.get(BOARDS)).json()
    await alice.delete(f"{BOARDS}/{before['id']}")

    [listed] = (await alice.get(BOARDS)).json()
    board = await alice.get(f"{BOARDS}/{before['id']}")

    assert (listed["id"], listed["deletedAt"] > 0, board.status_code) == (before["id"], True, 403)


async def test_a_due_date_loses_its_offset_and_only_the_answer_to_the_write_still_has_it(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    """As in nextcloud/deck#4764."""
    sandbox = Sandbox.demo()
    stack = next(iter(sandbox.state.store(DeckStore).cards.values())).stack_id
    alice = connect(sandbox, auth=("alice", "alice"))
    sent = {"title": "tz4", "type": "plain", "order": 0, "duedate": "2023-06-06T06:15:30+02:00"}

    made = (await alice.post(f"{BOARDS}/1/stacks/{stack}/cards", json=sent)).json()
    read = (await alice.get(f"{BOARDS}/1/stacks/{stack}/cards/{made['id']}")).json()

    assert (made["duedate"], read["duedate"]) == ("2023-06-06T06:15:30+02:00", "2023-06-06T06:15:30+00:00")
