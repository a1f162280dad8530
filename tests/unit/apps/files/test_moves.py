import anyio
import httpx2
import pytest

from nextcloud_mcp_server.errors import CredentialRejected, InvalidInput, NotFound, TimedOut
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools.file_results import Moved, NotMoved
from nextcloud_mcp_server.tools.registry import load
from tests.dav_fakes import (
    Impatient,
    ProgressLog,
    account_in,
    account_over,
    call,
    call_with,
    entry,
    multistatus,
    network,
)

MOVED = httpx2.Response(201)
FOLDER = multistatus([entry("box", folder=True)])


@pytest.fixture
def alice() -> Account:
    return account_in(Sandbox.demo())


async def filled(account: Account, *names: str) -> None:
    for folder in ("inbox", "archive"):
        await call(account, "nc_files_create_folder", path=folder)
    for name in names:
        await call(account, "nc_files_write_file", path=f"inbox/{name}", content=name)


async def names_in(account: Account, folder: str) -> list[str]:
    return [row.name for row in (await call(account, "nc_files_list_folder", path=folder)).items]


async def test_several_files_move_into_a_folder_and_it_is_told_how_far_it_is(alice: Account) -> None:
    await filled(alice, "a.txt", "b +.txt", "stays.txt")
    told = ProgressLog()

    moved = await call_with(
        {"progress": told},
        load("files"),
        alice,
        "nc_files_move_item",
        source=["inbox/a.txt", "/inbox/b +.txt"],
        destination="/archive/",
    )

    assert moved == Moved(folder="archive", moved=["archive/a.txt", "archive/b +.txt"])
    assert await names_in(alice, "archive") == ["a.txt", "b +.txt"]
    assert await names_in(alice, "inbox") == ["stays.txt"]
    assert told.reports == [(1, 2, "Moved 1 of 2"), (2, 2, "Moved 2 of 2")]


async def test_what_cannot_be_moved_is_named_with_its_reason_and_the_others_are_moved(alice: Account) -> None:
    await filled(alice, "a.txt", "taken.txt", "b.txt")
    await call(alice, "nc_files_write_file", path="archive/taken.txt", content="was here")

    moved = await call(
        alice,
        "nc_files_move_item",
        source=["inbox/a.txt", "inbox/taken.txt", "inbox/gone.txt", "inbox/b.txt"],
        destination="archive",
    )

    kept = (await alice.files.read("archive/taken.txt", length=100)).data
    assert moved.moved == ["archive/a.txt", "archive/b.txt"]
    assert [one.path for one in moved.failed] == ["inbox/taken.txt", "inbox/gone.txt"]
    assert moved.failed[0].reason.startswith("'archive/taken.txt' exists already.")
    assert (kept, await names_in(alice, "inbox")) == (b"was here", ["taken.txt"])


async def test_a_broken_connection_ends_it_and_says_what_is_moved_in_doubt_and_untouched() -> None:
    fake = network(FOLDER, MOVED, httpx2.ReadTimeout("no answer"))

    moved = await call(
        account_over(fake), "nc_files_move_item", source=["a", "b", "c", "d"], destination="box"
    )

    assert moved == Moved(
        folder="box",
        moved=["box/a"],
        failed=[
            NotMoved(
                path="b",
                reason="The connection broke before Nextcloud answered, so the change to 'box/b' may or may not "
                "have happened. Check with nc_files_get_info before you try again.",
            )
        ],
        not_tried=["c", "d"],
    )
    assert fake.methods == ["PROPFIND", "MOVE", "MOVE"]


async def test_trouble_with_the_very_first_is_the_answer() -> None:
    fake = network(FOLDER, httpx2.ReadTimeout("no answer"))

    with pytest.raises(TimedOut, match="'box/a' may or may not have happened"):
        await call(account_over(fake), "nc_files_move_item", source=["a", "b"], destination="box")

    assert fake.methods == ["PROPFIND", "MOVE"]


async def test_a_refused_credential_is_used_for_no_further_one() -> None:
    fake = network(FOLDER, MOVED, httpx2.Response(401), httpx2.Response(401))

    with pytest.raises(CredentialRejected):
        await call(account_over(fake), "nc_files_move_item", source=["a", "b", "c"], destination="box")

    assert fake.methods == ["PROPFIND", "MOVE", "MOVE", "GET"]


async def test_a_cancelled_move_leaves_each_thing_whole_in_one_of_two_places(alice: Account) -> None:
    await filled(alice, "a.txt", "b.txt")

    with anyio.CancelScope() as scope:
        await call_with(
            {"progress": Impatient(scope)},
            load("files"),
            alice,
            "nc_files_move_item",
            source=["inbox/a.txt", "inbox/b.txt"],
            destination="archive",
        )

    assert scope.cancelled_caught
    assert (await names_in(alice, "archive"), await names_in(alice, "inbox")) == (["a.txt"], ["b.txt"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"source": ["a/x", "b/x"]}, "the same name"),
        ({"source": ["a", "/"]}, "top folder"),
        ({"source": ["a", "../b"]}, r"'\.\.'"),
        ({"source": ["a"], "overwrite_etag": "1"}, "leave out 'overwrite_etag'"),
        ({"source": []}, "at least 1"),
        ({"source": [f"{number}" for number in range(101)]}, "at most 100"),
    ],
)
async def test_what_cannot_end_well_is_refused_before_any_request(
    arguments: dict[str, object], words: str
) -> None:
    fake = network()

    with pytest.raises(InvalidInput, match=words):
        await call(account_over(fake), "nc_files_move_item", destination="box", **arguments)

    assert fake.seen == []


async def test_several_go_into_a_folder_that_is_there_and_nowhere_else(alice: Account) -> None:
    await filled(alice, "a.txt", "b.txt")

    with pytest.raises(InvalidInput, match=r"'inbox/b\.txt' is a file: name the folder"):
        await call(alice, "nc_files_move_item", source=["inbox/a.txt"], destination="inbox/b.txt")
    with pytest.raises(NotFound, match="There is no 'nowhere'"):
        await call(alice, "nc_files_move_item", source=["inbox/a.txt"], destination="nowhere")

    assert await names_in(alice, "inbox") == ["a.txt", "b.txt"]
