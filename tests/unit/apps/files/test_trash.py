import pytest

from nextcloud_mcp_server.errors import InvalidInput, NotFound
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.dav_fakes import account_in, account_over, call, multistatus, network, recorded


async def test_the_trash_lists_what_was_where_and_when() -> None:
    account = account_over(network(recorded("trashbin/list")))

    page = await call(account, "nc_files_list_trash", limit=2)

    assert page.items[0].model_dump(mode="json", exclude_none=True) == {
        "trash_id": "trash me #1.txt.d1795813520",
        "path": "Rec/trash me #1.txt",
        "type": "file",
        "size": 3,
        "deleted": "2026-11-27T21:05:20Z",
    }
    assert page.total == 3
    assert page.cursor is not None


async def test_the_pages_of_the_trash_give_every_entry_once() -> None:
    account = account_over(network(recorded("trashbin/list"), recorded("trashbin/list")))

    first = await call(account, "nc_files_list_trash", limit=2)
    second = await call(account, "nc_files_list_trash", limit=2, cursor=first.cursor)

    assert [len(first.items), len(second.items)] == [2, 1]
    assert second.cursor is None
    with pytest.raises(InvalidInput):
        await call(account, "nc_files_list_folder", cursor=first.cursor)


async def test_a_deletion_is_undone_with_what_it_answered() -> None:
    account = account_in(Sandbox.demo())
    deleted = await call(account, "nc_files_delete_item", path="Documents")

    listed = await call(account, "nc_files_list_trash")
    restored = await call(account, "nc_files_restore_trash", trash_id=deleted.trash_id)

    assert [(row.path, row.type) for row in listed.items] == [("Documents", "folder")]
    assert (restored.path, restored.note) == ("Documents", None)
    assert (await call(account, "nc_files_list_folder", path="Documents")).items


async def test_a_callback_in_another_browser_is_said_to_be_there() -> None:
    account = account_in(Sandbox.demo())
    deleted = await call(account, "nc_files_delete_item", path="Readme.md")
    await call(account, "nc_files_write_file", path="Readme.md", content="another")

    restored = await call(account, "nc_files_restore_trash", trash_id=deleted.trash_id)

    assert "nc_files_search_items" in restored.note


async def test_an_unknown_trash_id_is_refused() -> None:
    with pytest.raises(NotFound, match="nc_files_list_trash"):
        await call(account_in(Sandbox.demo()), "nc_files_restore_trash", trash_id="nothing.d1")


async def test_a_very_long_trash_is_cut_to_what_fits() -> None:
    name, tail = '"' * 250, "%22" * 240
    rows = [
        f"<d:response><d:href>/remote.php/dav/trashbin/alice/trash/{n:03}{tail}.d{n}</d:href><d:propstat>"
        f"<d:prop><nc:trashbin-original-location>{name}</nc:trashbin-original-location></d:prop>"
        "<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
        for n in range(100)
    ]
    account = account_over(network(multistatus(rows)))

    page = await call(account, "nc_files_list_trash", limit=100)

    assert 0 < len(page.items) < 100
    assert page.cursor is not None
