import base64

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.apps.files.edit import replace
from nextcloud_mcp_server.apps.files.write import MAX_EDITED_BYTES
from nextcloud_mcp_server.errors import AlreadyExists, EtagMismatch, InvalidInput
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.dav_fakes import (
    MOMENT,
    SECONDS,
    account_in,
    account_over,
    call,
    entry,
    multistatus,
    network,
    recorded,
)


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo(one_second_etags=False)


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


async def read_bytes(account: Account, path: str) -> bytes:
    return (await account.files.read(path, length=100_000)).data


@pytest.mark.parametrize("uid", ["a b", "a+b", "a@b.c", "ünal"])
async def test_every_kind_of_person_can_list_read_write_move_and_delete(sandbox: Sandbox, uid: str) -> None:
    """B11, B13: the uid, as one segment, is in every address; the login name is in none."""
    sandbox.add_user(uid)
    account = account_in(sandbox, uid)

    await call(account, "nc_files_create_folder", path="base-ü/in")
    written = await call(account, "nc_files_write_file", path="child-ü +~#?", content="x")
    moved = await call(account, "nc_files_move_item", source=written.path, destination="base-ü/child-ü +~#?")
    found = await call(account, "nc_files_search_items", name="+~#?")
    listed = await call(account, "nc_files_list_folder", path="base-ü")
    deleted = await call(account, "nc_files_delete_item", path=moved.path)
    restored = await call(account, "nc_files_restore_trash", trash_id=deleted.trash_id)

    assert [row.path for row in found.items] == ["base-ü/child-ü +~#?"]
    assert [row.name for row in listed.items] == ["in", "child-ü +~#?"]
    assert (restored.path, restored.note) == ("base-ü/child-ü +~#?", None)


@pytest.mark.parametrize(
    ("odd", "decoded"), [("a%62c.txt", "abc.txt"), ("x %2F y.flac", "x _ y.flac"), ("a+b", "a b")]
)
async def test_a_name_that_looks_encoded_is_that_file_and_no_other(
    alice: Account, odd: str, decoded: str
) -> None:
    """B01, B02: read, overwrite, copy, move and delete the one; the other is untouched."""
    await call(alice, "nc_files_create_folder", path="box")
    await call(alice, "nc_files_write_file", path=f"box/{decoded}", content="other")
    first = await call(alice, "nc_files_write_file", path=f"box/{odd}", content="odd")

    second = await call(alice, "nc_files_write_file", path=f"box/{odd}", content="odd again", etag=first.etag)
    copied = await call(alice, "nc_files_copy_item", source=f"box/{odd}", destination=f"box/copy {odd}")
    moved = await call(alice, "nc_files_move_item", source=f"box/{odd}", destination=f"box/moved {odd}")
    content = await read_bytes(alice, moved.path)
    await call(alice, "nc_files_delete_item", path=moved.path, etag=moved.etag)

    left = await call(alice, "nc_files_list_folder", path="box")
    assert (second.size, content, copied.path) == (9, b"odd again", f"box/copy {odd}")
    assert {row.name for row in left.items} == {decoded, f"copy {odd}"}
    assert await read_bytes(alice, f"box/{decoded}") == b"other"


async def test_a_file_written_in_nfd_is_one_file_for_both_spellings(alice: Account) -> None:
    """B07."""
    await call(alice, "nc_files_write_file", path="Ame\u0301lie.md", content="x")

    listed = await call(alice, "nc_files_list_folder")
    reads = [await read_bytes(alice, name) for name in ("Ame\u0301lie.md", "Am\u00e9lie.md")]

    assert len([row for row in listed.items if row.name.endswith("lie.md")]) == 1
    assert reads == [b"x", b"x"]


async def test_a_write_answers_the_etag_that_the_next_one_needs(alice: Account) -> None:
    """B17: edit, then edit again with the answered etag, without reading."""
    first = await call(alice, "nc_files_write_file", path="a.txt", content="one")

    second = await call(
        alice, "nc_files_edit_file", path="a.txt", old_text="one", new_text="two!", etag=first.etag
    )
    third = await call(alice, "nc_files_write_file", path="a.txt", content="three", etag=second.etag)
    with pytest.raises(EtagMismatch):
        await call(alice, "nc_files_write_file", path="a.txt", content="lost", etag=first.etag)

    assert (first.created, second.replaced, third.created, third.size) == (True, 1, False, 5)
    assert await read_bytes(alice, "a.txt") == b"three"


