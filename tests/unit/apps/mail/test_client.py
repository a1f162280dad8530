from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.mail.client import MailClient, search_words
from tests.dav_fakes import Network, http_over, network

UNKNOWN_APP: Any = {"ocs": {"meta": {"statuscode": 998, "message": "Invalid query"}, "data": []}}
BROKEN: Any = {"ocs": {"meta": {"statuscode": 996, "message": "Internal Server Error"}, "data": []}}


def client(*answers: httpx2.Response) -> tuple[MailClient, Network]:
    net = network(*answers)
    return MailClient(http_over(net)), net


def told(data: object, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, json={"ocs": {"meta": {}, "data": data}})


async def test_a_list_that_php_wrote_as_a_map_and_flags_that_it_wrote_as_a_list_are_read() -> None:
    box = {"databaseId": 3, "name": "INBOX", "specialRole": 0}
    stub: Any = {"databaseId": 5, "from": {"1": {"label": "Bob", "email": "bob@example.test"}}, "flags": []}
    mail, _ = client(told({"4": box}), told({"7": stub}))

    [found] = await mail.mailboxes("1")
    [message] = await mail.messages("3", limit=5)

    assert (found.id, found.name, found.role, found.unread) == ("3", "INBOX", None, None)
    assert (message.id, message.senders[0].email, message.has("seen")) == ("5", "bob@example.test", False)
    assert (message.subject, message.sent_at, message.attachments) == (None, None, [])


async def test_messages_are_asked_for_each_by_itself_and_before_a_second() -> None:
    mail, net = client(told([]), told([]))

    await mail.messages("3", limit=5)
    await mail.messages("3", limit=5, before=99, words="is:unread")

    asked = [dict(request.url.params) for request in net.seen]
    assert asked[0] == {"limit": "5", "view": "singleton", "format": "json"}
    assert asked[1] == {**asked[0], "cursor": "99", "filter": "is:unread"}
    assert net.seen[0].url.path == "/ocs/v2.php/apps/mail/ocs/mailboxes/3/messages"


async def test_a_phrase_is_looked_for_in_subjects_and_in_texts_each_for_itself() -> None:
    stubs: dict[int, Any] = {
        number: {"databaseId": number, "dateInt": 100 + number} for number in range(1, 6)
    }
    mail, net = client(told([stubs[4], stubs[1]]), told([stubs[5], stubs[4], stubs[2]]))

    found = await mail.find("3", limit=3, before=None, phrase="a b", others=[("is", "unread")])

    assert [one.id for one in found] == ["5", "4", "2"]
    assert [request.url.params["filter"] for request in net.seen] == [
        "subject:a%20b is:unread",
        "body:a%20b is:unread",
    ]


@pytest.mark.parametrize("name", ["fileName", "filename"])
async def test_both_names_that_mail_gives_a_files_name_are_read(name: str) -> None:
    mail, _ = client(told({"id": 5, "attachments": [{name: "a.pdf", "size": 3}], "body": "x"}))

    message = await mail.message("5")

    assert [(one.name, one.size, one.type) for one in message.attachments] == [("a.pdf", 3, None)]
    assert (message.phishing.warning, message.smime.signed, message.inline) == (None, None, [])


async def test_a_message_that_mail_could_not_decrypt_has_no_text() -> None:
    mail, _ = client(told({"id": 5, "phishingDetails": [], "smime": {"isEncrypted": True}}, 206))

    assert (await mail.message("5")).body is None


async def test_what_went_wrong_is_said_with_what_to_do() -> None:
    mail, _ = client(
        httpx2.Response(404, json=UNKNOWN_APP),
        told([], 403),
        httpx2.Response(500, json=BROKEN),
        told("Account not found.", 404),
        told("Could not connect to IMAP server. Please check your logs.", 500),
    )

    with pytest.raises(errors.NotFound, match="missing or older than"):
        await mail.accounts()
    with pytest.raises(errors.Forbidden, match="no such mailbox"):
        await mail.messages("3", limit=1)
    with pytest.raises(errors.ServerFault, match="never opened"):
        await mail.messages("3", limit=1)
    with pytest.raises(errors.NotFound, match="no such message"):
        await mail.message("9")
    with pytest.raises(errors.ServerFault, match="from the mail server"):
        await mail.message("9")


def test_nothing_in_a_search_can_begin_another_one() -> None:
    written = search_words([("subject", "a b:c +is:unread"), ("is", "starred")])

    assert written == "subject:a%20b%3Ac%20%2Bis%3Aunread is:starred"
