"""Consent cannot cross users, however links, browsers, tabs and moments are arranged."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import anyio
import anyio.lowlevel
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.orphaned_code import codes_in
from nextcloud_mcp_server.auth.consent.provider import OrphanedTokens
from nextcloud_mcp_server.errors import (
    ElicitationUnknown,
    GrantRefused,
    OtherBrowser,
    OtherPerson,
    SignInRefused,
    StorageError,
    Throttled,
    Unavailable,
    WrongAccount,
)
from nextcloud_mcp_server.storage.records import ElicitationState, Principal, Tokens
from tests.auth_fixtures import READ, together
from tests.consent_fixtures import Browser, ConsentSetup
from tests.issuer_fake import Change, Params, twice, with_, without

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"


async def browser(harness: ConsentSetup, name: str) -> Browser:
    return await harness.browser(name, preferred_username=name)


async def on_the_way(harness: ConsentSetup, name: str = "alice") -> tuple[str, Browser, str]:
    """A consent request whose user has pressed Allow and stands before Nextcloud's page."""
    consent_request, person = await harness.ask(name), await browser(harness, name)
    return consent_request, person, await harness.allow(consent_request, person)


async def nothing_connected(harness: ConsentSetup) -> None:
    for name in ("alice", "bob"):
        assert await harness.grant(name) is None


async def nothing_happened(harness: ConsentSetup) -> None:
    """No code was sent anywhere, and nothing is stored."""
    assert harness.provider.exchanged == []
    await nothing_connected(harness)


async def ended(harness: ConsentSetup, params: Params) -> None:
    """The code was exchanged once, what it gave was revoked, nothing is stored, and nothing waits to be revoked."""
    assert harness.provider.exchanged == params["code"]
    assert await harness.given_back() == [f"access-{code}" for code in params["code"]]
    assert await harness.database.outbox.next_due_at() is None
    await nothing_connected(harness)


async def spent(harness: ConsentSetup, params: Params) -> None:
    """The codes were sent nowhere, and will not be."""
    await nothing_happened(harness)
    for code in params["code"]:
        assert await harness.database.spent_codes.is_spent(code)


# Another user's link


async def test_alices_link_opened_by_bob_shows_and_stores_nothing(mapped: ConsentSetup) -> None:
    consent_request, bob = await mapped.ask("alice"), await browser(mapped, "bob")

    with pytest.raises(OtherPerson):
        await mapped.consent_service.view(consent_request, bob.who)
    with pytest.raises(OtherPerson):
        await mapped.consent_service.allow(consent_request, bob.who, bob.token, READ)

    await nothing_happened(mapped)
    assert await mapped.state(consent_request) is ElicitationState.PENDING
    assert mapped.provider.sent == []
    assert await mapped.audit("alice") == [("consent", "refused: another person")] * 2
    assert await mapped.audit("bob") == [("consent", "refused: of another person")] * 2


async def test_a_link_that_got_around_ends_and_its_person_gets_a_new_one(mapped: ConsentSetup) -> None:
    consent_request, alice = await mapped.ask("alice"), await browser(mapped, "alice")
    bob = await browser(mapped, "bob")

    for _ in range(3):
        with pytest.raises(OtherPerson):
            await mapped.consent_service.view(consent_request, bob.who)

    assert await mapped.state(consent_request) is ElicitationState.FAILED
    assert mapped.finished == [consent_request]
    assert (await mapped.consent_service.view(consent_request, alice.who)).failure is not None
    # A link that is over tells others nothing any more.
    with pytest.raises(ElicitationUnknown):
        await mapped.consent_service.view(consent_request, bob.who)
    assert await mapped.ask("alice") != consent_request


async def test_no_user_can_answer_for_another(mapped: ConsentSetup) -> None:
    consent_request, alice, url = await on_the_way(mapped)
    bob = await browser(mapped, "bob")
    params = mapped.provider.confirm(url, "alice")

    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: mapped.consent_service.decline(consent_request, bob.who),
        lambda: mapped.consent_service.confirm(consent_request, bob.who, bob.token, mine=True),
    ]
    for attempt in attempts:
        with pytest.raises(OtherPerson):
            await attempt()

    assert await mapped.state(consent_request) is ElicitationState.OPENED
    await mapped.consent_service.finish_grant(params, alice.who, alice.token)
    assert await mapped.grant("alice") is not None


