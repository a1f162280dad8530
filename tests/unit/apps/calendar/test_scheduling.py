"""A change of a meeting says whom Nextcloud told, and whom it could not reach."""

from typing import Any, cast

import icalendar
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.calendar import scheduling
from nextcloud_mcp_server.apps.calendar.scheduling import NotifiedGuest
from nextcloud_mcp_server.nextcloud.caldav import Stored
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.dav_fakes import account_in, call

START = "2999-01-01T10:00"
MEETING = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:m\r\nDTSTART:29990101T100000Z\r\nDTEND:29990101T110000Z\r\n"
    "SUMMARY:Review\r\nORGANIZER;CN=Alice:mailto:alice@example.test\r\n{}END:VEVENT\r\nEND:VCALENDAR\r\n"
)


class PersonalApp:
    """A sandbox with alice and bob."""

    def __init__(self) -> None:
        self.sandbox = Sandbox()
        for uid in ("alice", "bob"):
            self.sandbox.add_user(uid).email = f"{uid}@example.test"
        self.state = self.sandbox.state
        self.personal = self.state.users["alice"].calendars["personal"]
        self.account = account_in(self.sandbox)

    async def call(self, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each tool's own result
        return await call(self.account, f"nc_calendar_{tool}", **arguments)

    async def create(self, *attendees: str, start: str = START) -> Any:  # noqa: ANN401 - see above
        return await self.call(
            "create_event", title="Review", start=start, timezone="UTC", attendees=list(attendees)
        )

    def store(self, *people: str) -> tuple[str, str]:
        """Store a meeting of other programs, and give its id and etag."""
        self.personal.put("m.ics", MEETING.format("".join(f"{each}\r\n" for each in people)), 0)
        return "personal/m.ics", self.personal.objects["m.ics"].etag


@pytest.fixture
async def personal_app() -> PersonalApp:
    return PersonalApp()


def told(answer: Any) -> dict[str, str]:  # noqa: ANN401 - each tool's own result
    found: list[NotifiedGuest] = answer.told or []
    return {each.email: each.result for each in found}


async def test_an_invitation_comes_from_the_persons_own_address_and_names_who_is_mailed(
    personal_app: PersonalApp,
) -> None:
    """N21: the first request that writes has the user as organizer, and the answer names bob."""
    made = await personal_app.create("bob@example.test")

    text = personal_app.personal.objects[made.event_id.partition("/")[2]].data
    puts = [each for each in personal_app.sandbox.requests.records if each.method == "PUT"]
    assert "ORGANIZER:mailto:alice@example.test" in text
    assert len(puts) == 1
    assert told(made) == {"bob@example.test": "mailed"}
    assert personal_app.state.invitations == [("bob@example.test", "REQUEST")]
    assert made.etag == personal_app.personal.objects[made.event_id.partition("/")[2]].etag


async def test_nothing_is_written_for_a_person_without_an_address(personal_app: PersonalApp) -> None:
    """N21: without an e-mail address of the user no PUT is made, and the text says what to do."""
    personal_app.state.users["alice"].email = ""

    with pytest.raises(
        errors.InvalidInput, match=r"nothing was written: .* set one in their Nextcloud settings"
    ):
        await personal_app.create("bob@example.test")

    assert not [each for each in personal_app.sandbox.requests.records if each.method == "PUT"]


async def test_another_title_leaves_the_invited_and_how_they_are_told_as_they_are(
    personal_app: PersonalApp,
) -> None:
    """N21: the list of the invited and their SCHEDULE parameters survive a change of the title."""
    lines = [
        "ATTENDEE;CN=Bob;SCHEDULE-AGENT=CLIENT;X-ODD=1;PARTSTAT=ACCEPTED:mailto:bob@example.test",
        "ATTENDEE;SCHEDULE-AGENT=NONE;SCHEDULE-FORCE-SEND=REQUEST:urn:uuid:1",
    ]
    event_id, etag = personal_app.store(*lines)

    changed = await personal_app.call("update_event", event_id=event_id, etag=etag, title="Other")

    stored = personal_app.personal.objects["m.ics"].data.splitlines()
    assert lines[0] in stored
    # Nextcloud writes beside it what became of it, and nothing else is another.
    invited = cast("Any", icalendar.Calendar.from_ical("\r\n".join(stored))).walk("VEVENT")[0]["ATTENDEE"]
    _, other = invited
    assert str(other) == "urn:uuid:1"
    kept = {name: value for name, value in other.params.items() if name != "SCHEDULE-STATUS"}
    assert kept == {"SCHEDULE-AGENT": "NONE", "SCHEDULE-FORCE-SEND": "REQUEST"}
    assert "SUMMARY:Other" in stored
    assert "bob@example.test" not in told(changed)


async def test_an_attendee_informed_again_with_the_same_result_is_named_as_informed(
    personal_app: PersonalApp,
) -> None:
    """Nextcloud answers an etag then, as if no one had been told (seen on 32.0.1)."""
    made = await personal_app.create("bob@example.test")

    changed = await personal_app.call("update_event", event_id=made.event_id, etag=made.etag, title="Other")

    assert told(changed) == {"bob@example.test": "mailed (now, or at the last change that mattered)"}
    assert personal_app.state.invitations == [("bob@example.test", "REQUEST")] * 2


@pytest.mark.parametrize(
    ("address", "start", "sends_mail", "result"),
    [
        ("bob@example.test", START, True, "mailed"),
        ("eve@example.org", START, True, "mailed"),
        ("bob@example.test", "2001-01-01T10:00", True, "put into their calendar"),
        ("eve@example.org", "2001-01-01T10:00", True,
         "not told: no account here has this address, and no mail was sent, as for what is over"),
        ("eve@example.org", START, False, "not told: the mail could not be sent"),
    ],
)  # fmt: skip
async def test_an_attendee_that_was_not_informed_is_named_with_the_reason(
    personal_app: PersonalApp, address: str, start: str, result: str, *, sends_mail: bool
) -> None:
    personal_app.state.sends_mail = sends_mail

    made = await personal_app.create(address, start=start)
    details = await personal_app.call("get_event", event_id=made.event_id)

    assert told(made) == {address: result}
    assert details.attendees[0].undelivered == (result if result.startswith("not") else None)


async def test_a_change_names_who_came_and_who_went(personal_app: PersonalApp) -> None:
    made = await personal_app.create("bob@example.test", "eve@example.org")

    changed = await personal_app.call(
        "update_event",
        event_id=made.event_id,
        etag=made.etag,
        attendees=["eve@example.org", "kim@example.org"],
    )

    assert told(changed) == {
        "eve@example.org": "mailed",
        "kim@example.org": "mailed",
        "bob@example.test": "told that they are no longer invited",
    }
    assert ("bob@example.test", "CANCEL") in personal_app.state.invitations


async def test_an_answer_names_the_organizer_who_is_told(personal_app: PersonalApp) -> None:
    event_id, etag = personal_app.store("ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:bob@example.test")
    bob = account_in(personal_app.sandbox, "bob")
    bobs = personal_app.state.users["bob"].calendars["personal"]
    bobs.put("m.ics", personal_app.personal.objects["m.ics"].data, 0)

    answered = await call(bob, "nc_calendar_update_event", event_id=event_id, etag=etag, answer="accepted")

    assert told(answered) == {"alice@example.test": "mailed"}


async def test_only_who_called_a_meeting_changes_who_is_invited(personal_app: PersonalApp) -> None:
    event_id, etag = personal_app.store("ATTENDEE;PARTSTAT=ACCEPTED:mailto:bob@example.test")
    bob = account_in(personal_app.sandbox, "bob")
    bobs = personal_app.state.users["bob"].calendars["personal"]
    bobs.put("m.ics", personal_app.personal.objects["m.ics"].data, 0)

    with pytest.raises(errors.InvalidInput, match=r"Only alice@example\.test, who called this meeting"):
        await call(
            bob, "nc_calendar_update_event", event_id=event_id, etag=etag, attendees=["eve@example.org"]
        )


async def test_a_deletion_names_who_is_told_of_it(personal_app: PersonalApp) -> None:
    event_id, etag = personal_app.store("ATTENDEE:mailto:bob@example.test")
    personal_app.state.users["bob"].calendars["personal"].put(
        "m.ics", personal_app.personal.objects["m.ics"].data, 0
    )
    bob = account_in(personal_app.sandbox, "bob")
    declined = await call(bob, "nc_calendar_delete_event", event_id=event_id, etag=etag)
    gone = await personal_app.call("delete_event", event_id=event_id, etag=etag)
    back = await personal_app.call("update_event", event_id=event_id, etag=etag, restore=True)

    assert told(declined) == {"alice@example.test": "told that this person declines, unless it is over"}
    assert told(gone) == {"bob@example.test": "told that it is cancelled, unless it is over"}
    assert told(back) == {"bob@example.test": "not told that it takes place again"}
    event_id, etag = personal_app.store("ATTENDEE:mailto:eve@example.org")
    text = personal_app.personal.objects["m.ics"].data.replace("mailto:alice", "mailto:kim")
    personal_app.personal.put("m.ics", text, 0)
    etag = personal_app.personal.objects["m.ics"].etag
    assert (await personal_app.call("delete_event", event_id=event_id, etag=etag)).told is None


#: The codes of RFC 6638 §3.2.9, and what is said of them.
CODES = {
    "1.0": "not told yet",
    "1.1": "mailed",
    "1.2": "put into their calendar",
    "2.0;Success": "told",
    "3.7": "not told: no account",
    "3.8": "not told: this person may not invite them",
    "5.0": "not told: the mail",
    "5.1": "not told: the delivery did not succeed",
    "5.2": "not told: Nextcloud has no way",
    "5.3": "not told: their server refused",
    "5.9": "not told (status 5.9)",
    "1.1,5.1": "not told: the delivery did not succeed",
}


@pytest.mark.parametrize("code", CODES)
def test_every_status_of_a_delivery_is_put_into_words(code: str) -> None:
    text = MEETING.format(f'ATTENDEE;SCHEDULE-STATUS="{code}":mailto:bob@example.test\r\n')

    found = scheduling.notices(text)

    assert [each.email for each in found] == ["bob@example.test"]
    assert found[0].result.startswith(CODES[code])


def test_what_nextcloud_did_not_note_is_not_claimed() -> None:
    text = MEETING.format("ATTENDEE:mailto:bob@example.test\r\n")

    assert scheduling.notices(text) == scheduling.notices("no calendar") == []
    assert [each.result for each in scheduling.delivery_results("", text, Stored("a/b", "e", text))] == [
        "not told: Nextcloud sent nothing"
    ]
    assert [
        each.result
        for each in scheduling.delivery_results(text, MEETING.format(""), Stored("a/b", None, text))
    ] == ["not known, for Nextcloud's answer was lost"]
    gone = scheduling.delivery_results(text, MEETING.format(""), Stored("a/b", "e", ""))
    assert [each.result for each in gone] == ["not told that they are no longer invited"]
