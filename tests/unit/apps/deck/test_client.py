import json
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.deck.client import Changes, DeckClient, Place
from nextcloud_mcp_server.apps.deck.models import Card
from tests.dav_fakes import Network, http_over, network, recorded

PLACE = Place("2", "9", "11")


def card(**fields: object) -> dict[str, Any]:
    return {**json.loads(recorded("deck/card_get").content), **fields}


def ok(body: object) -> httpx2.Response:
    return httpx2.Response(200, json=body)


def client(*answers: httpx2.Response) -> tuple[DeckClient, Network]:
    net = network(*answers)
    return DeckClient(http_over(net)), net


async def test_a_change_sends_back_all_that_a_card_has_also_what_a_newer_deck_adds() -> None:
    """U70."""
    newer = card(startdate="2026-12-01T00:00:00+00:00", color="ff0000", done="2026-11-01T00:00:00+00:00")
    deck, net = client(ok(newer), ok(newer), ok({**newer, "title": "x"}))

    changed = await deck.update(PLACE, Changes(title="x"), if_match=Card.model_validate(newer).etag)

    assert json.loads(net.seen[1].content) == {
        "title": "x", "type": "plain", "owner": "alice", "description": "desc", "order": 1,
        "duedate": "2026-12-24T18:00:00+00:00", "done": "2026-11-01T00:00:00+00:00",
        "startdate": "2026-12-01T00:00:00+00:00", "color": "ff0000",
    }  # fmt: skip
    assert (changed.card.title, changed.note) == ("x", None)


async def test_a_move_names_the_target_in_the_address_and_in_the_body() -> None:
    moved = {**json.loads(recorded("deck/card_reorder").content)[0], "stackId": 10}
    deck, net = client(ok(card()), ok([moved]))

    await deck.move(PLACE, "10", position=0, if_match=Card.model_validate(card()).etag)

    assert net.seen[1].url.path.endswith("/boards/2/stacks/10/cards/11/reorder")
    assert json.loads(net.seen[1].content) == {"stackId": 10, "order": 0}


@pytest.mark.parametrize("answer", [[], json.loads(recorded("deck/card_reorder").content)])
async def test_a_move_that_deck_only_says_it_did_is_a_fault(answer: object) -> None:
    deck, _ = client(ok(card()), ok(answer))

    with pytest.raises(errors.ServerFault, match="did not arrive"):
        await deck.move(PLACE, "10", position=0, if_match=Card.model_validate(card()).etag)


async def test_a_list_without_details_is_read_and_deleted_boards_are_left_out() -> None:
    [board] = json.loads(recorded("deck/boards_list").content)
    deck, _ = client(ok([board, {**board, "id": 3, "deletedAt": 5, "owner": "alice"}]))

    found = await deck.list_boards()

    assert [(one.id, one.owner, one.labels) for one in found] == [("1", "Alice Example", [])]


async def test_the_first_step_that_fails_is_no_half_change() -> None:
    deck, _ = client(ok(card()), recorded("deck/card_update_partial_400"))

    with pytest.raises(errors.InvalidName, match=r"^Nextcloud does not accept this.*type must be provided"):
        await deck.update(PLACE, Changes(title="x"), if_match=Card.model_validate(card()).etag)


async def test_comments_are_read_in_pages() -> None:
    deck, net = client(recorded("deck/comments_list"))

    [comment] = await deck.comments("11", limit=5, offset=10)

    assert (comment.by, comment.text) == ("Alice Example", "hi")
    assert dict(net.seen[0].url.params) == {"format": "json", "limit": "5", "offset": "10"}


#: Case N25: everything that a card may hold is set.
FULL = {
    "owner": {"primaryKey": "ada", "uid": "ada", "displayname": "Ada", "type": 0}, "description": "x",
    "duedate": "2026-12-05T18:00:00+00:00", "done": "2026-12-01T08:00:00+00:00", "startdate": None, "color": "ff0000",
    "labels": [{"id": 5, "title": "Urgent"}], "assignedUsers": [{"participant": {"uid": "bob"}, "type": 0}],
}  # fmt: skip


async def test_a_change_of_the_title_sends_the_owners_uid_and_all_the_rest_back() -> None:
    """N25: an owner as an object is refused, and what is left out is cleared."""
    before, after = card(**FULL), card(**FULL, title="New")
    deck, net = client(ok(before), ok({}), ok(after))

    changed = await deck.update(PLACE, Changes(title="New"), if_match=Card.model_validate(before).etag)

    assert json.loads(net.seen[1].content) == {
        "title": "New", "type": "plain", "owner": "ada", "description": "x", "order": 1,
        "duedate": FULL["duedate"], "done": FULL["done"], "startdate": None, "color": "ff0000",
    }  # fmt: skip
    assert (net.methods, changed.note) == (["GET", "PUT", "GET"], None)


