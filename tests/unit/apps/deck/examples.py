"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call


async def usual(nc: Account) -> dict[str, dict[str, Any]]:
    board = (await call(nc, "nc_deck_list_boards")).boards[0].id
    card = (await call(nc, "nc_deck_get_board", board_id=board)).cards[0]
    place = {"board_id": board, "stack_id": card.stack_id, "card_id": card.id}
    return {
        "nc_deck_get_board": {"board_id": board},
        "nc_deck_get_card": place,
        "nc_deck_create_card": {"board_id": board, "stack_id": card.stack_id, "title": "x"},
        "nc_deck_update_card": {**place, "etag": card.etag, "title": "x"},
        "nc_deck_move_card": {**place, "etag": card.etag, "to_stack_id": card.stack_id},
        "nc_deck_delete_card": {**place, "etag": card.etag},
    }
