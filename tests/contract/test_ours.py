"""Our own client keeps its promises on the same servers as the recordings."""

import json
import os
from functools import partial

import pytest
from httpx2 import AsyncClient
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.collectives.client import CollectivesClient
from nextcloud_mcp_server.apps.contacts.client import ContactsClient, new_card
from nextcloud_mcp_server.apps.contacts.fields import Changes
from nextcloud_mcp_server.apps.cookbook.client import CookbookClient
from nextcloud_mcp_server.apps.deck.client import Changes as CardChanges
from nextcloud_mcp_server.apps.deck.client import DeckClient, Place
from nextcloud_mcp_server.apps.forms.client import FormsClient
from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.apps.tables.client import TablesClient
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.file_query import Query
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.contract.server import Server
from tests.contract.steps import BOARDS, COLLECTIVES, FORMS, JSON, TABLES, clean, expect

_NAMES = [
    "100% done.txt",
    "hash#tag.txt",
    "what?.txt",
    "a+b.txt",
    "semi;colon=.txt",
    "[brackets].txt",
    'quote\'s "x".txt',
    "q&a.txt",
    "emoji 🎉.txt",
    "Ünï cödé 日本.txt",
    "under_score.txt",
]


@pytest.fixture
def nextcloud(server: Server, pool: AsyncClient) -> Nextcloud:
    return Nextcloud(NextcloudUrl.parse(server.base), pool)


@pytest.fixture
async def alice(server: Server, nextcloud: Nextcloud) -> Account:
    await clean(server)
    account = nextcloud.account(BasicCredential("alice", SecretStr(server.passwords["alice"])), uid="alice")
    await account.files.create_folder("/Rec")
    return account


@pytest.fixture
def bob(server: Server, nextcloud: Nextcloud) -> Account:
    return nextcloud.account(BasicCredential("bob", SecretStr(server.passwords["bob"])), uid="bob")


@pytest.fixture
def sandbox(server: Server) -> Sandbox:
    if server.sandbox is None:
        pytest.skip("a real server cannot be brought into this state over HTTP")
    return server.sandbox


async def test_a_credential_names_its_person(server: Server, nextcloud: Nextcloud) -> None:
    secret = SecretStr(server.passwords["alice"])

    user = await nextcloud.whoami(BasicCredential("alice", secret))

    assert user.uid == "alice"


async def test_a_wrong_password_is_a_rejected_credential(nextcloud: Nextcloud) -> None:
    with pytest.raises(errors.CredentialRejected):
        await nextcloud.whoami(BasicCredential("alice", SecretStr("wrong")))


async def test_a_home_folder_has_an_id_that_stays(server: Server, nextcloud: Nextcloud) -> None:
    secret = SecretStr(server.passwords["alice"])

    first = await nextcloud.storage_id(BasicCredential("alice", secret), uid="alice")
    again = await nextcloud.storage_id(BasicCredential("alice", secret), uid="alice")

    assert first
    assert first == again


async def test_a_server_says_what_it_is_and_what_it_offers(nextcloud: Nextcloud, alice: Account) -> None:
    info = await nextcloud.server_info()
    offered = await alice.capabilities.get()

    assert not info.maintenance
    assert offered.version == info.version
    assert {"files", "notes"} <= offered.apps
    assert "1.3" in offered.notes_api_versions


async def test_an_app_password_works_until_it_is_deleted(server: Server, nextcloud: Nextcloud) -> None:
    made = await server.send(
        "GET",
        "/ocs/v2.php/core/getapppassword?format=json",
        person="bob",
        headers={"OCS-APIRequest": "true"},
    )
    secret = SecretStr(made.json()["ocs"]["data"]["apppassword"])

    user = await nextcloud.whoami(BasicCredential("bob", secret))
    await nextcloud.delete_app_password(BasicCredential("bob", secret))
    await nextcloud.delete_app_password(BasicCredential("bob", secret))

    assert user.uid == "bob"
    with pytest.raises(errors.CredentialRejected):
        await nextcloud.whoami(BasicCredential("bob", secret))


