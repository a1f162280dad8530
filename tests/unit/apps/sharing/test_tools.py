import json
from datetime import UTC, datetime

import pytest

from nextcloud_mcp_server.apps.sharing.client import Kind, May, Share, SharingClient
from nextcloud_mcp_server.apps.sharing.tools import Ended, ShareRow
from nextcloud_mcp_server.errors import (
    EtagMismatch,
    Forbidden,
    InvalidInput,
    InvalidName,
    NextcloudError,
    NotFound,
)
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.dav_fakes import account_in, account_over, call, http_over, network, recorded


def today() -> datetime:
    return datetime(2026, 11, 27, 21, 0, tzinfo=UTC)


@pytest.fixture
def sandbox() -> Sandbox:
    made = Sandbox.demo(clock=today)
    made.state.shares.clear()
    return made


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


@pytest.fixture
def bob(sandbox: Sandbox) -> Account:
    return account_in(sandbox, "bob")


async def end(account: Account, row: ShareRow) -> Ended:
    ended: Ended = await call(account, "nc_sharing_delete_share", share_id=row.share_id, etag=row.etag)
    return ended


@pytest.mark.parametrize("name", ["bob", "Bob Builder", "BOB@example.test"])
async def test_a_file_is_shared_with_a_person_by_any_of_their_names(
    alice: Account, bob: Account, name: str
) -> None:
    made = await call(
        alice,
        "nc_sharing_share_item",
        path="Readme.md",
        person=name,
        note="have a look",
        expires="2027-01-31",
    )
    mine = await call(alice, "nc_sharing_list_shares")
    theirs = await call(bob, "nc_sharing_list_shares", received=True)
    info = await call(alice, "nc_files_get_info", path="Readme.md")

    assert made.model_dump(mode="json", exclude_none=True) == {
        "share_id": "2",
        "etag": made.etag,
        "path": "Readme.md",
        "type": "file",
        "shared_with": "person",
        "receiver": "Bob Builder (bob)",
        "may": ["read"],
        "expires": "2027-01-31",
        "note": "have a look",
        "shared": "2026-11-27T21:00:00Z",
    }
    assert [row.share_id for row in mine.items] == ["2"]
    assert [(row.path, row.owner) for row in theirs.items] == [("Readme.md", "Alice Example")]
    assert (info.shared_by, info.shared_with) == (["person"], ["bob"])


async def test_a_folder_is_shared_with_a_group_to_edit_and_pass_on(alice: Account) -> None:
    made = await call(
        alice, "nc_sharing_share_item", path="Documents", group="team", access="edit", reshare=True
    )

    assert (made.type, made.shared_with, made.receiver) == ("folder", "group", "team")
    assert made.may == ["read", "change", "add", "delete", "share"]


@pytest.mark.parametrize(
    ("access", "path", "may"),
    [
        ("view", "Documents", ["read"]),
        ("edit", "Readme.md", ["read", "change"]),
        ("edit", "Documents", ["read", "change", "add", "delete"]),
        ("upload", "Documents", ["add"]),
    ],
)
async def test_a_link_opens_what_it_says_and_shows_no_password(
    sandbox: Sandbox, alice: Account, access: str, path: str, may: list[str]
) -> None:
    made = await call(
        alice,
        "nc_sharing_create_link",
        path=path,
        access=access,
        password="long and odd enough",
        expires="2027-01-31",
        label="for the plumber",
    )

    assert made.link == f"http://localhost/s/{sandbox.state.shares[0].token}"
    assert (made.may, made.password, made.receiver) == (may, True, None)
    assert "odd enough" not in made.model_dump_json()
    assert "odd enough" not in repr(await alice.client(SharingClient).get(made.share_id))


