import itertools

import pytest

from nextcloud_mcp_server.sandbox.files import (
    FileLocked,
    FileMissing,
    FileTree,
    NameRefused,
    NotWritable,
    ParentMissing,
    QuotaExceeded,
)
from nextcloud_mcp_server.sandbox.node import download_mime_of, mime_of

_NOW = 1_795_813_606


def _tree(*, coarse_etags: bool = True, quota_bytes: int | None = None) -> FileTree:
    return FileTree(
        "alice",
        clock=lambda: _NOW,
        next_id=itertools.count(1).__next__,
        coarse_etags=coarse_etags,
        quota_bytes=quota_bytes,
    )


def test_two_writes_within_a_second_share_an_etag() -> None:
    tree = _tree()

    first = tree.put("/a.txt", b"one").etag
    second = tree.put("/a.txt", b"two").etag

    assert first == second


def test_a_tree_with_fine_etags_gives_every_write_its_own() -> None:
    tree = _tree(coarse_etags=False)

    first = tree.put("/a.txt", b"one").etag
    second = tree.put("/a.txt", b"two").etag

    assert first != second


def test_a_move_keeps_the_file_id_and_the_etag() -> None:
    tree = _tree()
    node = tree.put("/a.txt", b"one")
    before = (node.file_id, node.etag)
    tree.make_folder("/deep/er", parents=True)

    moved, replaced = tree.move("/a.txt", "/deep/er/b.txt")

    assert (moved.file_id, moved.etag) == before
    assert (moved.path, replaced, tree.find("/a.txt")) == ("/deep/er/b.txt", False, None)


def test_a_copied_folder_has_new_ids_and_the_same_bytes() -> None:
    tree = _tree()
    tree.make_folder("/a")
    tree.put("/a/x.txt", b"x", checksum="SHA1:1")

    twin, _ = tree.copy("/a", "/b")

    copied = tree.get("/b/x.txt")
    assert copied.read() == b"x"
    assert (copied.checksum, copied.file_id != tree.get("/a/x.txt").file_id) == ("SHA1:1", True)
    assert (twin.size, twin.read()) == (1, b"")


def test_a_write_changes_the_etags_of_every_folder_above() -> None:
    tree = _tree()
    tree.make_folder("/a/b", parents=True)
    before = (tree.root.etag, tree.get("/a").etag)

    tree.put("/a/b/x.txt", b"x")

    assert before[0] != tree.root.etag
    assert before[1] != tree.get("/a").etag


def test_names_are_kept_composed_whatever_form_they_came_in() -> None:
    tree = _tree()

    tree.put("/cafe\u0301.txt", b"x")

    assert tree.get("/caf\u00e9.txt").name == "caf\u00e9.txt"


def test_a_missing_file_is_named_by_the_first_part_that_is_missing() -> None:
    tree = _tree()

    with pytest.raises(FileMissing) as caught:
        tree.get("/nope/deep/x.txt")

    assert str(caught.value) == "File with name //nope could not be located"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a\\b", '"\\" is not allowed inside a file or folder name.'),
        ("n" * 251, "Filename is too long"),
        (".htaccess", "Filename is a reserved word"),
        ("x.part", '".part" is a forbidden file type.'),
        ("x.FILEPART", '".filepart" is a forbidden file type.'),
    ],
)
def test_a_name_nextcloud_forbids_is_refused_with_its_reason(name: str, reason: str) -> None:
    tree = _tree()

    with pytest.raises(NameRefused) as caught:
        tree.put(f"/{name}", b"x")

    assert str(caught.value) == reason


def test_what_is_written_must_fit_the_quota() -> None:
    tree = _tree(quota_bytes=10)
    tree.put("/a.txt", b"x" * 8)

    with pytest.raises(QuotaExceeded) as caught:
        tree.put("/b.txt", b"xxx")

    assert str(caught.value) == "Insufficient space in /b.txt, 3 required, 2 available"
    assert tree.put("/a.txt", b"y" * 10).size == 10


def test_a_folder_is_made_only_below_one_that_exists() -> None:
    tree = _tree()

    with pytest.raises(ParentMissing):
        tree.make_folder("/a/b")
    with pytest.raises(ParentMissing):
        tree.put("/a/b.txt", b"x")

    assert tree.make_folder("/a") is tree.make_folder("/a")


def test_a_locked_file_is_not_written_until_it_is_unlocked() -> None:
    tree = _tree()
    tree.put("/a.txt", b"x")
    tree.lock("/a.txt")

    with pytest.raises(FileLocked):
        tree.put("/a.txt", b"y")
    tree.unlock("/a.txt")

    assert tree.put("/a.txt", b"y").read() == b"y"


def test_a_read_only_file_is_not_written() -> None:
    tree = _tree()
    node = tree.put("/a.txt", b"x")
    node.readonly = True

    with pytest.raises(NotWritable):
        tree.put("/a.txt", b"y")

    assert node.permissions == "RG"


def test_two_deletions_of_one_name_in_one_second_get_two_trash_names() -> None:
    tree = _tree()

    items: list[str] = []
    for _ in range(2):
        tree.put("/a.txt", b"x")
        items.append(tree.trash_file("/a.txt").entry_name)

    assert items == [f"a.txt.d{_NOW}", f"a.txt.d{_NOW + 1}"]


@pytest.mark.parametrize(
    ("taken", "restored"),
    [
        ([], "/a/x.tar.gz"),
        (["x.tar.gz"], "/a/x.tar (restored).gz"),
        (["x.tar.gz", "x.tar (restored).gz"], "/a/x.tar (restored 2).gz"),
    ],
)
def test_a_restored_file_takes_a_free_name(taken: list[str], restored: str) -> None:
    tree = _tree()
    tree.make_folder("/a")
    tree.put("/a/x.tar.gz", b"x")
    item = tree.trash_file("/a/x.tar.gz")
    for name in taken:
        tree.put(f"/a/{name}", b"y")

    node = tree.restore(item)

    assert (node.path, tree.trash) == (restored, [])


def test_a_file_whose_folder_is_gone_is_restored_to_the_home_folder() -> None:
    tree = _tree()
    tree.make_folder("/a")
    tree.put("/a/.hidden", b"x")
    item = tree.trash_file("/a/.hidden")
    tree.trash_file("/a")
    tree.put("/a", b"now a file")
    tree.put("/.hidden", b"y")

    node = tree.restore(item)

    assert node.path == "/.hidden (restored)"


def test_a_file_is_found_by_its_id_unless_it_is_in_the_trash() -> None:
    tree = _tree()
    node = tree.put("/a.txt", b"x")

    found = tree.find_by_id(node.file_id)
    tree.trash_file("/a.txt")

    assert found is node
    assert tree.find_by_id(node.file_id) is None


def test_a_generated_file_reads_the_same_in_any_pieces() -> None:
    tree = _tree()

    content = tree.put_generated("/big.txt", 200_000_000, b"0123456789").content

    assert content is not None
    assert b"".join(content.pieces(199_999_995, 200_000_000)) == b"56789"
    assert b"".join(content.pieces(7, 23)) == b"7890123456789012"


def test_a_type_is_guessed_by_name_and_downloaded_as_what_is_safe() -> None:
    mimes = [mime_of("a.JSON"), mime_of("a.md"), mime_of("a.png"), mime_of("noext")]

    assert mimes == ["application/json", "text/markdown", "image/png", "application/octet-stream"]
    assert download_mime_of(mimes[0]) == "text/plain;charset=UTF-8"
    assert download_mime_of(mimes[2]) == "image/png"
