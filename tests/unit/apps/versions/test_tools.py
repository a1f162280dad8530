from datetime import UTC, datetime, timedelta

import pytest

from nextcloud_mcp_server.errors import EtagMismatch, InvalidInput, NotFound
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import DEFAULT_APPS, Sandbox
from tests.dav_fakes import account_in, account_over, call, entry, multistatus, network


class Clock:
    """A clock that goes on by a minute whenever told."""

    now = datetime(2026, 11, 27, 21, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def tick(self) -> None:
        self.now += timedelta(minutes=1)


async def account_with_versions(*texts: str) -> Account:
    clock = Clock()
    sandbox = Sandbox(clock=clock)
    sandbox.add_user("alice")
    for text in texts:
        clock.tick()
        sandbox.state.users["alice"].files.put("/a.md", text.encode())
    clock.tick()
    return account_in(sandbox)


async def text_of(account: Account) -> str:
    return (await call(account, "nc_files_read_file", path="a.md")).content


async def test_the_versions_of_a_file_are_listed_newest_first_with_the_one_it_holds_now() -> None:
    account = await account_with_versions("one", "the second", "3")

    page = await call(account, "nc_files_list_versions", path="a.md")

    assert [(row.size, row.current, row.author) for row in page.items] == [
        (1, True, "alice"),
        (10, None, "alice"),
        (3, None, "alice"),
    ]
    assert (page.total, page.cursor) == (3, None)


async def test_the_pages_of_versions_give_every_one_once() -> None:
    account = await account_with_versions("a", "bb", "ccc", "dddd", "eeeee")
    sizes: list[int] = []
    cursor = None

    for _ in range(3):
        page = await call(account, "nc_files_list_versions", path="a.md", limit=2, cursor=cursor)
        sizes += [row.size for row in page.items]
        cursor = page.cursor

    assert (sizes, cursor) == ([5, 4, 3, 2, 1], None)


async def test_a_restored_version_is_undone_with_what_the_answer_says() -> None:
    """B77: overwriting needs the etag of a reading, and what was overwritten can be brought back."""
    account = await account_with_versions("one")
    with pytest.raises(Exception, match="exists already"):
        await call(account, "nc_files_write_file", path="a.md", content="two")
    read = await call(account, "nc_files_read_file", path="a.md")
    await call(account, "nc_files_write_file", path="a.md", content="two!", etag=read.etag)
    page = await call(account, "nc_files_list_versions", path="a.md")

    back = await call(
        account,
        "nc_files_restore_version",
        path="a.md",
        version_id=page.items[-1].version_id,
        etag=page.etag,
    )
    then = await text_of(account)
    undo = back.undo.split("version_id ")[1].split()[0]
    await call(account, "nc_files_restore_version", path="a.md", version_id=undo, etag=back.etag)

    assert then == "one"
    assert await text_of(account) == "two!"


async def test_a_file_that_changed_since_its_versions_were_listed_is_left_alone() -> None:
    account = await account_with_versions("one", "second")
    page = await call(account, "nc_files_list_versions", path="a.md")
    await call(account, "nc_files_write_file", path="a.md", content="third time", etag=page.etag)

    with pytest.raises(EtagMismatch, match="Read it again"):
        await call(
            account,
            "nc_files_restore_version",
            path="a.md",
            version_id=page.items[-1].version_id,
            etag=page.etag,
        )

    assert await text_of(account) == "third time"


@pytest.mark.parametrize(
    ("version_id", "kind", "words"),
    [("123", NotFound, "see nc_files_list_versions"), ("1/2", InvalidInput, "take one from")],
)
async def test_a_version_that_does_not_exist_is_refused(
    version_id: str, kind: type[Exception], words: str
) -> None:
    account = await account_with_versions("one", "second")
    etag = (await call(account, "nc_files_list_versions", path="a.md")).etag

    with pytest.raises(kind, match=words):
        await call(account, "nc_files_restore_version", path="a.md", version_id=version_id, etag=etag)


async def test_folders_and_nextclouds_without_versions_say_so() -> None:
    account = await account_with_versions("one")
    bare = account_in(Sandbox.demo(apps=DEFAULT_APPS - {"files_versions"}))

    with pytest.raises(InvalidInput, match="only files have versions"):
        await call(account, "nc_files_list_versions", path="/")
    with pytest.raises(NotFound, match="keeps no versions"):
        await call(bare, "nc_files_list_versions", path="Readme.md")
    assert "files_versions" in (await account.capabilities.get()).apps
    assert "files_versions" not in (await bare.capabilities.get()).apps


async def test_a_very_long_history_is_cut_to_what_fits() -> None:
    label = "<nc:version-label>" + "x" * 250 + "</nc:version-label>"
    rows = [
        entry("", href=f"/remote.php/dav/versions/alice/versions/7/{n:040}", extra=label) for n in range(200)
    ]
    file = entry("a.md", extra="<oc:fileid>7</oc:fileid>")
    account = account_over(network(multistatus([file]), multistatus(rows)))

    page = await call(account, "nc_files_list_versions", path="a.md", limit=200)

    assert 50 < len(page.items) < 200
    assert page.cursor is not None
