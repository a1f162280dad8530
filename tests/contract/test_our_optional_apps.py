"""The tools of apps that a Nextcloud may lack; on a real one, what is there of mail, feeds and Talk is used."""

import json
from typing import Any

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.forms.store import FormStore
from nextcloud_mcp_server.sandbox.apps.mail.store import MailStore
from nextcloud_mcp_server.sandbox.apps.news.store import FeedStore, StoredFeeds
from nextcloud_mcp_server.sandbox.apps.talk.store import TalkStore
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.registry import load
from tests.contract.server import Server, account
from tests.contract.steps import COLLECTIVES, FORMS, JSON, expect
from tests.dav_fakes import call, call_with
from tests.document_files import read_here

_UMLAUTS = "Änderung & 100 % „fertig“ 🎉"
_OCS = {**JSON, "OCS-APIRequest": "true"}
_TALK = "/ocs/v2.php/apps/spreed/api/v4/room"
_NEWS = "/index.php/apps/news/api/v1-3/feeds"
_MAIL = "/ocs/v2.php/apps/mail/account/list"
_MOMENT = 1_795_874_660


async def need(server: Server, app: str, path: str) -> None:
    """Skip the test where the app is not installed."""
    if server.sandbox is None and (await server.send("GET", path, headers=_OCS)).status_code == 404:
        pytest.skip(f"{app} is not on this Nextcloud")


async def ocs(server: Server, method: str, path: str, person: str = "alice", **fields: object) -> Any:  # noqa: ANN401 - each has its own
    """Send a step of the set-up."""
    body = json.dumps(fields).encode()
    answer = expect(await server.send(method, path, person=person, headers=_OCS, body=body), 200, 201)
    return answer.json()["ocs"]["data"]


