import json
from datetime import UTC, datetime

import httpx2
import pytest

from nextcloud_mcp_server.errors import Forbidden, InvalidInput, InvalidName, NotFound, ServerFault
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.status import StatusStore, UserStatus
from tests.dav_fakes import Network, account_in, account_over, call, network, recorded

NOW = datetime(2026, 11, 27, 21, 0, tzinfo=UTC)


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo(clock=lambda: NOW)


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


def refused(status: int) -> httpx2.Response:
    return httpx2.Response(status, json={"ocs": {"meta": {}, "data": []}})


def own(**fields: object) -> httpx2.Response:
    """Answer a change of the own status, as it was recorded but for these."""
    whole = json.loads(recorded("misc/user_status_put").content)
    whole["ocs"]["data"] |= fields
    return httpx2.Response(200, json=whole)


def answers(*more: httpx2.Response) -> Network:
    return network(recorded("user/user_status"), *more)


async def test_the_own_status_is_offline_until_it_is_set(alice: Account) -> None:
    before = await call(alice, "nc_status_get_status")
    done = await call(alice, "nc_status_set_status", status="away")
    after = await call(alice, "nc_status_get_status")

    assert before.model_dump(exclude_none=True) == {"person": "alice", "status": "offline"}
    assert (done.before.status, done.now.status, done.note) == ("offline", "away", None)
    assert after.status == "away"


@pytest.mark.parametrize("name", ["bob", "BOB builder"])
async def test_another_users_status_is_found_by_their_name(
    sandbox: Sandbox, alice: Account, name: str
) -> None:
    found = await call(alice, "nc_status_get_status", person=name)
    sandbox.state.store(StatusStore)["bob"].kind = "invisible"
    hidden = await call(alice, "nc_status_get_status", person=name)
    del sandbox.state.store(StatusStore)["bob"]
    never = await call(alice, "nc_status_get_status", person=name)

    assert found.model_dump(exclude_none=True) == {
        "person": "Bob Builder (bob)",
        "status": "busy",
        "message": "At the new office",
        "icon": "📦",
    }
    assert (hidden.status, never.status, never.message) == ("offline", "offline", None)


async def test_a_name_that_several_have_is_asked_about_and_one_that_is_alike_is_told(
    sandbox: Sandbox, alice: Account
) -> None:
    sandbox.add_user("bob2", display_name="Bob Builder")

    with pytest.raises(InvalidInput, match=r"More than one .*: Bob Builder \(bob\), Bob Builder \(bob2\)"):
        await call(alice, "nc_status_get_status", person="bob builder")
    with pytest.raises(NotFound, match=r"Called alike: Bob Builder \(bob\), Bob Builder \(bob2\)\."):
        await call(alice, "nc_status_get_status", person="bo")
    with pytest.raises(NotFound, match="No user is called 'zed' here"):
        await call(alice, "nc_status_get_status", person="zed")


async def test_only_what_is_given_changes(sandbox: Sandbox, alice: Account) -> None:
    first = await call(
        alice, "nc_status_set_status", message="In the train", icon="🚆", clear_at="2026-11-27T23:00:00+01:00"
    )
    longer = await call(alice, "nc_status_set_status", clear_at="2026-11-28")
    icon = await call(alice, "nc_status_set_status", icon="✈️")
    other = await call(alice, "nc_status_set_status", message="On board")
    none = await call(alice, "nc_status_set_status", message="", status="online")

    assert first.now.clear_at == datetime(2026, 11, 27, 22, 0, tzinfo=UTC)
    assert (longer.now.message, longer.now.icon) == ("In the train", "🚆")
    assert (icon.now.message, icon.now.icon, icon.now.clear_at) == ("In the train", "✈️", longer.now.clear_at)
    assert (other.now.message, other.now.icon, other.now.clear_at) == ("On board", "✈️", None)
    assert none.now.model_dump(exclude_none=True) == {"status": "online"}
    assert none.before == other.now
    assert sandbox.state.store(StatusStore)["alice"].by_user


