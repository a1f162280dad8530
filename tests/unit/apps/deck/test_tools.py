from dataclasses import replace
from typing import Any

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.deck.tools import deck
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.deck.store import DeckBoard, DeckCard, DeckStore
from nextcloud_mcp_server.tools import answer
from tests.dav_fakes import account_in, call_in


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


async def call(account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    return await call_in(deck, account, f"nc_deck_{tool}", **arguments)


async def shown(account: Account) -> Any:  # noqa: ANN401 - a board
    [board] = (await call(account, "list_boards")).boards
    return await call(account, "get_board", board_id=board.id)


async def first(account: Account) -> dict[str, Any]:
    """Name the first card, as the tools want it."""
    board = await shown(account)
    card = board.cards[0]
    return {"board_id": board.id, "stack_id": card.stack_id, "card_id": card.id, "etag": card.etag}


def stored(sandbox: Sandbox, where: dict[str, Any]) -> DeckCard:
    return sandbox.state.store(DeckStore).cards[int(where["card_id"])]


async def test_a_board_is_shown_with_its_stacks_labels_members_and_cards(alice: Account) -> None:
    board = await shown(alice)

    assert (board.title, board.can_edit, board.labels, board.members) == (
        "Office move", True, ["Urgent", "Later"], ["alice", "bob"],
    )  # fmt: skip
    assert [stack.title for stack in board.stacks] == ["To do", "Doing", "Done"]
    assert [card.title for card in board.cards] == [
        "Order boxes",
        "Label the cables",
        "Write to the landlord",
    ]
    assert [card.has_description for card in board.cards] == [True, None, True]


async def test_cards_are_found_by_words_and_given_in_pages(alice: Account) -> None:
    board = await shown(alice)

    found = await call(alice, "get_board", board_id=board.id, query="boxes LARGE")
    page = await call(alice, "get_board", board_id=board.id, limit=2)
    rest = await call(alice, "get_board", board_id=board.id, limit=2, cursor=page.cursor)

    assert ([card.title for card in found.cards], found.total) == (["Order boxes"], 1)
    assert [card.id for card in (*page.cards, *rest.cards)] == [card.id for card in board.cards]
    assert (page.total, rest.cursor) == (3, None)


async def test_a_title_alone_changes_nothing_else(alice: Account, sandbox: Sandbox) -> None:
    """U70."""
    where = await first(alice)
    card = stored(sandbox, where)
    card.duedate, card.done, card.order = "2026-12-24T18:00:00+00:00", "2026-11-01T08:00:00+00:00", 7
    where |= {"etag": (await call(alice, "get_card", **{k: where[k] for k in where if k != "etag"})).etag}

    changed = await call(alice, "update_card", **where, title="Order more boxes")

    assert (card.title, card.description, card.duedate, card.done, card.order, card.stack_id) == (
        "Order more boxes", "40 large, 25 small.", "2026-12-24T18:00:00+00:00", "2026-11-01T08:00:00+00:00", 7,
        int(where["stack_id"]),
    )  # fmt: skip
    assert changed.etag != where["etag"]


async def test_all_parts_of_a_card_are_set_and_taken_away(alice: Account, sandbox: Sandbox) -> None:
    where = await first(alice)
    full = await call(
        alice,
        "update_card",
        **where,
        description="new",
        due="2026-12-24T18:00",
        done=True,
        labels=["urgent", "Later"],
        assignees=["bob", "Alice Example"],
        comment="Please.",
        archived=True,
    )
    card = stored(sandbox, where)
    read = await call(alice, "get_card", **{k: where[k] for k in where if k != "etag"})
    archived = await call(alice, "get_board", board_id=where["board_id"], archived=True)

    assert (full.due, full.labels, full.assignees, full.archived) == (
        "2026-12-24T18:00:00+00:00", ["Urgent", "Later"], ["alice", "bob"], True,
    )  # fmt: skip
    assert ([(one.by, one.text) for one in read.comments], read.comments_total) == (
        [("Alice Example", "Please.")],
        1,
    )
    assert [row.id for row in archived.cards] == [str(card.id)]

    where |= {"etag": full.etag}
    bare = await call(
        alice,
        "update_card",
        **where,
        description="",
        due="",
        done=False,
        labels=[],
        assignees=[],
        archived=False,
    )

    assert bare.model_dump(exclude_none=True).keys() == {"id", "stack_id", "title", "etag"}
    assert (card.description, card.duedate, card.done, card.archived) == ("", None, None, False)
    assert (await call(alice, "update_card", **(where | {"etag": bare.etag}), done=False)).etag == bare.etag


async def test_a_moved_card_is_in_the_other_stack_and_at_its_place(alice: Account) -> None:
    where, board = await first(alice), await shown(alice)

    moved = await call(alice, "move_card", **where, to_stack_id=board.stacks[1].id, position=0)
    after = await shown(alice)
    again = await call(alice, "move_card", **(where | {"etag": moved.etag}), to_stack_id=board.stacks[1].id)

    assert moved.stack_id == board.stacks[1].id
    assert [card.title for card in after.cards] == [
        "Label the cables",
        "Order boxes",
        "Write to the landlord",
    ]
    assert [card.title for card in (await shown(alice)).cards][-1] == "Order boxes"
    # Only what was moved has another etag.
    assert {card.title: card.etag for card in after.cards}["Write to the landlord"] == board.cards[2].etag
    assert again.etag == moved.etag


async def test_a_card_that_moved_meanwhile_stays_where_it_is(alice: Account, sandbox: Sandbox) -> None:
    where, board = await first(alice), await shown(alice)
    moved = await call(alice, "move_card", **where, to_stack_id=board.stacks[2].id)

    changed = await call(alice, "update_card", **(where | {"etag": moved.etag}), title="Still here")

    assert changed.stack_id == str(stored(sandbox, where).stack_id) == board.stacks[2].id


async def test_a_card_changed_since_is_neither_changed_moved_nor_deleted(alice: Account) -> None:
    where, board = await first(alice), await shown(alice)
    # Within one second, which Deck's own etag would not show.
    await call(alice, "update_card", **where, title="Other")

    for tool, more in (
        ("update_card", {"title": "lost"}),
        ("move_card", {"to_stack_id": board.stacks[1].id}),
        ("delete_card", {}),
    ):
        with pytest.raises(errors.EtagMismatch, match="again, look at what has changed"):
            await call(alice, tool, **where, **more)

    assert (await shown(alice)).cards[0].title == "Other"


async def test_a_card_is_made_with_labels_and_people_and_deleted_with_a_way_back(alice: Account) -> None:
    board = await shown(alice)
    plain = await call(alice, "create_card", board_id=board.id, stack_id=board.stacks[2].id, title=" Plain ")
    made = await call(
        alice,
        "create_card",
        board_id=board.id,
        stack_id=board.stacks[2].id,
        title="Party",
        description="x" * 30_000,
        due="2026-12-24T18:00:00+01:00",
        labels=["Later"],
        assignees=["bob"],
    )
    where = {"board_id": board.id, "stack_id": made.stack_id, "card_id": made.id}

    read = await call(alice, "get_card", **where)
    rest = await call(alice, "get_card", **where, offset=read.next_offset)
    gone = await call(alice, "delete_card", **where, etag=made.etag)

    assert (plain.title, made.labels, made.assignees) == ("Plain", ["Later"], ["bob"])
    assert (read.size, len(read.content), rest.content[:1]) == (30_000, 12_000, "x")
    assert "Deleted items" in gone.undo
    with pytest.raises(errors.Forbidden, match=r"Card is deleted.*nc_deck_get_board"):
        await call(alice, "get_card", **where)


async def test_what_is_not_shared_is_not_there(sandbox: Sandbox) -> None:
    alice, carol = account_in(sandbox), sandbox.add_user("carol")
    where = await first(alice)

    with pytest.raises(errors.Forbidden, match="is not there, was deleted, or the person may not"):
        await call(account_in(sandbox, carol.uid), "get_board", board_id=where["board_id"])


async def test_an_archived_board_is_the_likely_reason_of_a_bare_refusal(
    alice: Account, sandbox: Sandbox
) -> None:
    where = await first(alice)
    sandbox.state.store(DeckStore).boards[int(where["board_id"])].archived = True

    with pytest.raises(errors.ServerFault, match="archived"):
        await call(alice, "update_card", **where, title="x")


async def test_half_a_change_says_which_half(alice: Account, sandbox: Sandbox) -> None:
    where = await first(alice)
    # The board, the card and its fields get through; anyone who is to be assigned does not.
    sandbox.faults.status(507, times=1, after=3)

    with pytest.raises(
        errors.StorageFull, match=r"Only a part was done: its fields were changed\. .*bob was assigned"
    ):
        await call(alice, "update_card", **where, title="Half", assignees=["bob"])

    assert stored(sandbox, where).title == "Half"


async def test_boards_beyond_a_result_wait_for_the_next_page(alice: Account, sandbox: Sandbox) -> None:
    for number in range(1000, 1350):
        sandbox.state.store(DeckStore).boards[number] = DeckBoard(
            number, "t" * 100, "alice", "ff0000", 0, archived=True
        )

    page = await call(alice, "list_boards")
    rest = await call(alice, "list_boards", cursor=page.cursor)

    assert answer.result(page)
    assert len(page.boards) + len(rest.boards) == 351


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("update_card", {}, "Nothing to change"),
        ("update_card", {"title": " "}, "1 to 255"),
        ("update_card", {"title": "x" * 256}, "1 to 255"),
        ("update_card", {"comment": " "}, "'comment' is empty"),
        ("update_card", {"due": "tomorrow"}, "'due' must be"),
        ("update_card", {"labels": ["none"]}, "no label “none”.*“Urgent”, “Later”"),
        ("update_card", {"assignees": ["carol"]}, "no member of the board.*alice, bob"),
        ("move_card", {"to_stack_id": 1}, "no stack of this board.*“To do”"),
    ],
)
async def test_what_cannot_be_set_is_refused_with_what_can(
    alice: Account, tool: str, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=words):
        await call(alice, tool, **(await first(alice)), **arguments)