async def read(alice: Account, app: str, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    """Call a tool that turns HTML into text."""
    ours = {"documents": Documents(read_here)}
    return await call_with(ours, load(app), alice, f"nc_{app}_{tool}", **arguments)


@pytest.mark.app("forms")
async def test_a_form_shows_its_owner_what_others_answered(
    alice: Account, nextcloud: Nextcloud, server: Server
) -> None:
    await need(server, "Forms", FORMS)
    bob = account(nextcloud, server, "bob")
    form = str((await ocs(server, "POST", FORMS))["id"])
    one = f"{FORMS}/{form}"
    await ocs(server, "PATCH", one, keyValuePairs={"title": _UMLAUTS})
    await ask_and_answer(server, one)

    mine = await call(alice, "nc_forms_list_forms", query="fertig")
    shared = await call(bob, "nc_forms_list_forms", query="fertig")
    whole = await call(alice, "nc_forms_get_form", form_id=form)
    found = await call(alice, "nc_forms_get_form", form_id=form, query="no such words")
    seen = await call(bob, "nc_forms_get_form", form_id=form)
    await ocs(server, "DELETE", one)

    assert [(row.id, row.title, row.mine, row.answers) for row in mine.forms] == [(form, _UMLAUTS, True, 1)]
    assert [(row.id, row.mine, row.answers) for row in shared.forms] == [(form, False, 1)]
    assert [(row.name, row.type, row.options) for row in whole.questions] == [
        ("Do you come?", "multiple_unique", ["Yes", "No"]),
        ("What do you bring?", "short", None),
    ]
    assert [(row.by, row.answers) for row in whole.answers] == [
        (
            server.display_names.get("bob", "Bob Builder"),
            {"Do you come?": "Yes", "What do you bring?": "A salad"},
        )
    ]
    assert (whole.total, found.total, found.answers) == (1, 0, [])
    # Who answered sees those answers.
    assert (seen.title, seen.owner, seen.answers) == (_UMLAUTS, "alice", whole.answers)
    with pytest.raises(errors.NotFound):
        await call(alice, "nc_forms_get_form", form_id=form)


async def ask_and_answer(server: Server, one: str) -> None:
    """Let alice's form have two questions, which bob answers."""
    if server.sandbox is not None:
        form = server.sandbox.state.store(FormStore)[-1]
        form.shown_to = {"bob"}
        choice = form.ask("multiple_unique", "Do you come?", "Yes", "No")
        short = form.ask("short", "What do you bring?")
        form.answer("bob", "Bob Builder", _MOMENT, [(choice["id"], "Yes"), (short["id"], "A salad")])
        return
    user = await server.send("GET", "/ocs/v2.php/cloud/user", person="bob", headers=_OCS)
    server.display_names["bob"] = user.json()["ocs"]["data"]["displayname"]
    choice = await ocs(server, "POST", f"{one}/questions", type="multiple_unique", text="Do you come?")
    short = await ocs(server, "POST", f"{one}/questions", type="short", text="What do you bring?")
    options = f"{one}/questions/{choice['id']}/options"
    made = await ocs(server, "POST", options, optionTexts=["Yes", "No"])
    await ocs(server, "POST", f"{one}/shares", shareType=0, shareWith="bob")
    answers = {str(choice["id"]): [str(made[0]["id"])], str(short["id"]): ["A salad"]}
    await ocs(server, "POST", f"{one}/submissions", "bob", answers=answers)


async def test_a_page_is_made_read_and_edited_as_a_file(alice: Account, server: Server) -> None:
    await need(server, "Collectives", COLLECTIVES)
    collective = (await ocs(server, "POST", COLLECTIVES, name="Rec pages"))["collective"]["id"]
    collective = str(collective)

    listed = await call(alice, "nc_collectives_list_pages")
    made = await call(
        alice, "nc_collectives_create_page", collective_id=collective, title="Rec ä & b", content=_UMLAUTS
    )
    below = await call(
        alice, "nc_collectives_create_page", collective_id=collective, title="Below", parent_id=made.id
    )
    page = await call(alice, "nc_collectives_get_page", collective_id=collective, page_id=made.id)
    await call(alice, "nc_files_edit_file", path=page.path, old_text="100", new_text="99", etag=page.etag)
    pages = await call(alice, "nc_collectives_list_pages", collective_id=collective)
    after = await call(alice, "nc_collectives_get_page", collective_id=collective, page_id=made.id)
    await ocs(server, "DELETE", f"{COLLECTIVES}/{collective}")

    assert [(row.name, row.can_edit) for row in listed.collectives if row.id == collective] == [
        ("Rec pages", True)
    ]
    assert (made.title, made.note, page.content) == ("Rec ä & b", None, _UMLAUTS)
    assert [row.parent_id for row in pages.pages if row.id == below.id] == [made.id]
    assert after.content == _UMLAUTS.replace("100", "99")
    with pytest.raises(errors.NotFound):
        await call(alice, "nc_collectives_get_page", collective_id=collective, page_id=made.id)


async def test_what_is_said_in_a_conversation_is_read_and_answered(
    alice: Account, nextcloud: Nextcloud, server: Server
) -> None:
    await need(server, "Talk", _TALK)
    bob = account(nextcloud, server, "bob")
    if server.sandbox is not None:
        room = (
            server.sandbox.state.store(TalkStore).add_room("recroom1", 2, "Rec talk", ["alice", "bob"]).token
        )
    else:
        room = (await ocs(server, "POST", _TALK, roomType=2, roomName="Rec talk", invite=""))["token"]
        await ocs(server, "POST", f"{_TALK}/{room}/participants", newParticipant="bob", source="users")

    said = await call(alice, "nc_talk_send_message", conversation=room, message=_UMLAUTS)
    unread = await call(bob, "nc_talk_list_conversations", unread=True, query="rec talk")
    answered = await call(bob, "nc_talk_send_message", conversation=room, message="Agreed", reply_to=said.id)
    await call(bob, "nc_talk_set_reaction", conversation=room, message_id=said.id, emoji="👍")
    read = await call(alice, "nc_talk_list_messages", conversation=room, limit=2)
    taken = await call(
        bob, "nc_talk_set_reaction", conversation=room, message_id=said.id, emoji="👍", remove=True
    )
    if server.sandbox is None:
        await ocs(server, "DELETE", f"{_TALK}/{room}")

    assert [row.conversation for row in unread.items] == [room]
    assert read.items[0].id == answered.id
    assert (read.items[0].text, read.items[0].answers.text) == ("Agreed", _UMLAUTS)
    assert [row.reactions for row in read.items if row.id == said.id] in ([{"👍": 1}], [])
    assert taken.reactions == {}


@pytest.mark.app("news")
async def test_an_article_is_read_marked_and_given_a_star(alice: Account, server: Server) -> None:
    await need(server, "News", _NEWS)
    if server.sandbox is not None:
        follow(server.sandbox)
    feeds = await call(alice, "nc_news_list_feeds")
    listed = await read(alice, "news", "read_articles", limit=1)
    if not listed.articles:
        pytest.skip("alice follows no feed with articles")
    number, feed = listed.articles[0].id, listed.articles[0].feed_id
    await call(alice, "nc_news_mark_articles", article_ids=[number], read=False, starred=False)

    text = await read(alice, "news", "read_articles", article_id=number)
    await call(alice, "nc_news_mark_articles", article_ids=[number, 2**31], read=True, starred=True)
    starred = await read(alice, "news", "read_articles", starred=True)
    unread = await read(alice, "news", "read_articles", feed_id=feed, unread=True)
    await call(alice, "nc_news_mark_articles", article_ids=[number], starred=False)
    after = await read(alice, "news", "read_articles", article_id=number)

    assert feed in [row.id for row in feeds.feeds]
    assert (text.title, text.unread, text.starred) == (listed.articles[0].title, True, False)
    assert text.content
    assert "<" not in text.content
    assert number in [row.id for row in starred.articles]
    assert number not in [row.id for row in unread.articles]
    assert (after.unread, after.starred) == (False, False)
    with pytest.raises(errors.NotFound):
        await read(alice, "news", "read_articles", article_id=2**31)
    with pytest.raises(errors.NotFound):
        await call(alice, "nc_news_mark_articles", article_ids=[2**31], read=True)


def follow(sandbox: Sandbox) -> None:
    """Let alice follow a feed with two articles."""
    store = sandbox.state.store(FeedStore)["alice"] = StoredFeeds(folders={1: "Rec"})
    feed = store.follow("Rec feed", "https://feed.example.test", 1)
    store.add(feed, "Old", "<p>Old.</p>", _MOMENT)
    store.add(feed, _UMLAUTS, "<p>One &amp; <b>two</b></p>", _MOMENT)


async def test_mail_is_listed_found_and_read_and_stays_unread(alice: Account, server: Server) -> None:
    await need(server, "Mail", _MAIL)
    if server.sandbox is not None:
        send_mail(server.sandbox)
    listed = await call(alice, "nc_mail_list_mailboxes")
    inbox = next((row.id for row in listed.mailboxes or () if row.role == "inbox"), None)
    if inbox is None:
        pytest.skip("alice has no account in Mail, or several")

    first = await call(alice, "nc_mail_list_messages", mailbox_id=inbox, limit=1)
    following = await call(alice, "nc_mail_list_messages", mailbox_id=inbox, limit=1, cursor=first.cursor)
    newest = first.messages[0]
    found = await call(alice, "nc_mail_list_messages", mailbox_id=inbox, query=newest.subject, limit=50)
    text = await read(alice, "mail", "get_message", message_id=newest.id)
    after = await call(alice, "nc_mail_list_messages", mailbox_id=inbox, limit=1)

    assert newest.id != following.messages[0].id
    assert newest.id in [row.id for row in found.messages]
    assert (text.subject, text.sender) == (newest.subject, newest.sender)
    assert text.content
    assert after.messages[0].unread == newest.unread == text.unread
    with pytest.raises(errors.NotFound):
        await read(alice, "mail", "get_message", message_id=2**31)


def send_mail(sandbox: Sandbox) -> None:
    """Let alice have two messages."""
    store = sandbox.state.store(MailStore)
    inbox = store.add_mailbox(store.add_account("alice", "alice@example.test"), "INBOX", "inbox")
    store.add(inbox, "Boxes", ("Bob Builder", "bob@example.test"), _MOMENT, "40 boxes")
    store.add(inbox, _UMLAUTS, ("", "carol@example.test"), _MOMENT + 1, "5 < 6 & more")
