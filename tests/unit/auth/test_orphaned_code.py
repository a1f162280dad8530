"""Codes that no sign-in will use; the flows around them are in tests/security."""

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest

from nextcloud_mcp_server.auth.budget import USUAL
from nextcloud_mcp_server.auth.orphaned_code import codes_in, spent_unless_used
from nextcloud_mcp_server.errors import OtherBrowser, SignInRefused
from tests.auth_stage import together
from tests.trips_stage import COOKIE, Trips, open_trips

CODE, ANOTHER = "code-of-the-victim", "another-code"
VICTIM = "value-in-the-cookie-of-the-victim"


@pytest.fixture
async def trips(tmp_path: Path, template: Path) -> AsyncGenerator[Trips]:
    async with open_trips(tmp_path, template) as stage:
        await stage.register()
        yield stage


def test_of_a_callback_only_what_can_be_a_code_is_remembered() -> None:
    assert list(codes_in({"code": [CODE, "short", "<b> not a code", ANOTHER]})) == [CODE, ANOTHER]
    assert list(codes_in({"state": [CODE]})) == []


def test_an_address_with_any_number_of_codes_writes_few_rows() -> None:
    assert len(codes_in({"code": [f"code-number-{number}" for number in range(10_000)]})) == 100


@pytest.mark.parametrize("failure", [SignInRefused("No."), RuntimeError("a bug")])
async def test_a_code_is_spent_however_its_callback_fails(trips: Trips, failure: Exception) -> None:
    with pytest.raises(type(failure)):
        async with spent_unless_used(trips.database.spent_codes, {"code": [CODE]}):
            raise failure

    assert await trips.database.spent_codes.is_spent(CODE)


async def test_a_code_that_was_used_is_not_remembered(trips: Trips) -> None:
    async with spent_unless_used(trips.database.spent_codes, {"code": [CODE]}):
        pass

    assert not await trips.database.spent_codes.is_spent(CODE)


async def test_junk_brought_to_other_browsers_at_once_does_not_pass_the_budget(trips: Trips) -> None:
    urls = [await trips.to_nextcloud(COOKIE) for _ in range(6)]

    async def bring(number: int, url: str) -> None:
        junk = {**trips.provider.confirm(url, "alice"), "code": [f"made-up-by-mallory-{number}"]}
        with pytest.raises(OtherBrowser):
            await trips.authorization.returned(junk, browser=VICTIM)

    await together(*[partial(bring, number, url) for number, url in enumerate(urls)])

    assert len(trips.provider.redeemed) == USUAL.of_one
    assert all([await trips.database.spent_codes.is_spent(f"made-up-by-mallory-{n}") for n in range(6)])


async def test_of_a_callback_with_several_codes_none_is_sent_and_all_are_spent(trips: Trips) -> None:
    url = await trips.to_nextcloud(COOKIE)
    forged = {**trips.provider.confirm(url, "alice"), "code": [CODE, ANOTHER]}

    with pytest.raises(OtherBrowser):
        await trips.authorization.returned(forged, browser=VICTIM)

    assert trips.provider.redeemed == []
    assert all([await trips.database.spent_codes.is_spent(code) for code in (CODE, ANOTHER)])
