from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.collectives.tools import collectives
from nextcloud_mcp_server.apps.files.tools import files
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools import answer
from tests.dav_fakes import account_in, account_over, call_in, network

PAGE = (
    '{"ocs": {"data": {"page": {"id": 7, "title": "New", "parentId": 1, "collectivePath": ".Collectives/Team", '
    '"filePath": "", "fileName": "New.md"}}}}'
)


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


async def call(account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    return await call_in(collectives, account, f"nc_collectives_{tool}", **arguments)


async def page(account: Account, title: str) -> Any:  # noqa: ANN401 - a row of the list
    return next(
        row for row in (await call(account, "list_pages", collective_id=1)).pages if row.title == title
    )


async def test_collectives_and_their_pages_are_listed(alice: Account) -> None:
    top = await call(alice, "list_pages")
    none = await call(alice, "list_pages", query="nothing")

    found = await call(alice, "list_pages", collective_id=1)
    party = await call(alice, "list_pages", collective_id=1, query="PARTY")

    assert [(one.id, one.name, one.can_edit) for one in top.collectives] == [("1", "Neighbourhood", True)]
    assert (none.collectives, none.total) == ([], 0)
    assert [row.title for row in found.pages] == ["Landing page", "Hedges", "Street party"]
    assert [row.parent_id for row in found.pages] == [None, found.pages[0].id, found.pages[0].id]
    assert ([row.title for row in party.pages], party.total) == (["Street party"], 1)


async def test_following_the_cursor_gives_every_page_once(alice: Account) -> None:
    first = await call(alice, "list_pages", collective_id=1, limit=2)
    rest = await call(alice, "list_pages", collective_id=1, limit=2, cursor=first.cursor)

    assert [len(first.pages), len(rest.pages), rest.cursor] == [2, 1, None]
    with pytest.raises(errors.InvalidInput, match="does not belong to this list"):
        await call(alice, "list_pages", cursor=first.cursor)


async def test_a_page_is_read_and_changed_as_the_file_it_is(alice: Account) -> None:
    hedges = await page(alice, "Hedges")
    read = await call(alice, "get_page", collective_id=1, page_id=hedges.id)

    await call_in(
        files,
        alice,
        "nc_files_edit_file",
        path=read.path,
        etag=read.etag,
        old_text="Mondays",
        new_text="Sundays",
    )

    again = await call(alice, "get_page", collective_id=1, page_id=hedges.id)
    assert again.content == read.content.replace("Mondays", "Sundays")
    assert (again.title, again.offset, again.next_offset, again.note) == ("Hedges", 0, None, None)


async def test_the_parts_of_a_long_page_give_its_text_once(alice: Account, sandbox: Sandbox) -> None:
    text = "".join(f"line {number} with an ä\n" for number in range(4_000))
    sandbox.state.users["alice"].files.put("/.Collectives/Neighbourhood/Long.md", text.encode() + b"\xff")
    long, offset, parts, notes = await page(alice, "Long"), 0, list[str](), list[Any]()

    while offset is not None:
        read = await call(alice, "get_page", collective_id=1, page_id=long.id, offset=offset)
        assert answer.result(read)
        parts.append(read.content)
        notes.append(read.note)
        offset = read.next_offset

    assert "".join(parts) == f"{text}\ufffd"
    assert notes[-1].startswith("Bytes that are not UTF-8")


async def test_a_page_is_made_below_another_with_its_text(alice: Account) -> None:
    hedges = await page(alice, "Hedges")

    made = await call(
        alice, "create_page", collective_id=1, title=" Roses ", parent_id=hedges.id, content="Red."
    )
    odd = await call(alice, "create_page", collective_id=1, title="What?")

    read = await call(alice, "get_page", collective_id=1, page_id=made.id)
    assert (made.title, made.note) == ("Roses", None)
    assert read.etag.startswith(made.etag)
    assert (made.path, read.content) == (".Collectives/Neighbourhood/Hedges/Roses.md", "Red.")
    assert (odd.title, odd.etag, odd.note) == ("What", None, "Collectives changed the title.")


async def test_a_page_whose_text_could_not_be_written_is_said_to_be_empty() -> None:
    account = account_over(network(httpx2.Response(200, text=PAGE), httpx2.Response(404)))

    made = await call(account, "create_page", collective_id=1, title="New", content="Text.", parent_id=365)

    assert (made.id, made.path, made.etag) == ("7", ".Collectives/Team/New.md", None)
    assert made.note.startswith("The page is made and empty, but its text could not be written:")


async def test_what_is_not_there_or_has_no_title_is_refused(alice: Account, sandbox: Sandbox) -> None:
    with pytest.raises(errors.InvalidInput, match="'title' is empty"):
        await call(alice, "create_page", collective_id=1, title=" ")
    for account, number in ((alice, 2), (account_in(sandbox, "bob"), 1)):
        with pytest.raises(errors.NotFound, match="no such collective or page"):
            await call(account, "list_pages", collective_id=number)
