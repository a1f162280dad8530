"""Codes that no sign-in will use; the flows around them are in tests/security."""

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest

from nextcloud_mcp_server.auth.consent.exchange_limiter import USUAL
from nextcloud_mcp_server.auth.consent.orphaned_code import codes_in, spent_unless_used
from nextcloud_mcp_server.errors import OtherBrowser, SignInRefused
from tests.auth_fixtures import together
from tests.authorization_fixtures import COOKIE, AuthorizationFixture, open_authorization

CODE, ANOTHER = "code-of-the-victim", "another-code"
VICTIM = "value-in-the-cookie-of-the-victim"


@pytest.fixture
async def authorization(tmp_path: Path, template: Path) -> AsyncGenerator[AuthorizationFixture]:
    async with open_authorization(tmp_path, template) as harness:
        await harness.register()
        yield harness


def test_of_a_callback_only_what_can_be_a_code_is_remembered() -> None:
    assert list(codes_in({"code": [CODE, "short", "<b> not a code", ANOTHER]})) == [CODE, ANOTHER]
    assert list(codes_in({"state": [CODE]})) == []


def test_an_address_with_any_number_of_codes_writes_few_rows() -> None:
    assert len(codes_in({"code": [f"code-number-{number}" for number in range(10_000)]})) == 100


@pytest.mark.parametrize("failure", [SignInRefused("No."), RuntimeError("a bug")])
async def test_a_code_is_spent_however_its_callback_fails(
    authorization: AuthorizationFixture, failure: Exception
) -> None:
    with pytest.raises(type(failure)):
        async with spent_unless_used(authorization.database.spent_codes, {"code": [CODE]}):
            raise failure

    assert await authorization.database.spent_codes.is_spent(CODE)


async def test_a_code_that_was_used_is_not_remembered(authorization: AuthorizationFixture) -> None:
    async with spent_unless_used(authorization.database.spent_codes, {"code": [CODE]}):
        pass

    assert not await authorization.database.spent_codes.is_spent(CODE)


async def test_junk_brought_to_other_browsers_at_once_does_not_pass_the_budget(
    authorization: AuthorizationFixture,
) -> None:
    urls = [await authorization.to_nextcloud(COOKIE) for _ in range(6)]

    async def bring(number: int, url: str) -> None:
        junk = {**authorization.provider.confirm(url, "alice"), "code": [f"made-up-by-mallory-{number}"]}
        with pytest.raises(OtherBrowser):
            await authorization.authorization.check_callback(junk, browser=VICTIM)

    await together(*[partial(bring, number, url) for number, url in enumerate(urls)])

    assert len(authorization.provider.exchanged) == USUAL.of_one
    assert all(
        [await authorization.database.spent_codes.is_spent(f"made-up-by-mallory-{n}") for n in range(6)]
    )


async def test_of_a_callback_with_several_codes_none_is_sent_and_all_are_spent(
    authorization: AuthorizationFixture,
) -> None:
    url = await authorization.to_nextcloud(COOKIE)
    forged = {**authorization.provider.confirm(url, "alice"), "code": [CODE, ANOTHER]}

    with pytest.raises(OtherBrowser):
        await authorization.authorization.check_callback(forged, browser=VICTIM)

    assert authorization.provider.exchanged == []
    assert all([await authorization.database.spent_codes.is_spent(code) for code in (CODE, ANOTHER)])