async def test_the_same_name_at_another_issuer_is_another_person(mapped: ConsentSetup) -> None:
    consent_request, alice = await mapped.ask("alice"), await browser(mapped, "alice")
    stranger = replace(alice.who, principal=Principal("https://other.test", "alice"))

    with pytest.raises(OtherPerson):
        await mapped.consent_service.view(consent_request, stranger)


@pytest.mark.parametrize("consent_request", [UNKNOWN, UNKNOWN.upper(), f"{UNKNOWN} ", "", "%00", "../../x"])
async def test_edited_and_guessed_ids_all_look_the_same(mapped: ConsentSetup, consent_request: str) -> None:
    alice = await browser(mapped, "alice")
    said: set[str] = set()

    for attempt in (
        mapped.consent_service.view(consent_request, alice.who),
        mapped.consent_service.allow(consent_request, alice.who, alice.token, READ),
        mapped.consent_service.decline(consent_request, alice.who),
        mapped.consent_service.pending_grant(consent_request, alice.who, alice.token),
        mapped.consent_service.confirm(consent_request, alice.who, alice.token, mine=True),
    ):
        with pytest.raises(ElicitationUnknown) as caught:
            await attempt
        said.add(str(caught.value))

    assert len(said) == 1


# Another user's browser


async def test_an_address_finished_in_another_persons_browser_is_ended_in_both(mapped: ConsentSetup) -> None:
    """Alice mails Bob the address of Nextcloud's page; Bob confirms there and comes back to us."""
    consent_request, alice, url = await on_the_way(mapped)
    bob = await browser(mapped, "bob")
    params = mapped.provider.confirm(url, "bob")

    with pytest.raises(OtherBrowser):
        await mapped.consent_service.finish_grant(params, bob.who, bob.token)

    await ended(mapped, params)
    with pytest.raises(SignInRefused):
        await mapped.consent_service.finish_grant(
            mapped.provider.confirm(url, "alice"), alice.who, alice.token
        )
    # The request itself stays open: Alice can begin again.
    url = await mapped.allow(consent_request, alice)
    await mapped.consent_service.finish_grant(mapped.provider.confirm(url, "alice"), alice.who, alice.token)
    assert await mapped.grant("alice") is not None
    assert await mapped.state(consent_request) is ElicitationState.COMPLETE


async def test_an_address_finished_in_another_browser_of_the_same_person_is_ended(
    mapped: ConsentSetup,
) -> None:
    _, _, url = await on_the_way(mapped)
    other = await browser(mapped, "alice")
    params = mapped.provider.confirm(url, "alice")

    with pytest.raises(OtherBrowser):
        await mapped.consent_service.finish_grant(params, other.who, other.token)

    await ended(mapped, params)


async def test_a_session_and_a_person_that_do_not_belong_together_are_refused(mapped: ConsentSetup) -> None:
    _, alice, url = await on_the_way(mapped)
    bob = await browser(mapped, "bob")

    params = mapped.provider.confirm(url, "bob")

    with pytest.raises(OtherPerson):
        await mapped.consent_service.finish_grant(params, bob.who, alice.token)

    await spent(mapped, params)


async def test_signing_out_ends_the_sign_ins_that_were_begun(mapped: ConsentSetup) -> None:
    _, alice, url = await on_the_way(mapped)
    await mapped.consent_service.sign_out(alice.token)
    params = mapped.provider.confirm(url, "alice")

    with pytest.raises(SignInRefused):
        await mapped.consent_service.finish_grant(params, alice.who, alice.token)

    await spent(mapped, params)


async def test_a_pending_grant_waits_for_confirmation_in_one_browser_only(people: ConsentSetup) -> None:
    consent_request, alice, url = await on_the_way(people)
    await people.consent_service.finish_grant(people.provider.confirm(url, "alice"), alice.who, alice.token)
    other = await browser(people, "alice")

    assert await people.pending_grant(consent_request, other) is None
    with pytest.raises(ElicitationUnknown):
        await people.consent_service.confirm(consent_request, other.who, other.token, mine=True)

    assert await people.grant() is None
    assert await people.pending_grant(consent_request, alice) is not None


# The way back


ODD: dict[str, Change] = {
    "no state": without("state"),
    "wrong state": with_("state", "x"),
    "state twice": twice("state"),
    "code twice": twice("code"),
    "code and error": with_("error", "access_denied"),
    "no code at all": with_("code", "<script>alert(1)</script> x"),
    "short code": with_("code", "short"),
    "neither": without("code"),
    "error": lambda params: {"state": params["state"], "error": ["server_error"]},
    "issuer where none is sent": with_("iss", "https://evil.test"),
    "another twice": with_("x", "1", "2"),
}
#: What has a `state` of ours and one code: such a code is exchanged, to be revoked.
ENDED = {"code and error", "issuer where none is sent", "another twice"}