async def test_a_real_password_cannot_be_deleted(server: Server, nextcloud: Nextcloud) -> None:
    with pytest.raises(errors.Forbidden):
        await nextcloud.delete_app_password(BasicCredential("bob", SecretStr(server.passwords["bob"])))


async def test_a_login_flow_is_pending_until_a_user_grants_it(nextcloud: Nextcloud) -> None:
    started = await nextcloud.login.start()

    granted = await nextcloud.login.poll(started.poll_token)

    assert "/login/v2/flow/" in started.login_url.get_secret_value()
    assert granted is None


async def test_a_note_is_made_read_changed_and_deleted(alice: Account) -> None:
    made = await alice.client(NotesClient).create(
        title="Plan", content="one", category="Work/A", favorite=True
    )

    read = await alice.client(NotesClient).get(made.id)
    changed = await alice.client(NotesClient).update(made.id, if_match=read.etag, content="two")
    await alice.client(NotesClient).delete(made.id)

    assert (read.title, read.text, read.category, read.favorite) == ("Plan", "one", "Work/A", True)
    assert (changed.text, changed.etag != read.etag) == ("two", True)
    with pytest.raises(errors.NotFound):
        await alice.client(NotesClient).get(made.id)


async def test_a_stale_note_is_not_overwritten_and_the_current_etag_comes_back(alice: Account) -> None:
    made = await alice.client(NotesClient).create(title="Plan", content="one", category="", favorite=False)
    current = await alice.client(NotesClient).update(made.id, if_match=made.etag, content="two")

    with pytest.raises(errors.EtagMismatch) as caught:
        await alice.client(NotesClient).update(made.id, if_match=made.etag, content="lost")

    assert caught.value.current_etag == current.etag
    assert (await alice.client(NotesClient).get(made.id)).text == "two"


async def test_the_pages_of_a_list_hold_every_note_once(alice: Account) -> None:
    made = [
        (
            await alice.client(NotesClient).create(
                title=f"Note {number}", content="x", category="", favorite=False
            )
        ).id
        for number in range(5)
    ]

    found: list[str] = []
    page = await alice.client(NotesClient).page(size=2)
    found += [note.id for note in page.notes]
    while page.cursor is not None:
        page = await alice.client(NotesClient).page(size=2, cursor=page.cursor)
        found += [note.id for note in page.notes]

    assert sorted(found) == sorted(made)


async def test_the_note_of_another_user_is_not_found(alice: Account, bob: Account) -> None:
    made = await alice.client(NotesClient).create(title="Mine", content="x", category="", favorite=False)

    with pytest.raises(errors.NotFound):
        await bob.client(NotesClient).get(made.id)


@pytest.mark.parametrize("name", _NAMES)
async def test_any_name_is_written_listed_read_moved_and_found(alice: Account, name: str) -> None:
    path = f"Rec/{name}"

    await alice.files.write(path, b"hello")
    listed = await alice.files.list_folder("/Rec")
    chunk = await alice.files.read(path, offset=1, length=3)
    moved = await alice.files.move(path, f"Rec/moved {name}")
    found, more = await alice.files.search(Query(name=f"moved {name}"), limit=5)

    assert [entry.path for entry in listed.entries] == [path]
    assert (chunk.data, chunk.total, chunk.is_last) == (b"ell", 5, False)
    assert moved is not None
    assert moved.path == f"Rec/moved {name}"
    assert [entry.path for entry in found] == [moved.path]
    assert not more


async def test_a_list_tells_folders_from_files(alice: Account) -> None:
    folders = ("Rec/empty", *(f"Rec/{name.removesuffix('.txt')}" for name in _NAMES))
    for path in folders:
        await alice.files.create_folder(path)
    for path in ("Rec/no extension", "Rec/a%2Fb", "Rec/empty/inside"):
        await alice.files.write(path, b"")

    found = await alice.files.list_folder("/Rec")
    inside = await alice.files.list_folder("/Rec/empty")

    wanted = dict.fromkeys(folders, True) | {"Rec/no extension": False, "Rec/a%2Fb": False}
    assert {entry.path: entry.is_folder for entry in found.entries} == wanted
    assert [entry.is_folder for entry in inside.entries] == [False]


