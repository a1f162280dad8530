"""Each app's tools, from making something to getting rid of it, on the sandbox or on a real Nextcloud."""

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from tests.contract.server import Server, account
from tests.contract.steps import BOARDS, FILES, JSON, TABLES, expect
from tests.dav_fakes import call

_UMLAUTS = "Änderung & 100 % „fertig“ 🎉"


async def test_a_file_can_hold_again_what_it_held_before(alice: Account, server: Server) -> None:
    await call(alice, "nc_files_create_folder", path="Rec")
    # Nextcloud keeps one version of a second.
    old = {"X-OC-MTime": "1795813521"}
    expect(await server.send("PUT", f"{FILES}/alice/Rec/a%20b.txt", headers=old, body=b"first"), 201)
    first = await call(alice, "nc_files_read_file", path="Rec/a b.txt")
    await call(alice, "nc_files_write_file", path="Rec/a b.txt", content="second", etag=first.etag)
    with pytest.raises(errors.EtagMismatch):
        await call(alice, "nc_files_write_file", path="Rec/a b.txt", content="third", etag=first.etag)

    versions = await call(alice, "nc_files_list_versions", path="Rec/a b.txt")
    restored = await call(
        alice,
        "nc_files_restore_version",
        path="Rec/a b.txt",
        version_id=versions.items[-1].version_id,
        etag=versions.etag,
    )
    after = await call(alice, "nc_files_read_file", path="Rec/a b.txt")

    assert [(row.size, row.current) for row in versions.items] == [(6, True), (5, None)]
    assert (after.content, after.etag) == ("first", restored.etag)


async def test_comments_of_a_file_are_seen_by_all_its_users_and_its_star_by_one(alice: Account) -> None:
    await call(alice, "nc_files_create_folder", path="Rec")

    await call(alice, "nc_files_set_labels", path="Rec", add_tags=["rec ä & b"], favorite=True)
    await call(alice, "nc_files_add_comment", path="Rec", text=_UMLAUTS)
    info = await call(alice, "nc_files_get_info", path="Rec")
    tags = await call(alice, "nc_files_list_tags", path="Rec")
    comments = await call(alice, "nc_files_list_comments", path="Rec")
    await call(alice, "nc_files_set_labels", path="Rec", remove_tags=["rec ä & b"], favorite=False)
    after = await call(alice, "nc_files_get_info", path="Rec")

    assert (info.favorite, info.tags) == (True, ["rec ä & b"])
    assert [row.name for row in tags.items] == ["rec ä & b"]
    assert [row.text for row in comments.items] == [_UMLAUTS]
    assert (after.favorite, after.tags) == (False, None)


async def test_a_folder_is_shared_with_a_user_and_by_a_link(
    alice: Account, nextcloud: Nextcloud, server: Server
) -> None:
    bob = account(nextcloud, server, "bob")
    await call(alice, "nc_files_create_folder", path="Rec")

    with_bob = await call(alice, "nc_sharing_share_item", path="Rec", person="bob", note=_UMLAUTS)
    link = await call(
        alice, "nc_sharing_create_link", path="Rec", password="Correct-Horse-9", expires="2031-03-28"
    )
    received = await call(bob, "nc_sharing_list_shares", received=True)
    changed = await call(
        alice, "nc_sharing_update_share", share_id=with_bob.share_id, etag=with_bob.etag, access="edit"
    )
    with pytest.raises(errors.EtagMismatch):
        await call(alice, "nc_sharing_delete_share", share_id=with_bob.share_id, etag=with_bob.etag)
    labelled = await call(
        alice, "nc_sharing_update_share", share_id=link.share_id, etag=link.etag, label="For Carol"
    )
    given = await call(alice, "nc_sharing_list_shares", path="Rec")
    await call(alice, "nc_sharing_delete_share", share_id=with_bob.share_id, etag=changed.etag)
    await call(alice, "nc_sharing_delete_share", share_id=link.share_id, etag=labelled.etag)
    after = await call(alice, "nc_sharing_list_shares", path="Rec")

    assert [(row.path, row.note) for row in received.items if row.share_id == with_bob.share_id] == [
        ("Rec", _UMLAUTS)
    ]
    assert {row.share_id for row in given.items} == {with_bob.share_id, link.share_id}
    assert (labelled.password, str(labelled.expires), labelled.label) == (True, "2031-03-28", "For Carol")
    assert link.link
    assert after.items == []


async def test_what_is_in_an_app_is_found_from_everywhere(alice: Account) -> None:
    await call(alice, "nc_files_create_folder", path="Rec")
    await call(alice, "nc_files_write_file", path="Rec/Zebrafinken & Co.txt", content="x")

    found = await call(alice, "nc_search_find_items", query="Zebrafinken & Co", providers=["files"])

    assert [item.title for group in found.groups for item in group.items] == ["Zebrafinken & Co.txt"]


