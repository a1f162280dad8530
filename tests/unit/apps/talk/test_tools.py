import json
from datetime import UTC, datetime

import httpx2
import pytest

from nextcloud_mcp_server.errors import (
    Forbidden,
    InvalidInput,
    InvalidName,
    NotFound,
    ServerFault,
    TimedOut,
    TlsFailed,
    TooLarge,
)
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.status import StatusStore, UserStatus
from nextcloud_mcp_server.sandbox.apps.talk.store import TalkRoom, TalkStore
from nextcloud_mcp_server.tools import answer
from tests.dav_fakes import account_in, account_over, call, network

NOW = datetime(2026, 11, 27, 21, 0, tzinfo=UTC)
SECONDS = int(NOW.timestamp())


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo(clock=lambda: NOW)


@pytest.fixture
def store(sandbox: Sandbox) -> TalkStore:
    return sandbox.state.store(TalkStore)


@pytest.fixture
def group(store: TalkStore) -> TalkRoom:
    return store.rooms["officemove"]


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


def said(status: int, data: object) -> httpx2.Response:
    return httpx2.Response(status, json={"ocs": {"meta": {}, "data": data}})


async def test_conversations_are_listed_the_latest_first(
    store: TalkStore, group: TalkRoom, alice: Account
) -> None:
    group.read_only = True
    group.read["alice"] = group.messages[-1].id
    store.add_room("em1pty", 3, "Anybody", ["bob", "alice"])
    store.add_room("notmine", 2, "Only bob", ["bob"])

    page = await call(alice, "nc_talk_list_conversations")
    first = await call(alice, "nc_talk_list_conversations", limit=1)
    second = await call(alice, "nc_talk_list_conversations", limit=1, cursor=first.cursor)
    unread = await call(alice, "nc_talk_list_conversations", unread=True)
    named = await call(alice, "nc_talk_list_conversations", query="MOVE off")

    assert [row.model_dump(mode="json", exclude_none=True) for row in page.items] == [
        {
            "conversation": "b0bandalice",
            "name": "Bob Builder",
            "kind": "one-to-one",
            "unread": 1,
            "last_activity": "2026-11-27T20:00:00Z",
            "last_message": "Bob Builder: Lunch at one?",
        },
        {
            "conversation": "officemove",
            "name": "Office move",
            "kind": "group",
            "last_activity": "2026-11-26T21:00:00Z",
            "last_message": "Bob Builder: @Alice Example I do: **40** of them.",
            "read_only": True,
        },
        {
            "conversation": "em1pty",
            "name": "Anybody",
            "kind": "public",
            "last_activity": "1970-01-01T00:00:00Z",
        },
    ]
    assert (first.total, [row.conversation for row in second.items]) == (3, ["officemove"])
    assert [row.conversation for row in unread.items] == ["b0bandalice"]
    assert [row.conversation for row in named.items] == ["officemove"]


async def test_messages_are_read_with_names_files_answers_and_reactions(
    store: TalkStore, group: TalkRoom, alice: Account
) -> None:
    shared = store.say(group, "bob", "{file} and {what}", SECONDS)
    shared.parameters = {"file": {"type": "file", "name": "{what}.txt", "path": "Talk/{what}.txt"}}
    shared.edited_at = SECONDS + 60
    gone = store.say(group, "bob", "Message deleted by author", SECONDS)
    gone.kind, gone.parent = "comment_deleted", 99
    store.say(group, "bob", "You deleted a message", SECONDS).system = "message_deleted"

    page = await call(alice, "nc_talk_list_messages", conversation="officemove")

    rows = [row.model_dump(mode="json", exclude_none=True) for row in page.items]
    assert rows[0] == {
        "id": str(gone.id),
        "author": "Bob Builder",
        "sent": "2026-11-27T21:00:00Z",
        "text": "Message deleted by author",
        "deleted": True,
        "answers": {"id": "99", "text": ""},
    }
    assert (rows[1]["text"], rows[1]["files"]) == ("{what}.txt and {what}", ["Talk/{what}.txt"])
    assert rows[1]["edited"] == "2026-11-27T21:01:00Z"
    assert rows[2]["text"] == "@Alice Example I do: **40** of them."
    assert rows[2]["answers"] == {"id": str(group.messages[1].id), "text": "Who orders the boxes?"}
    assert (rows[2]["reactions"], rows[2]["own_reactions"]) == ({"👍": 1}, ["👍"])
    assert (rows[4]["system"], rows[4]["text"]) == (
        "conversation_created",
        "@Alice Example created the conversation",
    )