async def test_a_share_is_changed_in_what_is_given_and_emptied_by_empty_texts(alice: Account) -> None:
    made = await call(
        alice,
        "nc_sharing_create_link",
        path="Documents",
        password="long and odd enough",
        label="a",
        expires="2027-01-31",
    )

    wider = await call(
        alice, "nc_sharing_update_share", share_id=made.share_id, etag=made.etag, access="edit"
    )
    bare = await call(
        alice,
        "nc_sharing_update_share",
        share_id=made.share_id,
        etag=wider.etag,
        password="",
        expires="",
        label="",
    )

    assert (wider.may, wider.password, wider.label) == (["read", "change", "add", "delete"], True, "a")
    assert (bare.password, bare.expires, bare.label) == (None, None, None)
    with pytest.raises(EtagMismatch, match="List it again"):
        await call(alice, "nc_sharing_update_share", share_id=made.share_id, etag=made.etag, label="b")


async def test_the_right_to_pass_on_is_changed_alone(alice: Account) -> None:
    made = await call(alice, "nc_sharing_share_item", path="Documents", person="bob", access="edit")

    given = await call(alice, "nc_sharing_update_share", share_id=made.share_id, etag=made.etag, reshare=True)
    narrowed = await call(
        alice,
        "nc_sharing_update_share",
        share_id=made.share_id,
        etag=given.etag,
        access="view",
        note="only look",
    )

    assert given.may == ["read", "change", "add", "delete", "share"]
    assert (narrowed.may, narrowed.note) == (["read", "share"], "only look")


async def test_sharing_again_changes_nothing_and_says_so(alice: Account) -> None:
    first = await call(alice, "nc_sharing_share_item", path="Readme.md", person="bob")

    same = await call(alice, "nc_sharing_share_item", path="Readme.md", person="bob")
    wider = await call(alice, "nc_sharing_share_item", path="Readme.md", person="bob", access="edit")
    shorter = await call(alice, "nc_sharing_share_item", path="Readme.md", person="bob", expires="2027-01-31")
    noted = await call(alice, "nc_sharing_share_item", path="Readme.md", person="bob", note="have a look")

    assert (same.share_id, same.hint) == (first.share_id, None)
    assert wider.may == ["read"]
    assert (shorter.expires, noted.note) == (None, None)
    assert all("nc_sharing_update_share" in share.hint for share in (wider, shorter, noted))


async def test_ending_a_share_tells_how_it_could_be_undone(alice: Account, bob: Account) -> None:
    person = await call(alice, "nc_sharing_share_item", path="Readme.md", person="bob")
    link = await call(alice, "nc_sharing_create_link", path="Readme.md")
    await call(alice, "nc_sharing_share_item", path="Documents", group="team")

    received = {row.path: row for row in (await call(bob, "nc_sharing_list_shares", received=True)).items}
    let_go = await end(bob, received["Documents"])
    gone = await end(alice, link)
    with pytest.raises(EtagMismatch, match="again, look at what has changed"):
        await call(alice, "nc_sharing_delete_share", share_id=person.share_id, etag="old")
    ended = await end(alice, person)
    await call(alice, "nc_sharing_share_item", path="Readme.md", person="bob")
    refused = await end(bob, (await call(bob, "nc_sharing_list_shares", received=True)).items[0])

    assert let_go.undo.endswith("Files, Shares, Deleted shares.")
    assert gone.undo == "It cannot be undone: a new link has another address."
    assert ended.undo == "To undo, share it with bob again."
    assert refused.undo == "Only Alice Example can share it again."
    assert (await call(bob, "nc_sharing_list_shares", received=True)).items == []
    assert [row.path for row in (await call(alice, "nc_sharing_list_shares")).items] == ["Documents"]


async def test_shares_come_in_pages_and_of_one_path(alice: Account) -> None:
    for _ in range(3):
        await call(alice, "nc_sharing_create_link", path="Documents")
    await call(alice, "nc_sharing_create_link", path="Readme.md")

    first = await call(alice, "nc_sharing_list_shares", path="Documents", limit=2)
    second = await call(alice, "nc_sharing_list_shares", path="Documents", limit=2, cursor=first.cursor)

    assert (first.total, len(first.items), len(second.items), second.cursor) == (3, 2, 1, None)
    assert len({row.share_id for row in (*first.items, *second.items)}) == 3
    with pytest.raises(NotFound, match="There is no 'nope'"):
        await call(alice, "nc_sharing_list_shares", path="nope")