@pytest.mark.parametrize(
    ("due", "moment"),
    [
        ("2026-12-05T10:00:00-08:00", "2026-12-05T18:00:00+00:00"),
        ("2026-12-05T10:00:00+05:45", "2026-12-05T04:15:00+00:00"),
        ("2026-12-05T10:00:00z", "2026-12-05T10:00:00+00:00"),
        ("2026-12-05T10:00", "2026-12-05T09:00:00+00:00"),
        ("2026-07-05", "2026-07-04T22:00:00+00:00"),
    ],
)
async def test_a_card_is_due_at_the_moment_that_was_named(
    alice: Account, sandbox: Sandbox, due: str, moment: str
) -> None:
    """Deck leaves the offset out when it stores a time; one without an offset is where the user is."""
    sandbox.state.users["alice"].timezone = "Europe/Berlin"
    where = await first(alice)

    changed = await call(alice, "update_card", **where, due=due)
    made = await call(
        alice, "create_card", board_id=where["board_id"], stack_id=where["stack_id"], title="x", due=due
    )

    listed = {card.id: card.due for card in (await shown(alice)).cards}
    assert (changed.due, listed[where["card_id"]]) == (moment, moment)
    assert (made.due, listed[made.id]) == (moment, moment)


async def test_an_archived_card_is_listed_with_its_people_labels_and_an_etag_that_works(
    alice: Account, sandbox: Sandbox
) -> None:
    where = await first(alice)
    full = await call(alice, "update_card", **where, labels=["Urgent"], assignees=["bob"], archived=True)

    [row] = (await call(alice, "get_board", board_id=where["board_id"], archived=True)).cards
    back = await call(alice, "update_card", **(where | {"etag": row.etag}), archived=False)

    assert (row.assignees, row.labels, row.etag) == (["bob"], ["Urgent"], full.etag)
    assert (back.archived, back.assignees, back.note) == (None, ["bob"], None)
    assert stored(sandbox, where).archived is False