@pytest.mark.parametrize("odd", ODD)
async def test_an_odd_callback_is_refused_and_its_code_is_ended(mapped: ConsentSetup, odd: str) -> None:
    _, alice, url = await on_the_way(mapped)
    params = ODD[odd](mapped.provider.confirm(url, "alice"))

    with pytest.raises(SignInRefused):
        await mapped.consent_service.finish_grant(params, alice.who, alice.token)

    if odd in ENDED:
        await ended(mapped, params)
    else:
        await spent(mapped, {"code": list(codes_in(params))})


@pytest.mark.parametrize("iss", [[], ["https://id.test/"], ["https://ID.test"], ["https://evil.test"]])
async def test_a_provider_that_names_itself_must_be_the_one_that_was_asked(
    mapped: ConsentSetup, iss: list[str]
) -> None:
    mapped.provider.issuer = "https://id.test"
    _, alice, url = await on_the_way(mapped)
    params = {**mapped.provider.confirm(url, "alice"), "iss": iss}

    with pytest.raises(SignInRefused):
        await mapped.consent_service.finish_grant(params, alice.who, alice.token)

    await ended(mapped, params)


async def test_an_address_made_for_another_callback_is_refused(mapped: ConsentSetup) -> None:
    _, alice, url = await on_the_way(mapped)
    mapped.provider.redirect_uri = "https://mcp.test/oauth/callback/other"
    params = mapped.provider.confirm(url, "alice")

    with pytest.raises(SignInRefused):
        await mapped.consent_service.finish_grant(params, alice.who, alice.token)

    await spent(mapped, params)


async def test_a_callback_that_is_played_again_does_nothing(mapped: ConsentSetup) -> None:
    _, alice, url = await on_the_way(mapped)
    params = mapped.provider.confirm(url, "alice")
    await mapped.consent_service.finish_grant(params, alice.who, alice.token)

    with pytest.raises(SignInRefused):
        await mapped.consent_service.finish_grant(params, alice.who, alice.token)

    assert len(mapped.provider.exchanged) == 1


async def test_wrong_codes_sent_at_once_do_not_pass_the_budget(mapped: ConsentSetup) -> None:
    consent_request, alice = await mapped.ask(), await browser(mapped, "alice")
    urls = [await mapped.allow(consent_request, alice) for _ in range(8)]
    refused: list[type[Exception]] = []

    async def finish_callback(number: int, url: str) -> None:
        params = {**mapped.provider.confirm(url, "alice"), "code": [f"made-up-by-mallory-{number}"]}
        try:
            await mapped.consent_service.finish_grant(params, alice.who, alice.token)
        except (GrantRefused, Throttled) as error:
            refused.append(type(error))

    await together(*[partial(finish_callback, number, url) for number, url in enumerate(urls)])

    assert sorted(one.__name__ for one in refused) == ["GrantRefused"] * 2 + ["Throttled"] * 6
    assert len(mapped.provider.exchanged) == 2


# Another account


async def test_access_to_another_account_than_the_mapped_one_is_ended(mapped: ConsentSetup) -> None:
    """Alice's browser is signed in to Nextcloud as Bob, who confirmed there without a word."""
    consent_request, alice, url = await on_the_way(mapped)

    with pytest.raises(WrongAccount, match=r"'bob'.*'alice'"):
        await mapped.consent_service.finish_grant(mapped.provider.confirm(url, "bob"), alice.who, alice.token)

    assert await mapped.grant("alice") is None
    assert await mapped.given_back() == ["access-granted-by-bob-0"]
    assert await mapped.audit("alice") == [("consent", "refused: wrong account")]
    assert await mapped.state(consent_request) is ElicitationState.OPENED


async def test_access_that_another_user_confirmed_is_ended_whatever_account_it_opens(
    people: ConsentSetup,
) -> None:
    """The identity provider's page was answered by Bob; its ID token says so before anyone is asked."""
    consent_request, alice, url = await on_the_way(people)
    people.provider.subject = replace(alice.who.principal, subject="sub-bob")

    with pytest.raises(WrongAccount, match="another user"):
        await people.consent_service.finish_grant(
            people.provider.confirm(url, "alice"), alice.who, alice.token
        )

    assert await people.grant("alice") is None
    assert await people.pending_grant(consent_request, alice) is None
    assert await people.given_back() == ["access-granted-by-alice-0"]
    assert ("consent", "refused: confirmed by another user") in await people.audit("alice")


