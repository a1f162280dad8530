"""A change whose answer, or whose second half, is lost: what is said of it must be true."""

from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.dav_fakes import call
from tests.every_tool import Change, Tampered, tampered

REFUSED = httpx2.Response(403, json={"message": "nope"})
LOST = httpx2.ReadError("gone")
SIGN_IN = httpx2.Response(200, headers={"Content-Type": "text/html"}, content=b"\n<html>Sign in</html>")
PATH = "/Documents/Welcome.md"


@pytest.fixture
def opened() -> tuple[Tampered, Account]:
    return tampered(Sandbox.demo())


def failing(outcome: httpx2.Response | Exception, *, at: str, method: str, after: int = 0) -> Change:
    """Let requests of a method fail at addresses that hold `at`, once so many of them have passed."""
    seen = [0]

    def change(request: httpx2.Request, answer: httpx2.Response) -> httpx2.Response | Exception:
        if request.method != method or at not in request.url.path:
            return answer
        seen[0] += 1
        return outcome if seen[0] > after else answer

    return change


async def card(alice: Account) -> dict[str, Any]:
    board = (await call(alice, "nc_deck_list_boards")).boards[0].id
    found = (await call(alice, "nc_deck_get_board", board_id=board)).cards[0]
    return {"board_id": board, "stack_id": found.stack_id, "card_id": found.id, "etag": found.etag}


async def test_a_card_that_is_changed_and_cannot_be_read_again_is_said_to_be_changed(
    opened: tuple[Tampered, Account],
) -> None:
    network, alice = opened
    where = await card(alice)
    network.change = failing(REFUSED, at="/cards/", method="GET", after=1)

    with pytest.raises(
        errors.Forbidden, match=r"It is all done, so do not repeat it: its fields were changed\."
    ):
        await call(alice, "nc_deck_update_card", **where, title="New")


async def test_a_card_that_is_made_and_cannot_be_read_again_is_not_made_twice(
    opened: tuple[Tampered, Account],
) -> None:
    network, alice = opened
    where = await card(alice)
    network.change = failing(REFUSED, at="/cards/", method="GET")

    with pytest.raises(
        errors.Forbidden, match=r"do not repeat it: the card \d+ was made, label \d+ was added\."
    ):
        await call(
            alice, "nc_deck_create_card", board_id=where["board_id"], stack_id=where["stack_id"], title="x",
            labels=["Urgent"],
        )  # fmt: skip


async def test_of_a_step_whose_answer_was_lost_it_is_not_said_that_it_did_not_happen(
    opened: tuple[Tampered, Account],
) -> None:
    network, alice = opened
    where = await card(alice)
    network.change = failing(LOST, at="assignUser", method="PUT")

    with pytest.raises(errors.Unreachable, match="“alice was assigned” is not so, as far as is known"):
        await call(alice, "nc_deck_update_card", **where, title="New", assignees=["alice"])
    network.change = failing(LOST, at="systemtags-relations", method="PUT")
    marked = await call(alice, "nc_files_set_labels", path=PATH, add_tags=["Planning"], favorite=True)

    assert [sentence.partition(":")[0] for sentence in marked.failed] == [
        "Tag 'Planning' was not set, as far as is known"
    ]


async def test_a_mark_that_is_set_and_cannot_be_looked_at_is_said_to_be_set(
    opened: tuple[Tampered, Account],
) -> None:
    network, alice = opened
    network.change = failing(REFUSED, at="/Welcome.md", method="PROPFIND", after=1)

    marked = await call(alice, "nc_files_set_labels", path=PATH, favorite=True)

    assert (marked.failed, marked.favorite) == (None, None)
    assert (
        marked.note
        == "All else is done, but the file could not be looked at afterwards: see nc_files_get_info."
    )


async def test_a_version_that_is_restored_and_cannot_be_looked_at_is_said_to_be_restored(
    opened: tuple[Tampered, Account],
) -> None:
    network, alice = opened
    etag = (await call(alice, "nc_files_get_info", path=PATH)).etag
    await call(alice, "nc_files_write_file", path=PATH, content="newer", etag=etag)
    found = await call(alice, "nc_files_list_versions", path=PATH)
    network.change = failing(REFUSED, at="/Welcome.md", method="PROPFIND", after=1)

    restored = await call(
        alice, "nc_files_restore_version", path=PATH, version_id=found.items[-1].version_id, etag=found.etag
    )

    assert restored.etag is None
    assert restored.undo.endswith("the version is restored, but could not be looked at.")


async def test_folders_that_were_made_before_one_failed_are_named(opened: tuple[Tampered, Account]) -> None:
    network, alice = opened
    network.change = failing(REFUSED, at="/a/b/c", method="MKCOL", after=1)

    with pytest.raises(errors.Forbidden, match=r"Only a part was done: 'a/b' was created\."):
        await call(alice, "nc_files_create_folder", path="a/b/c")
    network.change = failing(REFUSED, at="/x", method="MKCOL", after=1)
    with pytest.raises(errors.Forbidden, match=r"^Nextcloud does not allow this"):
        await call(alice, "nc_files_create_folder", path="x/y")


async def test_what_is_stored_without_an_etag_and_cannot_be_read_is_not_stored_twice(
    opened: tuple[Tampered, Account],
) -> None:
    network, alice = opened

    def change(request: httpx2.Request, answer: httpx2.Response) -> httpx2.Response:
        return httpx2.Response(201) if request.method == "PUT" else REFUSED

    network.change = change
    event = await call(
        alice,
        "nc_calendar_create_event",
        calendar="personal",
        title="x",
        start="2026-12-01T10:00",
        timezone="UTC",
    )
    person = await call(alice, "nc_contacts_create_contact", name="Ann Other")

    assert (event.title, event.etag) == ("x", None)
    assert (person.name, person.etag) == ("Ann Other", None)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("nc_files_delete_item", {"path": PATH}),
        ("nc_files_create_folder", {"path": "/new"}),
        ("nc_talk_set_reaction", {"conversation": "officemove", "message_id": 1, "emoji": "👍"}),
        ("nc_news_mark_articles", {"article_ids": [3], "read": True}),
    ],
)
async def test_a_page_to_sign_in_does_not_pass_for_a_change(
    tool: str, arguments: dict[str, Any], opened: tuple[Tampered, Account]
) -> None:
    network, alice = opened
    network.change = lambda request, answer: answer if request.method == "PROPFIND" else SIGN_IN

    with pytest.raises(errors.NotNextcloud, match="it is not known whether this was done"):
        await call(alice, tool, **arguments)