async def test_many_archived_cards_come_in_pages_that_ask_for_few_cards_each(
    alice: Account, sandbox: Sandbox
) -> None:
    where = await first(alice)
    card = stored(sandbox, where)
    for number in range(9000, 9045):
        sandbox.state.store(DeckStore).cards[number] = replace(card, id=number, archived=True)

    pages = [await call(alice, "get_board", board_id=where["board_id"], archived=True)]
    while pages[-1].cursor is not None:
        pages.append(
            await call(alice, "get_board", board_id=where["board_id"], archived=True, cursor=pages[-1].cursor)
        )

    assert [len(page.cards) for page in pages] == [20, 20, 5]
    assert [row.id for page in pages for row in page.cards] == [str(number) for number in range(9000, 9045)]


async def test_a_card_moved_into_the_column_for_what_is_done_is_done_and_can_be_changed_next(
    alice: Account, sandbox: Sandbox
) -> None:
    where, board = await first(alice), await shown(alice)
    column = board.stacks[2].id
    sandbox.state.store(DeckStore).stacks[int(column)].is_done_column = True

    moved = await call(alice, "move_card", **where, to_stack_id=column)
    changed = await call(
        alice, "update_card", **(where | {"stack_id": column, "etag": moved.etag}), title="x"
    )

    assert moved.done is not None
    assert (changed.title, changed.done, changed.note) == ("x", moved.done, None)