async def test_access_that_the_person_confirmed_at_the_identity_provider_is_kept(
    people: ConsentSetup,
) -> None:
    consent_request, alice, url = await on_the_way(people)
    people.provider.subject = alice.who.principal

    await people.consent_service.finish_grant(people.provider.confirm(url, "alice"), alice.who, alice.token)

    assert await people.pending_grant(consent_request, alice) is not None


async def test_an_account_belongs_to_the_first_person_who_connected_it(people: ConsentSetup) -> None:
    await people.connect("bob")
    consent_request, alice, url = await on_the_way(people)
    await people.consent_service.finish_grant(people.provider.confirm(url, "bob"), alice.who, alice.token)

    with pytest.raises(WrongAccount, match="another person"):
        await people.consent_service.confirm(consent_request, alice.who, alice.token, mine=True)

    assert await people.grant("alice") is None
    assert await people.pending_grant(consent_request, alice) is None
    assert await people.given_back() == ["access-granted-by-bob-1"]
    assert ("consent", "refused: wrong account") in await people.audit("alice")
    assert await people.grant("bob") is not None


async def test_changing_the_account_means_disconnecting_first(people: ConsentSetup) -> None:
    await people.connect("alice")
    old = await people.grant("alice")
    assert old is not None
    await people.database.grants.mark_needs_reauth(old.credential.id, version=old.credential.version)
    consent_request, alice, url = await on_the_way(people)
    await people.consent_service.finish_grant(people.provider.confirm(url, "bob"), alice.who, alice.token)

    with pytest.raises(WrongAccount, match="'alice' is connected"):
        await people.consent_service.confirm(consent_request, alice.who, alice.token, mine=True)

    assert await people.given_back() == ["access-granted-by-bob-1"]


async def test_after_disconnecting_another_account_can_be_connected_and_the_former_one_is_free(
    people: ConsentSetup,
) -> None:
    _, alice = await people.connect("alice")
    await people.consent_service.disconnect(alice.who)

    await people.connect("alice", uid="alice-at-work")
    await people.connect("bob", uid="alice")

    hers, his = await people.grant("alice"), await people.grant("bob")
    assert hers is not None
    assert his is not None
    assert (hers.account.uid, his.account.uid) == ("alice-at-work", "alice")
    assert ("account", "changed") in await people.audit("alice")


async def test_a_disconnected_account_can_be_connected_by_another_user_with_access_to_it(
    people: ConsentSetup,
) -> None:
    _, bob = await people.connect("bob")
    await people.consent_service.disconnect(bob.who)
    _, alice = await people.connect("alice")
    await people.consent_service.disconnect(alice.who)

    await people.connect("alice", uid="bob")

    grant = await people.grant("alice")
    assert grant is not None
    assert grant.account.uid == "bob"
    assert await people.grant("bob") is None


@pytest.mark.parametrize("hours", [0, -1])
async def test_a_dead_access_gives_way_to_a_new_one_even_when_the_clock_was_put_back(
    people: ConsentSetup, hours: int
) -> None:
    """Or another process, whose clock is behind, took the new consent: one is enough."""
    await people.connect("alice")
    old = await people.grant("alice")
    assert old is not None
    await people.database.grants.mark_needs_reauth(old.credential.id, version=old.credential.version)
    people.clock.forward(hours * 3_600 - 1)

    await people.connect("alice")

    new = await people.grant("alice")
    assert new is not None
    assert not new.credential.needs_reauth
    assert new.credential.secret.get_secret_value() == "access-granted-by-alice-1"
    assert await people.given_back() == []


async def test_a_user_who_was_made_again_inherits_nothing(mapped: ConsentSetup) -> None:
    """The account `alice` was deleted, and another human being got one of the same name."""
    _, former, url = await on_the_way(mapped)
    await mapped.consent_service.finish_grant(mapped.provider.confirm(url, "alice"), former.who, former.token)
    mapped.clock.forward(1)
    old = await mapped.grant("alice")
    assert old is not None
    await mapped.database.grants.mark_needs_reauth(old.credential.id, version=old.credential.version)
    waiting = await mapped.ask("alice", "third")
    mapped.provider.homes["alice"] = "another-home"
    again, alice = await mapped.ask("alice", "other"), await browser(mapped, "alice")
    url = await mapped.allow(again, alice)

    await mapped.consent_service.finish_grant(mapped.provider.confirm(url, "alice"), alice.who, alice.token)

    grant = await mapped.grant("alice", "claude")
    assert grant is not None
    assert grant.permission is None
    assert await mapped.state(again) is ElicitationState.COMPLETE
    assert await mapped.state(waiting) is ElicitationState.EXPIRED
    assert await mapped.consent_service.signed_in(former.token) is None


