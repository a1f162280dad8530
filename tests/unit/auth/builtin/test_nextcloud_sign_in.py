"""One trip to Nextcloud: what is checked before anything is sent, and what becomes of what it gave."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import CLIENT, Came, Kind, SignInCancelled
from nextcloud_mcp_server.auth.provider import LeftBehind
from nextcloud_mcp_server.auth.redeeming import NOTED, Noted
from nextcloud_mcp_server.errors import (
    GrantRefused,
    NotAMember,
    NotNextcloud,
    OtherBrowser,
    SignInRefused,
    StorageError,
    Throttled,
    TimedOut,
    Unavailable,
    Unreachable,
)
from nextcloud_mcp_server.storage.oauth_records import Arrived
from nextcloud_mcp_server.storage.records import Tokens
from tests.auth_stage import NEXTCLOUD, READ
from tests.trips_stage import ALICE, COOKIE, Trips, open_trips, query_of

VISIT = "visit:550e8400-e29b-41d4-a716-446655440000"
MINUTE = 60


@pytest.fixture
async def trips(tmp_path: Path, template: Path) -> AsyncGenerator[Trips]:
    async with open_trips(tmp_path, template) as made:
        await made.register()
        yield made


@pytest.fixture
async def club(tmp_path: Path, template: Path) -> AsyncGenerator[Trips]:
    """Only the family and the staff may use this server."""
    async with open_trips(tmp_path, template, groups=frozenset({"family", "staff"})) as made:
        await made.register()
        yield made


async def came(trips: Trips, uid: str = "alice", cookie: str = COOKIE) -> Came:
    """Come back as somebody, in the browser that set out."""
    params = trips.provider.confirm(await trips.to_nextcloud(cookie), uid)
    return await trips.sign_in.returned(params, browser=cookie, kind="client")


async def seen(arrived: Arrived, _given: Noted) -> Arrived:
    """Keep what came, as far as this test knows."""
    return arrived


async def test_the_trip_is_remembered_with_all_that_it_is_for(trips: Trips) -> None:
    asked = await trips.asked()

    url = await trips.sign_in.begin(CLIENT, browser=COOKIE, request=asked.request, scopes=READ)
    back = await trips.sign_in.returned(trips.provider.confirm(url, "alice"), browser=COOKIE, kind="client")

    assert url.startswith(f"{NEXTCLOUD}/authorize?state=c-")
    assert trips.provider.sent == [(None, None)]
    assert (back.arrival.target, back.arrival.request, back.arrival.scopes) == (CLIENT, asked.request, READ)
    assert back.code.get_secret_value() == "granted-by-alice-0"


@pytest.mark.parametrize("target", ["account", VISIT])
async def test_a_trip_for_a_page_is_told_by_its_state(trips: Trips, target: str) -> None:
    url = await trips.sign_in.begin(target, browser=COOKIE)

    back = await trips.sign_in.returned(trips.provider.confirm(url, "alice"), browser=COOKIE, kind="page")

    assert query_of(url)["state"].startswith("s-")
    assert (back.arrival.target, back.arrival.request, back.arrival.scopes) == (target, None, frozenset())


async def test_no_two_trips_have_anything_in_common(trips: Trips) -> None:
    urls = {await trips.sign_in.begin("account", browser=COOKIE) for _ in range(20)}

    assert len(urls) == 20
    assert all(len(query_of(url)["state"]) >= 45 for url in urls)


@pytest.mark.parametrize("change", ["none", "empty", "twice", "wrong", "prefix", "upper"])
async def test_a_state_that_is_not_the_one_is_refused_and_the_trip_stays(trips: Trips, change: str) -> None:
    params = trips.provider.confirm(await trips.to_nextcloud(), "alice")
    state = params["state"][0]
    changed = {
        "none": [],
        "empty": [""],
        "twice": [state, state],
        "wrong": ["c-wrong"],
        "prefix": [state.removeprefix("c-")],
        "upper": [state.upper()],
    }[change]

    with pytest.raises(SignInRefused):
        await trips.sign_in.returned({**params, "state": changed}, browser=COOKIE, kind="client")

    assert (await trips.sign_in.returned(params, browser=COOKIE, kind="client")).arrival.target == CLIENT


@pytest.mark.parametrize("cookie", ["cookie-of-bob", ""])
async def test_another_browser_ends_a_sign_in_for_both(trips: Trips, cookie: str) -> None:
    params = trips.provider.confirm(await trips.to_nextcloud(), "alice")

    with pytest.raises(OtherBrowser):
        await trips.sign_in.returned(params, browser=cookie, kind="client")

    with pytest.raises(SignInRefused):
        await trips.sign_in.returned(params, browser=COOKIE, kind="client")
    assert await trips.given_back() == ["access-granted-by-alice-0"]


async def test_a_trip_is_finished_once_and_in_ten_minutes(trips: Trips) -> None:
    used, old = [trips.provider.confirm(await trips.to_nextcloud(), "alice") for _ in range(2)]
    await trips.sign_in.returned(used, browser=COOKIE, kind="client")

    with pytest.raises(SignInRefused, match="was used"):
        await trips.sign_in.returned(used, browser=COOKIE, kind="client")
    trips.clock.forward(10 * MINUTE)
    with pytest.raises(SignInRefused):
        await trips.sign_in.returned(old, browser=COOKIE, kind="client")

    assert await trips.given_back() == [f"access-{old['code'][0]}"]


@pytest.mark.parametrize(("target", "kind"), [(CLIENT, "page"), ("account", "client"), (VISIT, "client")])
async def test_a_trip_of_one_kind_is_none_of_the_other(trips: Trips, target: str, kind: Kind) -> None:
    request = (await trips.asked()).request if target == CLIENT else None
    url = await trips.sign_in.begin(target, browser=COOKIE, request=request)

    with pytest.raises(SignInRefused):
        await trips.sign_in.returned(trips.provider.confirm(url, "alice"), browser=COOKIE, kind=kind)


@pytest.mark.parametrize(
    "change",
    [
        {"code": []},
        {"code": ["one-code-and", "another-code"]},
        {"code": ["short"]},
        {"code": ["with a space in it"]},
        {"error": ["access_denied"]},
        {"iss": ["https://evil.example"]},
        {"iss": [NEXTCLOUD]},
        {"iss": ["a", "a"]},
        {"anything": ["a", "b"]},
    ],
)
async def test_an_answer_in_another_form_is_refused_and_the_trip_is_over(
    trips: Trips, change: dict[str, list[str]]
) -> None:
    params = trips.provider.confirm(await trips.to_nextcloud(), "alice")

    for _ in range(2):
        with pytest.raises(SignInRefused) as caught:
            await trips.sign_in.returned({**params, **change}, browser=COOKIE, kind="client")
        assert not isinstance(caught.value, SignInCancelled)


async def test_a_provider_that_names_itself_must_be_the_one_that_was_asked(trips: Trips) -> None:
    trips.provider.issuer = NEXTCLOUD
    good, evil = [trips.provider.confirm(await trips.to_nextcloud(), "alice") for _ in range(2)]

    assert await trips.sign_in.returned(good, browser=COOKIE, kind="client")
    with pytest.raises(SignInRefused, match="somewhere else"):
        await trips.sign_in.returned({**evil, "iss": [f"{NEXTCLOUD}/"]}, browser=COOKIE, kind="client")


async def test_no_at_nextcloud_says_what_they_had_set_out_for(trips: Trips) -> None:
    asked = await trips.asked()
    state = query_of(await trips.to_nextcloud())["state"]

    with pytest.raises(SignInCancelled) as caught:
        await trips.sign_in.returned(
            {"state": [state], "error": ["access_denied"]}, browser=COOKIE, kind="client"
        )

    assert caught.value.arrival.request == asked.request


async def test_another_error_at_nextcloud_is_repeated_to_nobody(trips: Trips) -> None:
    state = query_of(await trips.to_nextcloud())["state"]
    answer = {"state": [state], "error": ["<script>"], "error_description": ["Call 0900 1234"]}

    with pytest.raises(SignInRefused) as caught:
        await trips.sign_in.returned(answer, browser=COOKIE, kind="client")

    assert "0900" not in str(caught.value)
    assert "script" not in str(caught.value)


async def test_who_came_is_who_nextcloud_says(trips: Trips) -> None:
    arrived = await trips.sign_in.redeem(await came(trips), browser=COOKIE, keep=seen)

    assert arrived.principal == ALICE
    assert (arrived.display_name, arrived.home_id, arrived.provider) == (
        "Alice",
        "home-alice",
        "nextcloud_oauth2",
    )
    assert arrived.tokens is not None
    assert arrived.tokens.access_token.get_secret_value() == "access-granted-by-alice-0"
    assert not arrived.connected
    assert await trips.given_back() == []


async def test_what_a_server_was_given_that_dies_before_it_stores_it_is_ended_by_the_next_one(
    trips: Trips,
) -> None:
    await trips.sign_in.redeem(await came(trips), browser=COOKIE, keep=seen)
    at_once = list(await trips.given_back())
    trips.clock.forward(NOTED.total_seconds())

    assert at_once == []
    assert await trips.given_back() == ["access-granted-by-alice-0"]


async def test_what_is_stored_too_late_is_not_stored_and_ended_once(trips: Trips) -> None:
    back = await came(trips)

    async def keep(arrived: Arrived, given: Noted) -> None:
        trips.clock.forward(NOTED.total_seconds())
        await trips.given_back()
        assert not await trips.database.arrivals.hold(arrived, browser=COOKIE, note=given.note)
        raise SignInRefused("too late")

    with pytest.raises(SignInRefused, match="too late"):
        await trips.sign_in.redeem(back, browser=COOKIE, keep=keep)

    assert await trips.given_back() == ["access-granted-by-alice-0"]
    assert await trips.database.arrivals.find(back.arrival.id, browser=COOKIE) is None


async def test_what_is_stored_is_not_noted_any_more(trips: Trips) -> None:
    await trips.back()

    assert await trips.database.outbox.next_due_at() is None


async def test_what_nobody_keeps_is_ended(trips: Trips) -> None:
    async def fails(arrived: Arrived, _given: Noted) -> None:
        raise StorageError(arrived.display_name)

    with pytest.raises(StorageError, match="Alice"):
        await trips.sign_in.redeem(await came(trips), browser=COOKIE, keep=fails)

    assert await trips.given_back() == ["access-granted-by-alice-0"]


async def test_what_can_neither_be_kept_nor_be_ended_later_is_ended_now(trips: Trips) -> None:
    back = await came(trips)

    async def fails(arrived: Arrived, _given: Noted) -> None:
        raise StorageError(arrived.display_name)

    with trips.failing("INSERT ON outbox"), pytest.raises(StorageError, match="disk full"):
        await trips.sign_in.redeem(back, browser=COOKIE, keep=fails)

    assert trips.provider.revoked == ["access-granted-by-alice-0"]


async def test_what_the_provider_left_behind_is_ended(trips: Trips) -> None:
    tokens = Tokens(SecretStr("left"), SecretStr("refresh-left"), None)
    back = await came(trips)
    trips.provider.failure = LeftBehind(tokens, Unavailable("Nextcloud does not say who it is."))

    with pytest.raises(Unavailable, match="does not say"):
        await trips.sign_in.redeem(back, browser=COOKIE, keep=seen)

    assert await trips.given_back() == ["left"]


async def test_what_the_provider_has_ended_itself_is_not_ended_again(trips: Trips) -> None:
    async def fails() -> None:
        raise Unavailable("Nextcloud does not say who it is.")

    back = await came(trips)
    trips.provider.afterwards = fails

    with pytest.raises(Unavailable, match="does not say"):
        await trips.sign_in.redeem(back, browser=COOKIE, keep=seen)

    assert await trips.database.outbox.next_due_at() is None


@pytest.mark.parametrize(
    "failure",
    [
        Unreachable("no"),
        TimedOut("no"),
        Unavailable("no"),
        NotNextcloud("no"),
        Throttled("no", retry_after_seconds=None),
    ],
)
async def test_a_nextcloud_that_does_not_answer_is_no_wrong_code(trips: Trips, failure: Exception) -> None:
    trips.provider.failure = failure
    for _ in range(3):
        with pytest.raises(type(failure)):
            await trips.sign_in.redeem(await came(trips), browser=COOKIE, keep=seen)

    trips.provider.failure = None
    assert await trips.sign_in.redeem(await came(trips), browser=COOKIE, keep=seen)


async def wrong_code(trips: Trips, cookie: str = COOKIE) -> None:
    params = trips.provider.confirm(await trips.to_nextcloud(cookie), "alice")
    back = await trips.sign_in.returned(
        {**params, "code": [f"made-up-{params['code'][0]}"]}, browser=cookie, kind="client"
    )
    await trips.sign_in.redeem(back, browser=cookie, keep=seen)


async def test_two_wrong_codes_are_enough_for_one_browser_for_half_an_hour(trips: Trips) -> None:
    for _ in range(2):
        with pytest.raises(GrantRefused):
            await wrong_code(trips)

    with pytest.raises(Throttled, match="wait half an hour"):
        await wrong_code(trips)
    with pytest.raises(Throttled):
        await trips.sign_in.redeem(await came(trips), browser=COOKIE, keep=seen)
    assert await trips.sign_in.redeem(await came(trips, cookie="other"), browser="other", keep=seen)
    trips.clock.forward(30 * MINUTE + 1)
    assert await trips.sign_in.redeem(await came(trips), browser=COOKIE, keep=seen)

    assert sum(code.startswith("made-up-") for code in trips.provider.redeemed) == 2


async def test_wrong_codes_that_come_at_once_are_counted_one_by_one(trips: Trips) -> None:
    outcomes: list[type[Exception]] = []

    async def one(cookie: str) -> None:
        try:
            await wrong_code(trips, cookie)
        except (GrantRefused, Throttled) as error:
            outcomes.append(type(error))

    async with anyio.create_task_group() as group:
        for number in range(4):
            for _ in range(3):
                group.start_soon(one, f"cookie-{number}")

    assert outcomes.count(GrantRefused) == 3
    assert outcomes.count(Throttled) == 9
    assert len(trips.provider.redeemed) == 3


async def test_a_browser_that_goes_away_after_the_exchange_leaves_nothing_at_nextcloud(trips: Trips) -> None:
    back = await came(trips)
    kept: list[Arrived] = []

    async def keep(arrived: Arrived, _given: Noted) -> None:
        await anyio.lowlevel.checkpoint()
        kept.append(arrived)

    with anyio.CancelScope() as scope:

        async def goes_away() -> None:
            scope.cancel()
            await anyio.lowlevel.checkpoint()

        trips.provider.meanwhile = goes_away
        await trips.sign_in.redeem(back, browser=COOKIE, keep=keep)

    assert [arrived.principal for arrived in kept] == [ALICE]


async def test_members_of_one_of_the_groups_come_in(club: Trips) -> None:
    club.provider.groups = {"alice": frozenset({"admin", "staff"})}

    assert (await club.sign_in.redeem(await came(club), browser=COOKIE, keep=seen)).principal == ALICE


@pytest.mark.parametrize("groups", [frozenset[str](), frozenset({"Staff", "admin", "staff2"})])
async def test_others_do_not_and_what_they_gave_is_ended(club: Trips, groups: frozenset[str]) -> None:
    club.provider.groups = {"alice": groups}

    with pytest.raises(NotAMember):
        await club.sign_in.redeem(await came(club), browser=COOKIE, keep=seen)

    assert await club.given_back() == ["access-granted-by-alice-0"]
    assert await club.audit() == [("sign-in", "refused: not in a group")]


async def test_somebody_new_of_a_former_name_finds_nothing_of_the_former_one(trips: Trips) -> None:
    await trips.connect()
    visit = await trips.ask(client="mcp-codex")
    before = await trips.browser()
    trips.provider.homes["alice"] = "home-of-another-alice"

    arrived = await trips.sign_in.redeem(await came(trips), browser=COOKIE, keep=seen)

    assert arrived.home_id == "home-of-another-alice"
    assert await trips.grant() is None
    assert await trips.visits.signed_in(before.token) is None
    found = await trips.database.elicitations.find(visit)
    assert found is None or found.state.final
    assert "access-granted-by-alice-0" in await trips.given_back()
    assert ("account", "ended: made anew at Nextcloud") in await trips.audit()


@pytest.mark.parametrize("home", ["home-alice", None])
async def test_the_same_person_keeps_what_they_have(trips: Trips, home: str | None) -> None:
    await trips.connect()
    trips.provider.homes["alice"] = home

    await trips.sign_in.redeem(await came(trips), browser=COOKIE, keep=seen)

    assert await trips.grant() is not None
    assert ("account", "ended: made anew at Nextcloud") not in await trips.audit()
