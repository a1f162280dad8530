"""What is kept in memory of calendars is never another user's, and goes when the access goes."""

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import CredentialRejected
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from tests.dav_fakes import call
from tests.unit.nextcloud.test_calendar_objects import RANGES, Served, event

DATES = {"start": RANGES[0][0], "end": RANGES[0][1]}


def served() -> Served:
    made = Served()
    made.sandbox.add_user("bob")
    made.calendars["work"].put("secret.ics", event("Secret", "2026-12-05"), 0)
    return made


async def titles(made: Served, uid: str, *, tool: str = "nc_calendar_list_events") -> list[str]:
    account = made.nextcloud.account(BasicCredential(uid, SecretStr(uid)), uid=uid)
    return [each.title for each in (await call(account, tool, **DATES)).events]


async def test_what_one_person_has_listed_is_never_listed_by_another() -> None:
    made = served()

    found = [await titles(made, uid) for uid in ("alice", "bob", "alice", "bob")]

    assert found == [["Secret"], [], ["Secret"], []]


async def test_a_refused_credential_lists_nothing_of_what_is_kept() -> None:
    made = served()
    await titles(made, "alice")
    stolen = made.nextcloud.account(BasicCredential("alice", SecretStr("guessed")), uid="alice")

    with pytest.raises(CredentialRejected):
        await call(stolen, "nc_calendar_list_events", **DATES)


async def test_a_calendar_that_is_shared_no_more_is_not_listed_again() -> None:
    made = served()
    made.calendars["work"].shared_with["bob"] = True
    before = await titles(made, "bob")
    made.calendars["work"].shared_with.clear()

    after = await titles(made, "bob")

    assert (before, after) == (["Secret"], [])


async def test_what_is_kept_is_dropped_when_the_access_ends() -> None:
    made = served()
    for uid in ("alice", "bob"):
        await titles(made, uid)

    made.nextcloud.forget("alice")
    made.asked.clear()
    await titles(made, "alice")

    assert made.nextcloud.content_cache.people == ["bob", "alice"]
    assert made.asked.count("REPORT") == len(made.calendars)