async def test_a_change_that_deck_takes_and_ignores_is_no_success() -> None:
    """N25: the card is read again, and what did not change is said."""
    same = card(**FULL)
    deck, net = client(ok(same), ok(same), ok(same))

    with pytest.raises(
        errors.ServerFault, match="Deck answered as if it were done, but changed nothing: 'title' is"
    ):
        await deck.update(PLACE, Changes(title="New"), if_match=Card.model_validate(same).etag)

    assert net.methods == ["GET", "PUT", "GET"]


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ({"duedate": None}, "'due' is empty instead of “2026-12-05T18:00:00+00:00”"),
        ({"duedate": "2026-12-05T10:00:00-08:00"}, None),
        ({"description": ""}, "'description' is empty instead of “x”"),
        (
            {"done": None},
            "'done' is empty instead of “2026-12-01T08:00:00+00:00”",
        ),
        ({"archived": True}, "'archived' is true instead of false"),
        ({"labels": []}, "'labels' is empty instead of “5”"),
        ({"assignedUsers": []}, "'assignees' is empty instead of “bob”"),
        ({"color": None}, "'color' is empty instead of “ff0000”"),
        ({"title": "N"}, "'title' is “N” instead of “New”"),
    ],
)
async def test_what_a_change_loses_is_said(lost: dict[str, object], said: str | None) -> None:
    """N25: afterwards all other fields are equal, or the answer says which are not."""
    before, after = card(**FULL), card(**FULL | {"title": "New"} | lost)
    deck, _ = client(ok(before), ok({}), ok(after))

    changed = await deck.update(PLACE, Changes(title="New"), if_match=Card.model_validate(before).etag)

    told = said and f"Deck did not store all of it as it was sent: {said}."
    assert (changed.note, changed.card.title) == (told, after["title"])


async def test_a_new_card_that_is_stored_otherwise_says_so() -> None:
    deck, _ = client(ok(card(title="A", description="", duedate=None)))

    made = await deck.create(
        "2", "9", Changes(title="A", description="b", duedate="2026-12-05T18:00:00+00:00")
    )

    assert made.note == (
        "Deck did not store all of it as it was sent: 'description' is empty instead of “b”; 'due' is empty instead "
        "of “2026-12-05T18:00:00+00:00”."
    )


async def test_a_comment_that_is_not_there_afterwards_is_missed() -> None:
    same = card(commentsCount=3)
    deck, _ = client(ok(same), ok({}), ok(same))

    with pytest.raises(errors.ServerFault, match=r"'comment' is empty instead of “Done\?”"):
        await deck.update(PLACE, Changes(comment="Done?"), if_match=Card.model_validate(same).etag)


@pytest.mark.parametrize(
    ("answer", "stack"),
    [("deck19_card_reorder_into_done_column", "87"), ("deck19_card_reorder_out_of_done_column", "86")],
)
async def test_a_move_over_the_column_for_what_is_done_answers_what_became_of_it(
    answer: str, stack: str
) -> None:
    """Deck 1.18 sets and clears `done` with such a move, which changes the etag."""
    moved = json.loads(recorded(f"newer_apps/{answer}").content)[0]
    elsewhere = "86" if stack == "87" else "87"
    before = {
        **moved,
        "stackId": int(elsewhere),
        "done": None if moved["done"] else "2026-11-28T21:55:31+00:00",
    }
    after = Card.model_validate(moved)
    deck, _ = client(ok(before), ok([moved]))

    card_now = await deck.move(
        Place("82", elsewhere, after.id), stack, position=0, if_match=Card.model_validate(before).etag
    )

    assert (card_now.done, card_now.stack_id, card_now.etag) == (after.done, stack, after.etag)
    assert (after.done is not None) == (stack == "87")


async def test_cards_without_their_people_are_fetched_again_and_a_failure_is_told() -> None:
    known, unknown = Card.model_validate(card()), Card.model_validate(card(assignedUsers=None, labels=None))
    deck, net = client(ok(card(**FULL)), recorded("deck/card_get_after_delete"))

    found = await deck.whole("2", [known, unknown])
    with pytest.raises(errors.Forbidden):
        await deck.whole("2", [unknown])

    assert (found[0], found[1].people, found[1].etag) == (
        known,
        ["bob"],
        Card.model_validate(card(**FULL)).etag,
    )
    assert net.methods == ["GET", "GET"]
