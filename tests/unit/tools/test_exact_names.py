"""Names that begin or end with spaces are exact everywhere (case N13)."""

import pytest

from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.dav_fakes import account_in, account_over, call, entry, multistatus, network

SPACED = "Invoices 2026 "
PLAIN = "Invoices 2026"
FILE = " a.txt"


@pytest.fixture
async def alice() -> Account:
    sandbox = Sandbox.demo()
    account = account_in(sandbox)
    for folder in (SPACED, PLAIN):
        await call(account, "nc_files_create_folder", path=folder)
        await call(account, "nc_files_write_file", path=f"{folder}/{FILE}", content=f"in '{folder}'\n")
    return account


async def content(account: Account, path: str) -> str:
    return (await call(account, "nc_files_read_file", path=path)).content


async def test_only_the_named_one_of_two_is_read_edited_moved_and_deleted(alice: Account) -> None:
    """N13."""
    top = await call(alice, "nc_files_list_folder")
    listed = await call(alice, "nc_files_list_folder", path=SPACED)
    read = await content(alice, f"{SPACED}/{FILE}")
    await call(alice, "nc_files_edit_file", path=f"{SPACED}/{FILE}", old_text="in", new_text="changed in")
    await call(alice, "nc_files_copy_item", source=f"{SPACED}/{FILE}", destination=f"{SPACED}/b.txt ")
    await call(alice, "nc_files_move_item", source=f"{SPACED}/{FILE}", destination=f"{SPACED}/{FILE} ")
    moved = await content(alice, f"{SPACED}/{FILE} ")
    deleted = await call(alice, "nc_files_delete_item", path=SPACED)
    after = await call(alice, "nc_files_list_folder")

    assert [(row.name, row.shown_as) for row in listed.items] == [(FILE, "<U+0020>a.txt")]
    assert {row.name: row.shown_as for row in top.items if row.name.startswith(PLAIN)} == {
        SPACED: "Invoices 2026<U+0020>",
        PLAIN: None,
    }
    assert [row.name for row in after.items if row.name.startswith(PLAIN)] == [PLAIN]
    assert (read, moved) == (f"in '{SPACED}'\n", f"changed in '{SPACED}'\n")
    assert deleted.path == SPACED
    assert await content(alice, f"{PLAIN}/{FILE}") == f"in '{PLAIN}'\n"


async def test_the_trash_keeps_the_spaces_and_restores_to_the_exact_name(alice: Account) -> None:
    """N13."""
    deleted = await call(alice, "nc_files_delete_item", path=f"{SPACED}/{FILE}")
    listed = await call(alice, "nc_files_list_trash")
    restored = await call(alice, "nc_files_restore_trash", trash_id=deleted.trash_id)

    row = next(row for row in listed.items if row.trash_id == deleted.trash_id)
    assert (row.path, row.shown_as) == (f"{SPACED}/{FILE}", "Invoices 2026<U+0020>/<U+0020>a.txt")
    assert (restored.path, restored.note) == (f"{SPACED}/{FILE}", None)
    assert await content(alice, f"{SPACED}/{FILE}") == f"in '{SPACED}'\n"


async def test_a_search_gives_the_exact_paths_and_shows_their_spaces(alice: Account) -> None:
    """N13."""
    found = await call(alice, "nc_files_search_items", name="a.txt", folder=SPACED)

    assert [(row.path, row.shown_as) for row in found.items] == [
        (f"{SPACED}/{FILE}", "Invoices 2026<U+0020>/<U+0020>a.txt")
    ]


async def test_versions_labels_comments_and_shares_are_of_the_exact_file(alice: Account) -> None:
    """N13."""
    path = f"{SPACED}/{FILE}"
    labelled = await call(alice, "nc_files_set_labels", path=path, add_tags=["due"], favorite=True)
    versions = await call(alice, "nc_files_list_versions", path=path)
    commented = await call(alice, "nc_files_add_comment", path=path, text="hm")
    tagged = await call(alice, "nc_files_search_items", tag="due")
    info = await call(alice, "nc_files_get_info", path=f"{PLAIN}/{FILE}")

    assert (labelled.path, versions.path, commented.path) == (path, path, path)
    assert [row.path for row in tagged.items] == [path]
    assert (info.tags, info.favorite) == (None, False)


async def test_a_text_of_an_answer_keeps_its_spaces_and_white_space_around_elements_is_none() -> None:
    """N13: the trash says in XML where something was."""
    odd = (
        "<nc:trashbin-original-location> a /b </nc:trashbin-original-location>"
        "<nc:trashbin-deletion-time>1795813433</nc:trashbin-deletion-time>"
        "<d:displayname> </d:displayname>"
    )
    href = "/remote.php/dav/trashbin/alice/trash/b%20.d1795813433"
    net = network(multistatus([entry("", href=href, extra=odd)]))

    listed = await call(account_over(net), "nc_files_list_trash")

    assert [(row.path, row.type) for row in listed.items] == [(" a /b ", "file")]