async def test_older_messages_come_page_by_page_until_there_are_none(
    store: TalkStore, group: TalkRoom, alice: Account
) -> None:
    for number in range(60):
        store.say(group, "bob", f"{number} " + "ü" * 900, SECONDS)
    seen: list[str] = []
    cursor, pages = None, 0
    first = await call(alice, "nc_talk_list_messages", conversation="officemove", limit=1)

    while cursor or not pages:
        page = await call(alice, "nc_talk_list_messages", conversation="officemove", limit=40, cursor=cursor)
        seen += [row.id for row in page.items]
        cursor, pages = page.cursor, pages + 1

    assert seen == [str(message.id) for message in reversed(group.messages)]
    assert pages > 3
    with pytest.raises(InvalidInput, match="does not belong to this list"):
        await call(alice, "nc_talk_list_messages", conversation="b0bandalice", cursor=first.cursor)


async def test_a_message_that_is_too_long_for_an_answer_is_cut_and_says_so(
    store: TalkStore, group: TalkRoom, alice: Account
) -> None:
    store.say(group, "bob", "\x1b" * 32_000, SECONDS)

    page = await call(alice, "nc_talk_list_messages", conversation="officemove")
    sent = answer.result(page)

    assert page.items[0].truncated
    assert len(page.items[0].text) == 4_000
    assert not sent.is_error


async def test_reading_leaves_no_trace(sandbox: Sandbox, store: TalkStore, alice: Account) -> None:
    sandbox.state.store(StatusStore)["alice"] = UserStatus("away")
    sandbox.requests.clear()
    await call(alice, "nc_talk_list_conversations")
    page = await call(alice, "nc_talk_list_messages", conversation="officemove", limit=1)
    await call(alice, "nc_talk_list_messages", conversation="officemove", limit=1, cursor=page.cursor)
    after = await call(alice, "nc_talk_list_conversations")

    made = sandbox.requests.records
    assert {record.method for record in made} == {"GET"}
    assert not any("participants" in record.path for record in made)
    assert all(room.read == {} for room in store.rooms.values())
    assert store.seen_online == set()
    assert sandbox.state.store(StatusStore)["alice"].kind == "away"
    assert [row.unread for row in after.items] == [1, 1]


async def test_what_is_asked_says_that_nothing_is_to_be_marked() -> None:
    seen = network(said(200, []), httpx2.Response(304))
    account = account_over(seen)

    rooms = await call(account, "nc_talk_list_conversations")
    page = await call(account, "nc_talk_list_messages", conversation="abcd")

    assert dict(seen.seen[0].url.params) == {"noStatusUpdate": "1", "format": "json"}
    assert dict(seen.seen[1].url.params) == {
        "lookIntoFuture": "0",
        "setReadMarker": "0",
        "markNotificationsAsRead": "0",
        "noStatusUpdate": "1",
        "limit": "50",
        "format": "json",
    }
    assert (rooms.items, page.items, page.cursor) == ([], [], None)


async def test_a_message_is_sent_and_answered_and_not_repeated_back(group: TalkRoom, alice: Account) -> None:
    first = await call(alice, "nc_talk_send_message", conversation="officemove", message="Ä & <b>“x”</b>")
    second = await call(
        alice, "nc_talk_send_message", conversation="officemove", message="y", reply_to=first.id, silent=True
    )

    assert first.model_dump(mode="json") == {
        "conversation": "officemove",
        "id": first.id,
        "sent": "2026-11-27T21:00:00Z",
    }
    assert [one.text for one in group.messages[-2:]] == ["Ä & <b>“x”</b>", "y"]
    assert [(one.parent, one.silent) for one in group.messages[-2:]] == [(None, False), (int(first.id), True)]
    assert second.id == str(group.messages[-1].id)


async def test_reactions_are_added_once_and_taken_back(group: TalkRoom, alice: Account) -> None:
    message = group.messages[-1]

    added = [
        (
            await call(
                alice, "nc_talk_set_reaction", conversation="officemove", message_id=message.id, emoji="❤️"
            )
        ).reactions
        for _ in range(2)
    ]
    back = await call(
        alice,
        "nc_talk_set_reaction",
        conversation="officemove",
        message_id=message.id,
        emoji="👍",
        remove=True,
    )
    none = await call(
        alice,
        "nc_talk_set_reaction",
        conversation="officemove",
        message_id=message.id,
        emoji="❤️",
        remove=True,
    )

    assert added == [{"👍": 1, "❤️": 1}] * 2
    assert (back.reactions, none.reactions) == ({"❤️": 1}, {})


