import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.trash import TrashClient, position
from tests.dav_fakes import Network, http_over, multistatus, network, recorded

GONE = recorded("trashbin/restore_missing_404")


def client(net: Network) -> TrashClient:
    return TrashClient(http_over(net))


def deleted(name: str, seconds: str, location: str) -> str:
    return (
        f"<d:response><d:href>/remote.php/dav/trashbin/alice/trash/{name}</d:href><d:propstat><d:prop>"
        f"<nc:trashbin-original-location>{location}</nc:trashbin-original-location>"
        f"<nc:trashbin-deletion-time>{seconds}</nc:trashbin-deletion-time>"
        "<d:resourcetype><d:collection/></d:resourcetype></d:prop>"
        "<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
    )


async def test_the_trash_lists_what_a_real_nextcloud_answers_newest_first() -> None:
    net = network(recorded("trashbin/list"), recorded("trashbin/list"))
    trash = client(net)

    first, total, more = await trash.list_items(limit=2)
    second, _, none_left = await trash.list_items(limit=2, after=position(first[-1]))

    assert (total, more, none_left) == (3, True, False)
    assert [each.original_path for each in [*first, *second]] == [
        "Rec/trash me #1.txt",
        "Rec/q&a.txt",
        "Rec/copy of plain #1.txt",
    ]
    assert first[0].trash_id == "trash me #1.txt.d1795813520"
    assert (first[0].size, first[0].is_folder, first[0].file_id) == (3, False, "268")


async def test_the_latest_deletion_at_a_path_is_found() -> None:
    body = [
        deleted("a.d1", "1", "Docs/a"),
        deleted("a.d3", "3", "/Docs/a"),
        deleted("a.d2", "2", "Docs/a"),
        deleted("a.d9", "9", "Other/a"),
        deleted("folder/inside.d99", "99", "Docs/a"),
    ]
    net = network(multistatus(body), multistatus(body))
    trash = client(net)

    found = await trash.find_deleted("Docs/a")
    missing = await trash.find_deleted("Docs/b")

    assert found is not None
    assert (found.trash_id, found.is_folder) == ("a.d3", True)
    assert missing is None


@pytest.mark.parametrize("answer", [GONE, httpx2.Response(500), httpx2.Response(207, content=b"<html/>")])
async def test_a_trash_that_cannot_be_read_spoils_no_deletion(answer: httpx2.Response) -> None:
    trash = client(network(answer))

    assert await trash.find_deleted("a") is None


async def test_a_nextcloud_without_a_trash_is_said_to_have_none() -> None:
    with pytest.raises(errors.NotFound, match="no trash"):
        await client(network(GONE)).list_items(limit=1)


async def test_a_restore_goes_to_the_restore_folder_which_refuses_every_overwrite_f() -> None:
    entry = deleted("a%20b.d1", "odd", "Docs/a b")
    net = network(multistatus([entry]), recorded("trashbin/restore_201"))

    restored = await client(net).restore("a b.d1")

    assert restored.original_path == "Docs/a b"
    assert net.seen[1].method == "MOVE"
    assert "Overwrite" not in net.seen[1].headers
    assert (
        net.seen[1].headers["Destination"]
        == "https://cloud.example.org/remote.php/dav/trashbin/alice/restore/a%20b.d1"
    )


async def test_an_unknown_trash_id_is_said_to_be_unknown() -> None:
    entry = deleted("a.d1", "1", "a")
    net = network(GONE, multistatus([entry]), GONE, multistatus([deleted("b.d1", "1", "b")]))
    trash = client(net)

    for _ in range(3):
        with pytest.raises(errors.NotFound, match=r"id 'a\.d1'.*nc_files_list_trash"):
            await trash.restore("a.d1")


@pytest.mark.parametrize("trash_id", ["", "/", "a/b", "..", "a\\b", "a\nb"])
async def test_what_is_no_trash_id_is_refused_before_any_request(trash_id: str) -> None:
    with pytest.raises(errors.InvalidInput):
        await client(network()).restore(trash_id)


async def test_a_lost_answer_says_that_it_may_have_been_restored() -> None:
    net = network(multistatus([deleted("a.d1", "1", "Docs/a")]), httpx2.ReadTimeout("slow"))

    with pytest.raises(errors.TimedOut, match="'Docs/a' may or may not have happened"):
        await client(net).restore("a.d1")