async def test_a_message_of_nextclouds_own_stays_one_when_only_its_end_is_set(
    sandbox: Sandbox, alice: Account
) -> None:
    sandbox.state.store(StatusStore)["alice"] = UserStatus("busy", message_id="meeting")

    done = await call(alice, "nc_status_set_status", clear_at="2026-11-28T10:00:00Z")
    kept = sandbox.state.store(StatusStore)["alice"].message_id
    icon = await call(alice, "nc_status_set_status", icon="📞")

    assert (done.now.message, kept) == ("In a meeting", "meeting")
    assert (icon.now.message, icon.now.icon) == ("In a meeting", "📞")


async def test_a_status_that_has_ended_is_off(sandbox: Sandbox, alice: Account) -> None:
    sandbox.state.store(StatusStore)["alice"] = UserStatus(
        "busy", message="Away", clear_at=int(NOW.timestamp()) - 1
    )

    assert (await call(alice, "nc_status_get_status")).model_dump(exclude_none=True) == {
        "person": "alice",
        "status": "offline",
    }


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({}, InvalidInput, "Say what to set"),
        ({"message": "x" * 81}, InvalidInput, "message"),
        ({"status": "gone"}, InvalidInput, "status"),
        ({"clear_at": "soon"}, InvalidInput, "'clear_at' must be a date"),
        ({"clear_at": "2038-01-19T03:14:08Z"}, InvalidInput, "is 2038-01-19T03:14:07Z: send an earlier one"),
        ({"message": "x", "clear_at": "2020-01-01"}, InvalidName, r"\(.*in the past\)\. Change it"),
        ({"message": "x", "icon": "zz"}, InvalidName, "longer than one character"),
    ],
)
async def test_what_cannot_be_set_is_refused_with_what_to_do(
    alice: Account, arguments: dict[str, object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        await call(alice, "nc_status_set_status", **arguments)


async def test_a_status_that_is_half_set_says_which_half() -> None:
    done = await call(
        account_over(answers(own(message="x"), refused(500))),
        "nc_status_set_status",
        message="x",
        status="dnd",
    )
    with pytest.raises(ServerFault):
        await call(account_over(answers(refused(500))), "nc_status_set_status", status="dnd")
    with pytest.raises(Forbidden):
        await call(account_over(answers(refused(403))), "nc_status_set_status", status="dnd", message="x")

    assert done.note.startswith("The message is set, but 'dnd' is not, as far as is known. ")
    assert done.now.status == "away"


@pytest.mark.parametrize(
    ("clear_at", "moment"),
    [
        ("2038-01-18T22:14:07-05:00", datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)),
        ("2026-12-24T18:00", datetime(2026, 12, 24, 17, tzinfo=UTC)),
        ("2026-12-24T18:00+13:00", datetime(2026, 12, 24, 5, tzinfo=UTC)),
    ],
)
async def test_a_status_ends_at_the_moment_that_was_named(
    sandbox: Sandbox, alice: Account, clear_at: str, moment: datetime
) -> None:
    sandbox.state.users["alice"].timezone = "Europe/Berlin"

    done = await call(alice, "nc_status_set_status", message="Away", clear_at=clear_at)

    assert (done.now.clear_at, (await call(alice, "nc_status_get_status")).clear_at) == (moment, moment)


async def test_a_change_that_nextcloud_takes_and_ignores_is_no_success() -> None:
    with pytest.raises(ServerFault, match="changed nothing: 'message' is empty instead of “At lunch”"):
        await call(account_over(answers(own())), "nc_status_set_status", message="At lunch")
    with pytest.raises(ServerFault, match="'status' is “away” instead of “dnd”"):
        await call(account_over(network(own(), own())), "nc_status_set_status", status="dnd")


async def test_what_is_stored_otherwise_is_said() -> None:
    until = int(NOW.timestamp())
    kept = answers(own(message="At lunch", icon=None, clearAt=until))

    done = await call(
        account_over(kept),
        "nc_status_set_status",
        message="At lunch",
        icon="🍲",
        clear_at="2026-11-27T22:00:00Z",
    )

    assert done.note == (
        "Nextcloud did not store all of it as it was sent: 'icon' is empty instead of “🍲”; 'clear_at' is "
        "“2026-11-27T21:00:00+00:00” instead of “2026-11-27T22:00:00+00:00”."
    )