# Bad moments


async def test_two_tabs_one_after_the_other_give_one_grant(mapped: ConsentSetup) -> None:
    consent_request, alice = await mapped.ask(), await browser(mapped, "alice")
    urls = [await mapped.allow(consent_request, alice) for _ in range(2)]

    done = [
        await mapped.consent_service.finish_grant(
            mapped.provider.confirm(url, "alice"), alice.who, alice.token
        )
        for url in urls
    ]

    assert {one.elicitation_id for one in done} == {consent_request}
    assert len(mapped.provider.exchanged) == 1


async def test_two_tabs_at_once_give_one_grant(mapped: ConsentSetup) -> None:
    consent_request, alice = await mapped.ask(), await browser(mapped, "alice")
    urls = [await mapped.allow(consent_request, alice) for _ in range(2)]

    async def finish_callback(url: str) -> None:
        params = mapped.provider.confirm(url, "alice")
        assert (
            await mapped.consent_service.finish_grant(params, alice.who, alice.token)
        ).elicitation_id == consent_request

    await together(*[partial(finish_callback, url) for url in urls])

    assert len(mapped.provider.exchanged) == 1
    assert await mapped.grant() is not None


async def test_two_tabs_at_two_processes_give_one_grant_and_no_leftover(mapped: ConsentSetup) -> None:
    """Another process stores its grant while this one is asking the provider."""
    consent_request, alice = await mapped.ask(), await browser(mapped, "alice")
    first, second = [await mapped.allow(consent_request, alice) for _ in range(2)]
    other = mapped.another_process()

    async def meanwhile() -> None:
        mapped.provider.meanwhile = None
        await other.finish_grant(mapped.provider.confirm(first, "alice"), alice.who, alice.token)

    mapped.provider.meanwhile = meanwhile
    params = mapped.provider.confirm(second, "alice")
    done = await mapped.consent_service.finish_grant(params, alice.who, alice.token)

    grant = await mapped.grant()
    assert done.elicitation_id == consent_request
    assert grant is not None
    stored = grant.credential.secret.get_secret_value()
    assert set(await mapped.given_back()) == {"access-granted-by-alice-0", "access-granted-by-alice-1"} - {
        stored
    }


async def expire(harness: ConsentSetup, consent_request: str, alice: Browser) -> None:
    harness.clock.forward(601)


async def decline(harness: ConsentSetup, consent_request: str, alice: Browser) -> None:
    await harness.consent_service.decline(consent_request, alice.who)


async def disconnect(harness: ConsentSetup, consent_request: str, alice: Browser) -> None:
    await harness.consent_service.disconnect(alice.who)


ENDINGS = [expire, decline, disconnect]
Ending = Callable[[ConsentSetup, str, Browser], Awaitable[None]]


@pytest.mark.parametrize(("ending", "ends_request"), [(expire, True), (decline, True), (disconnect, False)])
async def test_a_consent_request_that_ended_on_the_way_ends_the_code(
    *, mapped: ConsentSetup, ending: Ending, ends_request: bool
) -> None:
    """Where the flow has ended too, its `state` is unknown, and the code is spent without being sent."""
    consent_request, alice, url = await on_the_way(mapped)
    await ending(mapped, consent_request, alice)
    params = mapped.provider.confirm(url, "alice")

    with pytest.raises((ElicitationUnknown, SignInRefused)):
        await mapped.consent_service.finish_grant(params, alice.who, alice.token)

    await (ended if ends_request else spent)(mapped, params)


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_consent_request_that_ends_while_the_provider_is_asked_stores_nothing(
    mapped: ConsentSetup, ending: Ending
) -> None:
    consent_request, alice, url = await on_the_way(mapped)
    mapped.provider.meanwhile = partial(ending, mapped, consent_request, alice)

    with pytest.raises(ElicitationUnknown):
        await mapped.consent_service.finish_grant(
            mapped.provider.confirm(url, "alice"), alice.who, alice.token
        )

    assert await mapped.grant() is None
    assert await mapped.given_back() == ["access-granted-by-alice-0"]


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_consent_request_that_ends_while_the_provider_is_asked_holds_nothing(
    people: ConsentSetup, ending: Ending
) -> None:
    consent_request, alice, url = await on_the_way(people)
    people.provider.meanwhile = partial(ending, people, consent_request, alice)

    with pytest.raises(ElicitationUnknown):
        await people.consent_service.finish_grant(
            people.provider.confirm(url, "alice"), alice.who, alice.token
        )

    assert await people.pending_grant(consent_request, alice) is None
    assert await people.given_back() == ["access-granted-by-alice-0"]


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_pending_grant_is_revoked_when_its_consent_request_ends(
    people: ConsentSetup, ending: Ending
) -> None:
    consent_request, alice, url = await on_the_way(people)
    await people.consent_service.finish_grant(people.provider.confirm(url, "alice"), alice.who, alice.token)
    await ending(people, consent_request, alice)

    with pytest.raises(ElicitationUnknown):
        await people.consent_service.confirm(consent_request, alice.who, alice.token, mine=True)

    await people.consent_service.clean_up()
    assert await people.grant() is None
    assert await people.given_back() == ["access-granted-by-alice-0"]