# The sandbox puts nothing that was shared into the other's folder.
if "NEXTCLOUD_TEST_URL" in os.environ:

    async def test_what_was_received_is_a_folder_or_a_file_as_it_is_for_its_owner(
        alice: Account, bob: Account, server: Server
    ) -> None:
        await alice.files.create_folder("/Rec/ä #1")
        await alice.files.write("/Rec/no extension", b"")
        shared = json.dumps({"path": "/Rec", "shareType": 0, "shareWith": "bob", "permissions": 1}).encode()
        headers, path = {**JSON, "OCS-APIRequest": "true"}, "/ocs/v2.php/apps/files_sharing/api/v1/shares"
        expect(await server.send("POST", path, headers=headers, body=shared), 200)

        top = await bob.files.list_folder("/")
        received = await bob.files.list_folder("/Rec")

        assert [entry.is_folder for entry in top.entries if entry.path == "Rec"] == [True]
        assert {entry.path: entry.is_folder for entry in received.entries} == {
            "Rec/ä #1": True,
            "Rec/no extension": False,
        }
        with pytest.raises(errors.InvalidInput):
            await bob.files.list_folder("/Rec/no extension")


async def test_a_file_is_overwritten_only_in_the_version_that_was_read(alice: Account) -> None:
    written = await alice.files.write("/Rec/a.md", b"one")
    read = await alice.files.read("/Rec/a.md", length=100)
    # Within one second the etag stays the same, so the size has to tell.
    await alice.files.write("/Rec/a.md", b"two!", version=str(written.version))

    with pytest.raises(errors.EtagMismatch):
        await alice.files.write("/Rec/a.md", b"lost", version=str(read.version))

    assert (await alice.files.read("/Rec/a.md", length=100)).data == b"two!"


async def test_nothing_is_overwritten_without_being_asked_to(alice: Account) -> None:
    await alice.files.write("/Rec/a.md", b"one")
    await alice.files.write("/Rec/b.md", b"two")

    with pytest.raises(errors.AlreadyExists):
        await alice.files.write("/Rec/a.md", b"lost")
    with pytest.raises(errors.AlreadyExists):
        await alice.files.move("/Rec/a.md", "/Rec/b.md")
    with pytest.raises(errors.AlreadyExists):
        await alice.files.copy("/Rec/a.md", "/Rec/b.md")

    assert (await alice.files.read("/Rec/b.md", length=100)).data == b"two"


async def test_folders_are_made_with_their_parents_and_once(alice: Account) -> None:
    first = await alice.files.create_folder("/Rec/x/y/z")
    again = await alice.files.create_folder("/Rec/x/y/z")

    assert (first, again) == (True, False)
    assert (await alice.files.info("/Rec/x/y/z")).is_folder


async def test_a_copy_is_a_file_of_its_own(alice: Account) -> None:
    await alice.files.write("/Rec/a.md", b"one")

    copied = await alice.files.copy("/Rec/a.md", "/Rec/b.md")

    _, original = await alice.files.details("/Rec/a.md")
    _, twin = await alice.files.details("/Rec/b.md")
    assert copied is not None
    assert original.file_id != twin.file_id


async def test_an_empty_file_is_read_as_empty(alice: Account) -> None:
    await alice.files.write("/Rec/empty.txt", b"")

    chunk = await alice.files.read("/Rec/empty.txt", length=100)

    assert (chunk.data, chunk.total) == (b"", 0)


async def test_a_folder_is_not_read_as_a_file(alice: Account) -> None:
    with pytest.raises(errors.InvalidInput):
        await alice.files.read("/Rec", length=100)


