import json
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.deck import Changes, DeckClient, Place
from nextcloud_mcp_server.nextcloud.deck_models import Card
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
    deck, net = client(ok(newer), ok(newer), ok(newer))

    await deck.update(PLACE, Changes(title="x"), if_match=Card.model_validate(newer).etag)

    assert json.loads(net.seen[1].content) == {
        "title": "x", "type": "plain", "owner": "alice", "description": "desc", "order": 1,
        "duedate": "2026-12-24T18:00:00+00:00", "done": "2026-11-01T00:00:00+00:00",
        "startdate": "2026-12-01T00:00:00+00:00", "color": "ff0000",
    }  # fmt: skip


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

    assert [(one.id, one.owner.uid, one.labels) for one in found] == [("1", "alice", [])]


async def test_the_first_step_that_fails_is_no_half_change() -> None:
    deck, _ = client(ok(card()), recorded("deck/card_update_partial_400"))

    with pytest.raises(errors.InvalidName, match=r"^Nextcloud does not accept this.*type must be provided"):
        await deck.update(PLACE, Changes(title="x"), if_match=Card.model_validate(card()).etag)


async def test_comments_are_read_in_pages() -> None:
    deck, net = client(recorded("deck/comments_list"))

    [comment] = await deck.comments("11", limit=5, offset=10)

    assert (comment.actor, comment.message) == ("Alice Example", "hi")
    assert dict(net.seen[0].url.params) == {"format": "json", "limit": "5", "offset": "10"}
