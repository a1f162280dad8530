"""End-to-end encrypted folders are recognised: only their owner's own apps can open them (item 13)."""

import pytest

from nextcloud_mcp_server.errors import Forbidden
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import DEFAULT_APPS, Sandbox
from tests.dav_fakes import account_in, account_over, call, entry, multistatus, network


@pytest.fixture
async def alice() -> Account:
    sandbox = Sandbox.demo(apps=DEFAULT_APPS | {"end-to-end-encryption"})
    account = account_in(sandbox)
    await call(account, "nc_files_create_folder", path="Private things")
    sandbox.state.users["alice"].files.get("/Private things").encrypted = True
    return account


async def test_a_list_marks_the_folders_that_cannot_be_opened(alice: Account) -> None:
    listed = await call(alice, "nc_files_list_folder")

    assert [row.name for row in listed.items if row.encrypted] == ["Private things"]


async def test_opening_one_says_that_it_is_encrypted(alice: Account) -> None:
    with pytest.raises(Forbidden, match="end-to-end encrypted content"):
        await call(alice, "nc_files_list_folder", path="Private things")


@pytest.mark.parametrize(
    "wanted", [{"name": "Private"}, {"name": "Readme"}, {"kind": "image"}, {"favorite": True}]
)
async def test_a_search_says_what_it_left_out_whatever_it_found(
    alice: Account, wanted: dict[str, object]
) -> None:
    found = await call(alice, "nc_files_search_items", **wanted)

    assert found.note == "End-to-end encrypted, so not searched inside: 'Private things'."


async def test_a_search_of_folders_without_an_encrypted_one_leaves_nothing_out(alice: Account) -> None:
    await call(alice, "nc_files_create_folder", path="Open/inside")

    found = await call(alice, "nc_files_search_items", name="inside", folder="Open")

    assert ([row.path for row in found.items], found.note) == (["Open/inside"], None)


async def test_a_search_of_an_encrypted_folder_says_that_it_is_one(alice: Account) -> None:
    found = await call(alice, "nc_files_search_items", name="x", folder="Private things")

    assert (found.items, found.note) == (
        [],
        "End-to-end encrypted, so not searched inside: 'Private things'.",
    )


async def test_a_nextcloud_without_the_app_is_asked_for_it_once_in_a_while() -> None:
    sandbox = Sandbox.demo()
    account = account_in(sandbox)

    pages = [await call(account, "nc_files_search_items", name="Readme") for _ in range(3)]

    assert {page.note for page in pages} == {None}
    assert [one.path.rpartition("/")[2] for one in sandbox.requests.records].count("capabilities") == 1
    assert [one.method for one in sandbox.requests.records].count("SEARCH") == 3


async def test_what_lies_in_an_encrypted_folder_is_named_by_that_folder_alone() -> None:
    sandbox = Sandbox.demo(apps=DEFAULT_APPS | {"end-to-end-encryption"})
    account = account_in(sandbox)
    await call(account, "nc_files_create_folder", path="Locked/deep")
    for path in ("/Locked", "/Locked/deep"):
        sandbox.state.users["alice"].files.get(path).encrypted = True

    found = await call(account, "nc_files_search_items", name="x")

    assert found.note == "End-to-end encrypted, so not searched inside: 'Locked'."


async def test_many_encrypted_folders_are_counted() -> None:
    sandbox = Sandbox.demo(apps=DEFAULT_APPS | {"end-to-end-encryption"})
    account = account_in(sandbox)
    for number in range(52):
        await call(account, "nc_files_create_folder", path=f"L{number:02}")
        sandbox.state.users["alice"].files.get(f"/L{number:02}").encrypted = True

    found = await call(account, "nc_files_search_items", name="x")

    assert found.note is not None
    assert found.note.endswith(", 'L48', 'L49' and 2 more.")


async def test_the_details_of_one_say_what_that_means() -> None:
    folder = entry("Private", folder=True, extra="<nc:is-encrypted>1</nc:is-encrypted>")

    info = await call(account_over(network(multistatus([folder]))), "nc_files_get_info", path="Private")

    assert (info.encrypted, info.permissions) == (True, [])
    assert info.note.startswith("End-to-end encrypted")


async def test_a_list_asks_once_and_not_for_what_each_lacks() -> None:
    """A list costs one PROPFIND, whatever the folder holds."""
    body = [entry("", folder=True), *(entry(f"{n:04}") for n in range(1_000))]
    net = network(multistatus(body))

    listed = await call(account_over(net), "nc_files_list_folder", limit=100)

    assert (net.methods, net.seen[0].headers["Prefer"]) == (["PROPFIND"], "return=minimal")
    assert (len(listed.items), listed.total) == (100, 1_000)