async def test_what_was_deleted_is_found_in_the_trash_and_restored(alice: Account) -> None:
    await alice.files.write("/Rec/gone #1.md", b"one")

    await alice.files.delete("/Rec/gone #1.md")
    entry = await alice.trash.find_deleted("/Rec/gone #1.md")
    assert entry is not None
    listed, total, _ = await alice.trash.list_items(limit=10)
    await alice.trash.restore(entry.trash_id)

    assert (entry.trash_id in {item.trash_id for item in listed}, total >= 1) == (True, True)
    assert (await alice.files.read("/Rec/gone #1.md", length=100)).data == b"one"
    with pytest.raises(errors.NotFound):
        await alice.trash.restore(entry.trash_id)


async def test_what_is_restored_replaces_nothing(alice: Account) -> None:
    await alice.files.write("/Rec/a.md", b"old")
    await alice.files.delete("/Rec/a.md")
    entry = await alice.trash.find_deleted("/Rec/a.md")
    await alice.files.write("/Rec/a.md", b"new")

    assert entry is not None
    await alice.trash.restore(entry.trash_id)

    listed = await alice.files.list_folder("/Rec")
    assert {item.name for item in listed.entries} == {"a.md", "a (restored).md"}
    assert (await alice.files.read("/Rec/a.md", length=9)).data == b"new"
    assert (await alice.files.read("/Rec/a (restored).md", length=9)).data == b"old"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/Rec/.htaccess", errors.InvalidName),
        ("/Rec/x.part", errors.InvalidName),
        ("/Rec/missing/x.md", errors.NotFound),
        ("/Rec", errors.AlreadyExists),
    ],
)
async def test_a_write_that_cannot_be_says_why(
    alice: Account, path: str, error: type[errors.NextcloudError]
) -> None:
    with pytest.raises(error):
        await alice.files.write(path, b"x")


async def test_a_name_that_is_kept_for_uploads_is_never_shown_or_made(alice: Account) -> None:
    files, kept = alice.files, "/Rec/x.part"
    await files.write("/Rec/a.md", b"x")

    for attempt in (
        partial(files.write, kept, b"x", version="etag"),
        partial(files.create_folder, kept),
        partial(files.create_folder, f"{kept}/inside"),
        partial(files.move, "/Rec/a.md", kept),
        partial(files.copy, "/Rec/a.md", kept),
    ):
        with pytest.raises(errors.InvalidName, match=r"choose another name"):
            await attempt()
    for look in (
        partial(files.info, kept),
        partial(files.details, kept),
        partial(files.read, kept, length=1),
        partial(files.delete, kept),
        partial(files.move, kept, "/Rec/b.md"),
    ):
        with pytest.raises(errors.NotFound):
            await look()

    assert [entry.name for entry in (await files.list_folder("/Rec")).entries] == ["a.md"]


async def test_the_files_of_another_user_cannot_be_searched(alice: Account, bob: Account) -> None:
    await alice.files.write("/Rec/secret plan.md", b"x")

    found, _ = await bob.files.search(Query(name="secret plan"), limit=5)

    assert found == []


async def test_a_locked_file_or_note_is_said_to_be_locked(alice: Account, sandbox: Sandbox) -> None:
    note = await alice.client(NotesClient).create(title="Plan", content="one", category="", favorite=False)
    await alice.files.write("/Rec/a.md", b"one")
    for path in ("/Notes/Plan.md", "/Rec/a.md"):
        sandbox.state.users["alice"].files.lock(path)

    with pytest.raises(errors.Locked):
        await alice.client(NotesClient).update(note.id, if_match=None, content="two")
    with pytest.raises(errors.Locked):
        _ = (await alice.client(NotesClient).get(note.id)).text
    with pytest.raises(errors.Locked):
        await alice.files.read("/Rec/a.md", length=1)
    with pytest.raises(errors.Locked):
        await alice.files.move("/Rec/a.md", "/Rec/b.md")


async def test_a_full_quota_is_said_to_be_full(alice: Account, sandbox: Sandbox) -> None:
    sandbox.state.users["alice"].files.quota_bytes = 2

    with pytest.raises(errors.StorageFull):
        await alice.files.write("/Rec/a.md", b"one")