@pytest.mark.app("cookbook")
async def test_a_recipe_is_saved_changed_and_deleted(alice: Account) -> None:
    listed = await call(alice, "nc_cookbook_list_recipes", query="rec käsekuchen")
    for row in listed.recipes:
        old = await call(alice, "nc_cookbook_get_recipe", recipe_id=row.id)
        await call(alice, "nc_cookbook_delete_recipe", recipe_id=row.id, etag=old.etag)

    made = await call(
        alice,
        "nc_cookbook_save_recipe",
        name="Rec Käsekuchen",
        ingredients=["500 g quark", "3 eggs"],
        instructions=["Mix.", "Bake."],
        servings=8,
        prep_time="PT20M",
    )
    changed = await call(
        alice, "nc_cookbook_save_recipe", recipe_id=made.id, etag=made.etag, description=_UMLAUTS
    )
    with pytest.raises(errors.EtagMismatch):
        await call(alice, "nc_cookbook_delete_recipe", recipe_id=made.id, etag=made.etag)
    recipe = await call(alice, "nc_cookbook_get_recipe", recipe_id=made.id)
    await call(alice, "nc_cookbook_delete_recipe", recipe_id=made.id, etag=changed.etag)

    assert (recipe.name, recipe.description, recipe.ingredients) == (
        "Rec Käsekuchen",
        _UMLAUTS,
        ["500 g quark", "3 eggs"],
    )
    with pytest.raises(errors.NotFound):
        await call(alice, "nc_cookbook_get_recipe", recipe_id=made.id)


async def test_an_event_is_made_changed_and_deleted(alice: Account) -> None:
    made = await call(
        alice,
        "nc_calendar_create_event",
        title=_UMLAUTS,
        start="2031-03-28T10:00",
        timezone="Europe/Berlin",
        rrule="FREQ=WEEKLY;COUNT=3",
        location="Room 1",
    )
    listed = await call(alice, "nc_calendar_list_events", start="2031-03-28", end="2031-04-30")
    changed = await call(
        alice, "nc_calendar_update_event", event_id=made.event_id, etag=made.etag, location="Room 2"
    )
    with pytest.raises(errors.EtagMismatch):
        await call(alice, "nc_calendar_delete_event", event_id=made.event_id, etag=made.etag)
    event = await call(alice, "nc_calendar_get_event", event_id=made.event_id)
    free = await call(
        alice,
        "nc_calendar_find_free_time",
        start="2031-03-28",
        end="2031-03-28",
        timezone="Europe/Berlin",
        day_from="09:00",
        day_to="12:00",
    )
    await call(alice, "nc_calendar_delete_event", event_id=made.event_id, etag=changed.etag)

    # The clocks change on 30 March: the event stays at ten.
    assert [row.start[:22] for row in listed.events] == [
        "2031-03-28T10:00:00+01",
        "2031-04-04T10:00:00+02",
        "2031-04-11T10:00:00+02",
    ]
    assert (event.title, event.location) == (_UMLAUTS, "Room 2")
    assert [(slot.start[11:16], slot.end[11:16]) for slot in free.free] == [
        ("09:00", "10:00"),
        ("11:00", "12:00"),
    ]
    with pytest.raises(errors.NotFound):
        await call(alice, "nc_calendar_get_event", event_id=made.event_id)


async def test_a_contact_is_made_changed_and_deleted(alice: Account) -> None:
    made = await call(
        alice,
        "nc_contacts_create_contact",
        name="Zoë Ångström-Rec",
        emails=["zoe@example.test"],
        birthday="1990-02-03",
    )
    found = await call(alice, "nc_contacts_search_contacts", query="ångström-rec")
    changed = await call(
        alice,
        "nc_contacts_update_contact",
        book="contacts",
        contact_id=made.id,
        etag=made.etag,
        note=_UMLAUTS,
    )
    with pytest.raises(errors.EtagMismatch):
        await call(alice, "nc_contacts_delete_contact", book="contacts", contact_id=made.id, etag=made.etag)
    contact = await call(alice, "nc_contacts_get_contact", book="contacts", contact_id=made.id)
    await call(alice, "nc_contacts_delete_contact", book="contacts", contact_id=made.id, etag=changed.etag)
    after = await call(alice, "nc_contacts_search_contacts", query="ångström-rec")

    assert [(row.id, row.name) for row in found.contacts] == [(made.id, "Zoë Ångström-Rec")]
    assert (contact.note, contact.birthday, contact.etag) == (_UMLAUTS, "1990-02-03", changed.etag)
    assert after.contacts == []