async def test_a_name_that_several_have_is_asked_about_and_never_guessed(
    sandbox: Sandbox, alice: Account
) -> None:
    sandbox.add_user("bob2", display_name="Bob Builder")
    sandbox.add_user("bobby")

    with pytest.raises(
        InvalidInput, match=r"more than one person .*Bob Builder \(bob\), Bob Builder \(bob2\)"
    ):
        await call(alice, "nc_sharing_share_item", path="Readme.md", person="Bob Builder")
    with pytest.raises(NotFound, match=r"Called alike: Bob Builder \(bob\), Bob Builder \(bob2\), bobby\."):
        await call(alice, "nc_sharing_share_item", path="Readme.md", person="bo")
    with pytest.raises(NotFound, match="No group is called 'nope' here"):
        await call(alice, "nc_sharing_share_item", path="Readme.md", group="nope")
    exact = await call(alice, "nc_sharing_share_item", path="Readme.md", person="bob2")

    assert len(sandbox.state.shares) == 1
    assert sandbox.state.shares[0].receiver == "bob2"
    assert exact.receiver == "Bob Builder (bob2)"


async def test_many_names_that_are_alike_are_counted(sandbox: Sandbox, alice: Account) -> None:
    for number in range(8):
        sandbox.add_user(f"zed{number}")

    with pytest.raises(NotFound, match="zed4 and 3 more"):
        await call(alice, "nc_sharing_share_item", path="Readme.md", person="zed")


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("share_item", {"path": "Readme.md"}, "either 'person' or 'group'"),
        ("share_item", {"path": "Readme.md", "person": "bob", "group": "team"}, "either"),
        ("share_item", {"path": "Readme.md", "person": "Alice"}, "oneself"),
        ("share_item", {"path": "Readme.md", "person": "bob", "expires": "soon"}, "a day such as"),
        ("create_link", {"path": "Readme.md", "access": "upload"}, "Only a folder"),
        ("update_share", {"share_id": "1", "etag": "x"}, "Say what to change"),
        ("update_share", {"share_id": "1/../2", "etag": "x", "label": "a"}, "not a share_id"),
        ("delete_share", {"share_id": "x", "etag": "x"}, "not a share_id"),
    ],
)
async def test_what_cannot_be_is_refused_with_what_to_do(
    alice: Account, tool: str, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        await call(alice, f"nc_sharing_{tool}", **arguments)


async def test_only_links_have_passwords_and_only_they_are_for_upload(alice: Account) -> None:
    made = await call(alice, "nc_sharing_share_item", path="Documents", person="bob")

    with pytest.raises(InvalidInput, match="have a password"):
        await call(alice, "nc_sharing_update_share", share_id=made.share_id, etag=made.etag, password="x")
    with pytest.raises(InvalidInput, match="upload alone"):
        await call(alice, "nc_sharing_update_share", share_id=made.share_id, etag=made.etag, access="upload")
    link = await call(alice, "nc_sharing_create_link", path="Documents")
    with pytest.raises(InvalidInput, match="can pass it on"):
        await call(alice, "nc_sharing_update_share", share_id=link.share_id, etag=link.etag, reshare=True)
    dropped = await call(
        alice, "nc_sharing_update_share", share_id=link.share_id, etag=link.etag, access="upload"
    )

    assert dropped.may == ["add"]


async def test_a_password_that_is_told_in_talk_stays_so_when_something_else_is_changed() -> None:
    answers = network(recorded("shares/create_user"), recorded("shares/create_user"))
    mail = {"id": "9", "share_type": 4, "share_with": "eve@example.test", "send_password_by_talk": True}
    quiet = {**mail, "send_password_by_talk": False, "share_with_displayname": "Eve"}
    sharing = account_over(answers).client(SharingClient)

    await sharing.update(Share.model_validate(mail), {"label": "a"})
    await sharing.update(Share.model_validate(quiet), {"label": "a"})

    assert [json.loads(request.content) for request in answers.seen] == [
        {"sendPasswordByTalk": "true", "label": "a"},
        {"label": "a"},
    ]
    assert Share.model_validate(mail).to == "eve@example.test"
    assert Share.model_validate(quiet).to == "Eve (eve@example.test)"


async def test_refusals_of_nextcloud_say_why_and_what_next(alice: Account, bob: Account) -> None:
    link = await call(alice, "nc_sharing_create_link", path="Documents")

    with pytest.raises(InvalidName, match=r"at least 10 characters long\)\. Change that"):
        await call(alice, "nc_sharing_create_link", path="Readme.md", password="short")
    with pytest.raises(NotFound, match=r"Expiration date is in the past\)\. Check path, date"):
        await call(alice, "nc_sharing_create_link", path="Readme.md", expires="2020-01-01")
    with pytest.raises(NotFound, match="There is no 'nope'"):
        await call(alice, "nc_sharing_create_link", path="nope")
    with pytest.raises(NotFound, match=f"no share {link.share_id} that the person can see"):
        await call(bob, "nc_sharing_delete_share", share_id=link.share_id, etag=link.etag)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ("create_bad_expiry", NotFound, "Format must be YYYY-MM-DD"),
        ("create_bad_type_400", InvalidName, "Unknown share type"),
        ("create_link_weak_password", InvalidName, "at least 10 characters long"),
        ("create_missing_path_404", NotFound, "file/folder does not exist"),
        ("create_no_path", NotFound, "specify a file or folder path"),
        ("create_past_expiry", NotFound, "in the past"),
        ("create_self", Forbidden, "Cannot share with yourself"),
        ("create_unknown_user_404", NotFound, "specify a valid account"),
    ],
)
async def test_every_refusal_to_share_becomes_one_sentence_with_the_reason(
    answer: str, kind: type[NextcloudError], words: str
) -> None:
    account = account_over(network(recorded(f"shares/{answer}")))

    with pytest.raises(kind) as refused:
        await account.client(SharingClient).create("Rec", kind=Kind.LINK, permissions=May.READ)

    assert words in str(refused.value)
    assert str(refused.value).startswith("Nextcloud d")
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize("answer", ["get_404", "delete_again_404", "delete_foreign"])
async def test_a_share_that_is_gone_or_another_users_is_said_not_to_be_there(answer: str) -> None:
    refusal = recorded(f"shares/{answer}")
    share = await account_over(network(recorded("shares/get"))).client(SharingClient).get("1")
    account = Account(http_over(network(refusal), uid=refusal.headers["X-User-Id"]))

    with pytest.raises(NotFound, match="see nc_sharing_list_shares"):
        await account.client(SharingClient).delete(share)


async def test_a_change_that_is_refused_says_why() -> None:
    account = account_over(network(recorded("shares/get"), recorded("shares/update_nothing_400")))
    share = await account.client(SharingClient).get("1")

    with pytest.raises(InvalidName, match=r"share 1 .*no update parameter given\)"):
        await account.client(SharingClient).update(share, {})


async def test_an_empty_answer_and_an_odd_date_are_borne() -> None:
    nothing = recorded("shares/delete_200")
    share = Share.model_validate({"id": "1", "share_type": 7, "expiration": "never"})

    with pytest.raises(NotFound):
        await account_over(network(nothing)).client(SharingClient).get("1")

    assert share.expires is None


async def test_long_lists_are_cut_to_what_fits(sandbox: Sandbox, alice: Account) -> None:
    for _ in range(150):
        await call(alice, "nc_sharing_create_link", path="Documents", label="x" * 250)

    page = await call(alice, "nc_sharing_list_shares", limit=200)

    assert 50 < len(page.items) < 150
    assert page.cursor is not None
    assert len(sandbox.state.shares) == 150