async def test_maintenance_is_not_a_disabled_account(alice: Account, bob: Account, sandbox: Sandbox) -> None:
    sandbox.state.users["bob"].enabled = False
    with pytest.raises(errors.AccountDisabled):
        await bob.files.info("/")

    sandbox.state.maintenance = True
    with pytest.raises(errors.Maintenance):
        await alice.files.info("/")
    with pytest.raises(errors.Maintenance):
        await alice.client(NotesClient).page(size=1)


async def test_too_many_bad_logins_are_not_a_wrong_password(
    nextcloud: Nextcloud, alice: Account, sandbox: Sandbox
) -> None:
    # Each is confirmed by a second request, which at last is throttled too.
    for _ in range(11):
        with pytest.raises((errors.CredentialRejected, errors.Unavailable, errors.Throttled)):
            await nextcloud.whoami(BasicCredential("alice", SecretStr("wrong")))

    with pytest.raises(errors.Throttled):
        await alice.files.info("/")


async def test_the_end_of_a_big_file_is_read_alone(alice: Account, sandbox: Sandbox) -> None:
    sandbox.state.users["alice"].files.put_generated("/Rec/big.log", 200_000_000, b"0123456789")

    chunk = await alice.files.read("/Rec/big.log", offset=199_999_995, length=100)

    assert (chunk.data, chunk.is_last) == (b"56789", True)


async def test_a_contact_is_made_listed_changed_and_deleted(alice: Account) -> None:
    contacts, card = (
        alice.client(ContactsClient),
        new_card(Changes(name="Zoë Müller", emails=["home: zoe@example.test"])),
    )

    made = await contacts.create("contacts", card)
    listed = [one.contact.emails async for one in contacts.list_cards("contacts") if one.id == made.id]
    changed = await contacts.update(
        "contacts", made.id, Changes(family_name="Meyer"), if_match=made.etag or ""
    )
    with pytest.raises(errors.EtagMismatch):
        await contacts.update("contacts", made.id, Changes(note="lost"), if_match=made.etag or "")
    await contacts.delete("contacts", made.id, if_match=changed.etag or "")

    assert listed == [["home: zoe@example.test"]]
    assert changed.contact.name == "Zoë Meyer"
    with pytest.raises(errors.NotFound):
        await contacts.get("contacts", made.id)


async def test_a_card_is_made_changed_moved_and_deleted(server: Server, alice: Account) -> None:
    board = (
        await server.send("POST", BOARDS, headers=JSON, body=b'{"title":"Rec board","color":"ff0000"}')
    ).json()["id"]
    board = str(board)
    todo, done = [
        str((await server.send("POST", f"{BOARDS}/{board}/stacks", headers=JSON, body=body)).json()["id"])
        for body in (b'{"title":"Todo","order":1}', b'{"title":"Done","order":2}')
    ]
    labels = [label.id for label in (await alice.client(DeckClient).board(board)).labels]

    created = await alice.client(DeckClient).create(
        board, todo, CardChanges(title="Card", duedate="2026-12-24T18:00:00+00:00", labels=labels[:2])
    )
    made = created.card
    place = Place(board, todo, made.id)
    update = await alice.client(DeckClient).update(
        place,
        CardChanges(title="Other", labels=labels[1:2], people=["alice"], comment="hi"),
        if_match=made.etag,
    )
    changed = update.card
    moved = await alice.client(DeckClient).move(place, done, position=0, if_match=changed.etag)
    archived = (
        await alice.client(DeckClient).update(place, CardChanges(archived=True), if_match=moved.etag)
    ).card
    listed = await alice.client(DeckClient).stacks(board, archived=True)
    with pytest.raises(errors.EtagMismatch):
        await alice.client(DeckClient).update(place, CardChanges(title="lost"), if_match=made.etag)
    await alice.client(DeckClient).delete(place, if_match=archived.etag)

    assert (created.note, update.note) == (None, None)
    assert (changed.title, changed.duedate, changed.people) == ("Other", made.duedate, ["alice"])
    assert ([label.id for label in changed.labels], changed.comments) == (labels[1:2], 1)
    assert [card.id for stack in listed if stack.id == done for card in stack.cards] == [made.id]
    with pytest.raises(errors.Forbidden):
        await alice.client(DeckClient).card(place)