async def test_a_change_in_the_same_second_is_seen_by_its_size() -> None:
    """Nextcloud gives both states one etag, and a stale If-Match would succeed."""
    account = account_in(Sandbox.demo(one_second_etags=True))
    first = await call(account, "nc_files_write_file", path="a.txt", content="one")
    await call(account, "nc_files_write_file", path="a.txt", content="longer", etag=first.etag)

    with pytest.raises(EtagMismatch, match="Read it again"):
        await call(account, "nc_files_write_file", path="a.txt", content="lost", etag=first.etag)

    assert await read_bytes(account, "a.txt") == b"longer"


async def test_a_file_that_exists_is_not_overwritten_without_an_etag(alice: Account) -> None:
    with pytest.raises(AlreadyExists, match="pass its etag"):
        await call(alice, "nc_files_write_file", path="Readme.md", content="x")


async def test_bytes_are_written_from_base64(alice: Account) -> None:
    data = bytes(range(256))

    written = await call(
        alice, "nc_files_write_file", path="a.bin", content=base64.b64encode(data).decode(), encoding="base64"
    )

    assert written.size == 256
    assert await read_bytes(alice, "a.bin") == data


@pytest.mark.parametrize("content", ["not base64!", "YQ", "é"])
async def test_broken_base64_is_refused_before_any_request(content: str) -> None:
    with pytest.raises(InvalidInput, match="not base64"):
        await call(
            account_over(network()), "nc_files_write_file", path="a", content=content, encoding="base64"
        )


async def test_a_write_to_a_storage_without_etags_is_said_to_be_one() -> None:
    """B19."""
    net = network(httpx2.Response(201), multistatus([entry("a", etag=None)]))

    written = await call(account_over(net), "nc_files_write_file", path="a", content="abc")

    assert "no etag" in written.note


def whole(data: bytes) -> httpx2.Response:
    """Answer all of a file."""
    headers = {"ETag": '"e1"', "Last-Modified": MOMENT, "Content-Length": str(len(data))}
    return httpx2.Response(200, headers=headers, content=data)


async def test_an_edit_keeps_line_ends_and_the_byte_order_mark() -> None:
    text = "\ufeffone\r\ntwo\r\nthree\r\n".encode()
    written = httpx2.Response(204, headers={"ETag": '"e2"'})
    net = network(whole(text), multistatus([entry("a.txt", size=len(text))]), written)

    edited = await call(
        account_over(net), "nc_files_edit_file", path="a.txt", old_text="one\ntwo", new_text="1\n2"
    )

    assert net.methods == ["GET", "PROPFIND", "PUT"]
    assert net.seen[2].content == "\ufeff1\r\n2\r\nthree\r\n".encode()
    assert (edited.replaced, edited.etag, edited.created) == (1, "e2~16~", None)


async def test_every_occurrence_is_replaced_when_asked_for(alice: Account) -> None:
    await alice.files.write("a.txt", b"a b a b a")

    with pytest.raises(InvalidInput, match="3 times"):
        await call(alice, "nc_files_edit_file", path="a.txt", old_text="a", new_text="c")
    edited = await call(
        alice, "nc_files_edit_file", path="a.txt", old_text="a", new_text="c", replace_all=True
    )

    assert edited.replaced == 3
    assert await read_bytes(alice, "a.txt") == b"c b c b c"


async def test_an_edit_of_another_version_is_refused() -> None:
    account = account_over(network(whole(b"abc")))

    with pytest.raises(EtagMismatch, match="Read it again") as caught:
        await call(account, "nc_files_edit_file", path="a", old_text="a", new_text="b", etag="stale")

    assert caught.value.current_etag == f"e1~3~{SECONDS}"