async def test_a_card_is_made_changed_moved_and_deleted(alice: Account, server: Server) -> None:
    board = expect(
        await server.send("POST", BOARDS, headers=JSON, body=b'{"title": "Rec", "color": "0087c5"}'), 200
    ).json()
    stacks = [
        expect(
            await server.send(
                "POST",
                f"{BOARDS}/{board['id']}/stacks",
                headers=JSON,
                body=b'{"title": "%s", "order": %d}' % (title, order),
            ),
            200,
        ).json()["id"]
        for order, title in enumerate((b"To do", b"Done"))
    ]
    where = {"board_id": board["id"], "stack_id": stacks[0]}

    made = await call(
        alice,
        "nc_deck_create_card",
        **where,
        title=_UMLAUTS,
        description="Some *text*",
        due="2031-03-28T10:00:00+01:00",
        assignees=["alice"],
    )
    changed = await call(
        alice,
        "nc_deck_update_card",
        **where,
        card_id=made.id,
        etag=made.etag,
        comment="Looked at it",
        done=True,
    )
    moved = await call(
        alice, "nc_deck_move_card", **where, card_id=made.id, etag=changed.etag, to_stack_id=stacks[1]
    )
    with pytest.raises(errors.EtagMismatch):
        await call(
            alice,
            "nc_deck_delete_card",
            board_id=board["id"],
            stack_id=stacks[1],
            card_id=made.id,
            etag=made.etag,
        )
    card = await call(alice, "nc_deck_get_card", board_id=board["id"], stack_id=stacks[1], card_id=made.id)
    shown = await call(alice, "nc_deck_get_board", board_id=board["id"])
    await call(
        alice,
        "nc_deck_delete_card",
        board_id=board["id"],
        stack_id=stacks[1],
        card_id=made.id,
        etag=card.etag,
    )
    after = await call(alice, "nc_deck_get_board", board_id=board["id"])

    assert moved.stack_id == str(stacks[1])
    assert (card.title, card.content, card.assignees) == (_UMLAUTS, "Some *text*", ["alice"])
    assert card.done
    assert [comment.text for comment in card.comments] == ["Looked at it"]
    assert [(row.id, row.stack_id) for row in shown.cards] == [(made.id, str(stacks[1]))]
    assert after.cards == []


async def test_a_row_is_made_changed_found_and_deleted(alice: Account, server: Server) -> None:
    table = expect(
        await server.send("POST", TABLES, headers=JSON, body=b'{"title": "Rec", "emoji": "x"}'), 200
    ).json()["id"]
    for column in (
        b'{"type": "text", "subtype": "line", "title": "Name", "mandatory": false}',
        b'{"type": "number", "title": "Price", "mandatory": false, "numberDecimals": 2}',
    ):
        expect(await server.send("POST", f"{TABLES}/{table}/columns", headers=JSON, body=column), 200)

    made = await call(alice, "nc_tables_create_row", table_id=table, values={"Name": _UMLAUTS, "Price": 12.5})
    changed = await call(
        alice, "nc_tables_update_row", row_id=made.id, values={"Price": 13.25}, etag=made.etag
    )
    with pytest.raises(errors.EtagMismatch):
        await call(alice, "nc_tables_delete_row", row_id=made.id, etag=made.etag)
    shown = await call(alice, "nc_tables_get_table", table_id=table, query="fertig")
    await call(alice, "nc_tables_delete_row", row_id=made.id, etag=changed.etag)
    after = await call(alice, "nc_tables_get_table", table_id=table)

    assert [row.values for row in shown.rows] == [{"Name": _UMLAUTS, "Price": 13.25}]
    assert after.rows == []


async def test_a_search_in_everything_finds_a_file_by_its_name_as_it_is_typed(alice: Account) -> None:
    await call(alice, "nc_files_create_folder", path="Rec")
    for name in ("100% _'\"&.txt", "1000 xx.txt"):
        await call(alice, "nc_files_write_file", path=f"Rec/{name}", content="x")

    found = await call(alice, "nc_search_find_items", query="0% _'\"&", providers=["files"])

    assert [row.path for group in found.groups for row in group.items] == ["Rec/100% _'\"&.txt"]


async def test_a_status_is_set_seen_by_others_and_taken_off(
    alice: Account, nextcloud: Nextcloud, server: Server
) -> None:
    bob = account(nextcloud, server, "bob")

    made = await call(
        alice,
        "nc_status_set_status",
        status="dnd",
        message=_UMLAUTS,
        icon="👩‍💻",
        clear_at="2037-01-31T10:00:00+01:00",
    )
    seen = await call(bob, "nc_status_get_status", person="alice")
    bare = await call(alice, "nc_status_set_status", status="away", message="", clear_at="")
    own = await call(alice, "nc_status_get_status")

    assert (made.now.status, made.now.message, made.now.icon) == ("dnd", _UMLAUTS, "👩‍💻")
    assert (seen.status, seen.message, str(seen.clear_at)) == ("dnd", _UMLAUTS, "2037-01-31 09:00:00+00:00")
    assert (bare.before, bare.now.message, bare.now.icon, bare.now.clear_at) == (made.now, None, None, None)
    assert (own.status, own.message) == ("away", None)