async def test_a_row_is_made_found_changed_and_deleted(server: Server, alice: Account) -> None:
    made_table = await server.send(
        "POST", TABLES, headers=JSON, body=b'{"title":"Rec table","template":"custom"}'
    )
    table_id = str(made_table.json()["id"])
    column = b'{"title":"Name","type":"text","subtype":"line","mandatory":false}'
    await server.send("POST", f"{TABLES}/{table_id}/columns", headers=JSON, body=column)
    tables, [name] = alice.client(TablesClient), await alice.client(TablesClient).columns(table_id)

    made = await tables.create(table_id, {name.id: "one"})
    changed = await tables.update(await tables.current(made.id, made.etag), {name.id: "two"})
    with pytest.raises(errors.EtagMismatch):
        await tables.current(made.id, made.etag)
    listed = await tables.rows(table_id, limit=5, offset=0)
    await tables.delete(made.id)

    assert [row.values for row in listed] == [changed.values] == [{name.id: "two"}]
    assert (name.kind, (await tables.table(table_id)).title) == ("text-line", "Rec table")
    with pytest.raises(errors.NotFound):
        await tables.row(made.id)
    with pytest.raises(errors.NotFound):
        await tables.table("999999")


async def test_a_recipe_is_made_found_changed_and_deleted(server: Server, alice: Account) -> None:
    await clean(server)
    cookbook = alice.client(CookbookClient)

    number = await cookbook.create({"name": "Rec cake", "recipeIngredient": ["flour"], "keywords": "b,a"})
    made = await cookbook.recipe(number)
    same = await cookbook.update(made, {"name": "Rec pie", "recipeYield": 2})
    with pytest.raises(errors.EtagMismatch):
        await cookbook.current(number, made.etag)
    [listed] = await cookbook.list_recipes()
    changed = await cookbook.recipe(number)
    await cookbook.delete(number)

    assert (same, listed.id, listed.name) == (number, number, "Rec pie")
    assert (changed.ingredients, changed.keywords, changed.servings) == (["flour"], ["b", "a"], 2)
    with pytest.raises(errors.NotFound):
        await cookbook.recipe(number)


async def test_pages_of_a_collective_are_listed_and_their_text_is_a_file(
    server: Server, alice: Account
) -> None:
    await clean(server)
    headers = {**JSON, "OCS-APIRequest": "true"}
    await server.send("POST", COLLECTIVES, headers=headers, body=b'{"name":"Rec collective"}')

    [collective] = await alice.client(CollectivesClient).list_collectives()
    [first] = await alice.client(CollectivesClient).pages(collective.id)
    same = await alice.client(CollectivesClient).page(collective.id, first.id)
    text = await alice.files.read(first.path, length=10_000)

    assert (collective.name, collective.can_edit) == ("Rec collective", True)
    assert (same.path, same.parent_id) == (first.path, None)
    assert len(text.data) == first.size


async def test_a_form_is_found_and_read_with_its_questions(server: Server, alice: Account) -> None:
    await clean(server)
    headers = {**JSON, "OCS-APIRequest": "true"}
    made = str((await server.send("POST", FORMS, headers=headers)).json()["ocs"]["data"]["id"])
    asked = b'{"type":"short","text":"Name?"}'
    await server.send("POST", f"{FORMS}/{made}/questions", headers=headers, body=asked)

    [listed] = await alice.client(FormsClient).owned()
    form = await alice.client(FormsClient).form(made)
    found = await alice.client(FormsClient).submissions(form, query="", limit=5, offset=0)

    assert (listed.id, listed.results, await alice.client(FormsClient).shared()) == (made, True, [])
    assert [(question.text, question.type) for question in form.questions] == [("Name?", "short")]
    assert (found.submissions, found.total) == ([], 0)