async def test_a_very_large_file_is_not_edited() -> None:
    headers = {"ETag": '"e1"', "Content-Range": f"bytes 0-{MAX_EDITED_BYTES}/{MAX_EDITED_BYTES + 1}"}
    net = network(httpx2.Response(206, headers=headers, content=b"x" * (MAX_EDITED_BYTES + 1)))

    with pytest.raises(InvalidInput, match="too large"):
        await call(account_over(net), "nc_files_edit_file", path="a", old_text="x", new_text="y")


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        ("a", "", "b", "empty"),
        ("a", "b", "c", "0 matches"),
        ("aaa", "aa", "b", "2 times"),
        ("a", "a", "a", "nothing to change"),
        ("a\r\nb\r\n", "a\n", "a\r\n", "nothing to change"),
    ],
)
def test_an_edit_that_would_be_a_guess_is_refused(text: str, old: str, new: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        replace(text, old, new, every=False)


def test_a_file_with_mixed_line_ends_is_compared_as_it_is() -> None:
    edited, count = replace("a\nb\nc\r\nd\n", "b\nc", "x\ny", every=False)

    assert (edited, count) == ("a\nx\ny\r\nd\n", 1)


@given(st.text("ab\r\n", max_size=30), st.text("ab\n", min_size=1, max_size=4))
def test_an_edit_undone_gives_the_text_back(text: str, old: str) -> None:
    line_end = "\r\n" if "\n" in text else "\r"
    marker = "<unique>"
    try:
        edited, count = replace(text, old, marker, every=True)
    except InvalidInput:
        return

    kept = old if old in text else old.replace("\n", line_end)
    assert edited.count(marker) == count
    assert edited.replace(marker, kept) == text


async def test_a_folder_is_made_with_its_parents_and_only_once(alice: Account) -> None:
    first = await call(alice, "nc_files_create_folder", path="/a/b/c/")
    again = await call(alice, "nc_files_create_folder", path="a/b/c")

    assert (first.path, first.created, again.created) == ("a/b/c", True, False)


@pytest.mark.parametrize("tool", ["nc_files_move_item", "nc_files_copy_item"])
async def test_a_folder_named_as_the_full_new_path_is_answered_with_the_path_that_was_meant(
    alice: Account, tool: str
) -> None:
    await alice.files.write("a.txt", b"a")

    with pytest.raises(AlreadyExists, match=r"the folder to put it into, pass 'Documents/a.txt'"):
        await call(alice, tool, source="a.txt", destination="Documents")
    await call(alice, "nc_files_copy_item", source="a.txt", destination="Documents/a.txt")
    with pytest.raises(
        AlreadyExists, match=r"exists already\. To replace a file, pass its etag as overwrite_etag"
    ):
        await call(alice, tool, source="a.txt", destination="Documents/a.txt")


async def test_a_copy_replaces_only_the_version_that_was_read(alice: Account) -> None:
    await alice.files.write("a.txt", b"a")
    target = await call(alice, "nc_files_write_file", path="b.txt", content="b")

    with pytest.raises(AlreadyExists):
        await call(alice, "nc_files_copy_item", source="a.txt", destination="b.txt")
    copied = await call(
        alice, "nc_files_copy_item", source="a.txt", destination="/b.txt", overwrite_etag=target.etag
    )

    assert (copied.path, copied.size) == ("b.txt", 1)
    assert await read_bytes(alice, "b.txt") == b"a"


async def test_a_move_whose_result_cannot_be_looked_at_says_so() -> None:
    net = network(recorded("webdav/move_201"), recorded("webdav/propfind_404"))

    moved = await call(account_over(net), "nc_files_move_item", source="a", destination="b")

    assert (moved.path, moved.etag) == ("b", None)
    assert "nc_files_get_info" in moved.note


async def test_a_deletion_names_its_undo(alice: Account) -> None:
    deleted = await call(alice, "nc_files_delete_item", path="Readme.md")

    assert deleted.trash_id is not None
    assert deleted.trash_id.startswith("Readme.md.d")
    assert "nc_files_restore_trash" in deleted.undo


async def test_a_deletion_that_is_not_in_the_trash_says_so() -> None:
    net = network(recorded("webdav/delete_204"), recorded("trashbin/list"))

    deleted = await call(account_over(net), "nc_files_delete_item", path="a")

    assert deleted.trash_id is None
    assert "not found in the trash" in deleted.undo