async def test_saying_mine_twice_at_once_connects_once(people: ConsentSetup) -> None:
    consent_request, alice, url = await on_the_way(people)
    await people.consent_service.finish_grant(people.provider.confirm(url, "alice"), alice.who, alice.token)

    async def confirm() -> None:
        await people.consent_service.confirm(consent_request, alice.who, alice.token, mine=True)

    await together(confirm, confirm)
    await confirm()

    assert people.finished[0] == consent_request
    assert await people.grant() is not None
    assert await people.given_back() == []


async def test_a_browser_that_goes_away_while_the_provider_is_asked_loses_nothing(
    mapped: ConsentSetup,
) -> None:
    consent_request, alice, url = await on_the_way(mapped)
    params = mapped.provider.confirm(url, "alice")

    with anyio.CancelScope() as request:

        async def go_away() -> None:
            request.cancel()
            await anyio.lowlevel.checkpoint()

        mapped.provider.meanwhile = go_away
        await mapped.consent_service.finish_grant(params, alice.who, alice.token)

    assert await mapped.grant() is not None
    assert await mapped.state(consent_request) is ElicitationState.COMPLETE


@pytest.mark.parametrize("table", ["permissions", "audit"])
async def test_what_cannot_be_stored_is_ended(mapped: ConsentSetup, table: str) -> None:
    _, alice, url = await on_the_way(mapped)

    with mapped.failing(f"INSERT ON {table}"), pytest.raises(StorageError):
        await mapped.consent_service.finish_grant(
            mapped.provider.confirm(url, "alice"), alice.who, alice.token
        )

    assert await mapped.grant() is None
    assert await mapped.given_back() == ["access-granted-by-alice-0"]


async def test_what_was_given_before_nextcloud_failed_is_ended_later(mapped: ConsentSetup) -> None:
    consent_request, alice, url = await on_the_way(mapped)
    tokens = Tokens(SecretStr("access-left"), SecretStr("refresh-left"), None)
    mapped.provider.failure = OrphanedTokens(tokens, Unavailable("Nextcloud is closed."))

    with pytest.raises(Unavailable, match="closed"):
        await mapped.consent_service.finish_grant(
            mapped.provider.confirm(url, "alice"), alice.who, alice.token
        )

    assert await mapped.given_back() == ["access-left"]
    assert await mapped.state(consent_request) is ElicitationState.OPENED


async def test_two_accounts_for_one_access_are_written_down(mapped: ConsentSetup) -> None:
    _, alice, url = await on_the_way(mapped)
    mapped.provider.failure = WrongAccount("Two different accounts.")

    with pytest.raises(WrongAccount):
        await mapped.consent_service.finish_grant(
            mapped.provider.confirm(url, "alice"), alice.who, alice.token
        )

    assert await mapped.audit("alice") == [("consent", "refused: wrong account")]


async def test_what_cannot_even_be_kept_for_later_is_ended_at_once(mapped: ConsentSetup) -> None:
    _, alice, url = await on_the_way(mapped)

    with (
        mapped.failing("INSERT ON permissions"),
        mapped.failing("INSERT ON outbox"),
        pytest.raises(StorageError),
    ):
        await mapped.consent_service.finish_grant(
            mapped.provider.confirm(url, "alice"), alice.who, alice.token
        )

    assert mapped.provider.revoked == ["access-granted-by-alice-0"]