async def test_what_cannot_be_done_is_refused_with_what_to_do(
    store: TalkStore, group: TalkRoom, alice: Account, sandbox: Sandbox
) -> None:
    bob = account_in(sandbox, "bob")
    store.add_room("notmine", 2, "Only bob", ["bob"])
    closed = store.add_room("lobby1", 2, "Closed", ["bob", "alice"])
    closed.lobby = True
    system = group.messages[0].id

    async def send(where: str, **more: object) -> None:
        await call(alice, "nc_talk_send_message", conversation=where, **{"message": "x", **more})

    async def react(message_id: int, emoji: str, *, remove: bool = False) -> None:
        arguments = {"message_id": message_id, "emoji": emoji, "remove": remove}
        await call(alice, "nc_talk_set_reaction", conversation="officemove", **arguments)

    with pytest.raises(NotFound, match="see nc_talk_list_conversations"):
        await send("notmine")
    with pytest.raises(NotFound, match="see nc_talk_list_conversations"):
        await call(alice, "nc_talk_list_messages", conversation="notmine")
    with pytest.raises(Forbidden, match="in its lobby"):
        await call(alice, "nc_talk_list_messages", conversation="lobby1")
    with pytest.raises(InvalidInput, match="That is no conversation"):
        await send("../../room")
    with pytest.raises(InvalidInput, match="nothing but spaces"):
        await send("officemove", message=" \n")
    with pytest.raises(InvalidInput, match="message"):
        await send("officemove", message="x" * 32_001)
    with pytest.raises(InvalidName, match="Is 'reply_to' a message of this"):
        await send("officemove", reply_to=system)
    with pytest.raises(InvalidName, match="one emoji"):
        await react(system, "👍")
    with pytest.raises(InvalidName, match="one emoji"):
        await react(group.messages[1].id, ":-)")
    with pytest.raises(NotFound):
        await react(999, "👍")
    with pytest.raises(NotFound):
        await react(group.messages[1].id, "👍", remove=True)
    group.read_only = True
    with pytest.raises(Forbidden, match="read-only"):
        await send("officemove")

    assert (await call(bob, "nc_talk_list_messages", conversation="lobby1")).items == []
    assert len(group.messages) == 3


async def test_answers_that_are_odd_are_borne() -> None:
    proxied = {"message": "{x}", "messageParameters": {"x": {"type": "highlight", "name": "A call"}}}
    rooms: list[object] = [
        {"token": "abcd", "type": 9, "lastMessage": {**proxied, "systemMessage": "call_ended"}},
        {"token": "efgh", "type": 2, "lastMessage": [], "permissions": 1, "description": "x " * 200},
    ]
    account = account_over(network(said(200, rooms), said(201, None), said(200, [])))

    page = await call(account, "nc_talk_list_conversations")
    sent = await call(account, "nc_talk_send_message", conversation="abcd", message="/help")
    reactions = await call(
        account, "nc_talk_set_reaction", conversation="abcd", message_id=1, emoji="👍", remove=True
    )

    assert [(row.kind, row.last_message, row.read_only) for row in page.items] == [
        ("other", "A call", None),
        ("group", None, True),
    ]
    assert page.items[1].description.endswith("…")
    assert (sent.id, reactions.reactions) == (None, {})


async def test_a_message_whose_answer_is_lost_is_not_sent_again_blindly() -> None:
    lost = network(httpx2.ReadError("gone"))
    secured = network(httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"))

    with pytest.raises(TimedOut, match="Look with nc_talk_list_messages before"):
        await call(account_over(lost), "nc_talk_send_message", conversation="abcd", message="x")
    with pytest.raises(TlsFailed):
        await call(account_over(secured), "nc_talk_send_message", conversation="abcd", message="x")
    with pytest.raises(TooLarge, match="nothing was sent"):
        await call(
            account_over(network(said(413, {"error": "message"}))),
            "nc_talk_send_message",
            conversation="abcd",
            message="x",
        )

    assert [json.loads(request.content) for request in lost.seen] == [{"message": "x", "silent": False}]


async def test_a_user_that_may_write_and_not_react_is_told_so(group: TalkRoom, alice: Account) -> None:
    """Talk 24 has a permission of its own for reactions."""
    group.permissions = 254
    target = {"conversation": "officemove", "message_id": group.messages[-1].id}

    with pytest.raises(Forbidden, match=r"may not react .* moderators took that permission away"):
        await call(alice, "nc_talk_set_reaction", **target, emoji="👍")
    sent = await call(alice, "nc_talk_send_message", conversation="officemove", message="👍")

    assert sent.id


@pytest.mark.parametrize(
    ("remove", "answered"),
    [
        (False, []),
        (False, {"👎": [{"actorId": "alice"}]}),
        (False, {"👍": [{"actorId": "bob"}]}),
        (True, {"👍": [{"actorId": "alice"}]}),
    ],
)
async def test_a_reaction_that_talk_takes_and_ignores_is_no_success(
    *, remove: bool, answered: object
) -> None:
    account = account_over(network(said(201, answered)))

    with pytest.raises(ServerFault, match="Talk answered as if it were done, but changed nothing"):
        await call(
            account, "nc_talk_set_reaction", conversation="abcd", message_id=1, emoji="👍", remove=remove
        )


async def test_a_reaction_is_found_whether_or_not_a_picture_is_asked_for() -> None:
    account = account_over(network(said(201, {"❤": [{"actorId": "alice"}, {"actorId": "bob"}]})))

    found = await call(account, "nc_talk_set_reaction", conversation="abcd", message_id=1, emoji="❤\ufe0f")

    assert found.reactions == {"❤": 2}
