"""An attacker begins a sign-in and sends the victim the address at the upstream; the victim presses Grant.

The code then stands in the victim's address bar and is bound to nothing: anyone who gets hold of it could finish in
the attacker's browser. So the first callback that brings it to the wrong browser ends the code for everyone.
"""

from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from nextcloud_mcp_server.errors import (
    ClientUnknown,
    ElicitationUnknown,
    GrantRefused,
    OtherBrowser,
    SignInRefused,
    Unreachable,
)
from nextcloud_mcp_server.storage.records import SignedIn
from tests.authorization_fixtures import CLIENT, COOKIE, AuthorizationFixture, open_authorization
from tests.consent_fixtures import Browser, ConsentSetup
from tests.issuer_fake import ISSUER, Params

ATTACKER = COOKIE
VICTIM = "value-in-the-cookie-of-the-victim"
#: Longer than a code lives, but for which a spent one is remembered.
HALF_AN_HOUR = 30 * 60


@pytest.fixture
async def authorization(tmp_path: Path, template: Path) -> AsyncGenerator[AuthorizationFixture]:
    async with open_authorization(tmp_path, template) as harness:
        await harness.register()
        yield harness


async def begun_by_attacker(harness: ConsentSetup) -> tuple[Browser, str]:
    """Let Alice's client ask, and Alice allow it; the address at Nextcloud is what she sends."""
    consent_request = await harness.ask("alice")
    attacker = await harness.browser("alice", preferred_username="alice")
    return attacker, await harness.allow(consent_request, attacker)


def codes(params: Params) -> str:
    return params["code"][0]


# Mode `builtin`: Nextcloud says who signs in.


async def test_builtin_exchanges_and_revokes_a_code_that_the_victim_brings(
    authorization: AuthorizationFixture,
) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(ATTACKER), "victim")

    with pytest.raises(OtherBrowser):
        await authorization.authorization.check_callback(params, browser=VICTIM)

    assert authorization.provider.exchanged == [codes(params)]
    assert await authorization.given_back() == [f"access-{codes(params)}"]
    assert await authorization.grant("victim") is None
    assert ("sign-in", "refused: another browser") in await authorization.audit("")


async def test_builtin_ends_the_sign_in_in_the_attackers_browser_too(
    authorization: AuthorizationFixture,
) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(ATTACKER), "victim")
    with pytest.raises(OtherBrowser):
        await authorization.authorization.check_callback(params, browser=VICTIM)

    with pytest.raises(SignInRefused):
        await authorization.authorization.check_callback(params, browser=ATTACKER)

    assert await authorization.grant("victim") is None


@pytest.mark.parametrize("victim", ["", VICTIM])
async def test_builtin_ends_the_session_of_an_attacker_who_was_faster_when_the_victim_brings_the_code(
    authorization: AuthorizationFixture, victim: str
) -> None:
    start = await authorization.consent_service.begin_sign_in("account")
    params = authorization.provider.confirm(start.url, "victim")
    attacker = start.flow.get_secret_value()
    stolen = await authorization.consent_service.finish_sign_in(attacker, params)
    token = stolen.token.get_secret_value()
    with pytest.raises(SignInRefused) as again:
        await authorization.consent_service.finish_sign_in(attacker, params)
    before = await authorization.consent_service.signed_in(token)

    with pytest.raises(OtherBrowser):
        await authorization.consent_service.finish_sign_in(victim, params)

    assert not isinstance(again.value, OtherBrowser)
    assert before is not None
    assert await authorization.consent_service.signed_in(token) is None


@pytest.mark.parametrize("failure", [None, Unreachable("away"), GrantRefused("no")])
async def test_builtin_takes_the_code_in_no_other_sign_in_of_the_attacker(
    authorization: AuthorizationFixture, failure: Exception | None
) -> None:
    """Also where Nextcloud could not be asked when the victim came: the code may live on there."""
    params = authorization.provider.confirm(await authorization.to_nextcloud(ATTACKER), "victim")
    authorization.provider.failure = failure
    with pytest.raises(OtherBrowser):
        await authorization.authorization.check_callback(params, browser=VICTIM)
    authorization.provider.failure = None
    another = parse_qs(urlsplit(await authorization.to_nextcloud(ATTACKER)).query)

    for _ in range(2):
        came = await authorization.authorization.check_callback(
            {"state": another["state"], "code": params["code"]}, browser=ATTACKER
        )
        with pytest.raises(SignInRefused):
            await authorization.authorization.finish_sign_in(came, browser=ATTACKER)
        another = parse_qs(urlsplit(await authorization.to_nextcloud(ATTACKER)).query)

    assert authorization.provider.exchanged == [codes(params)]
    assert await authorization.grant("victim") is None


async def test_builtin_spends_a_code_that_it_may_not_send(authorization: AuthorizationFixture) -> None:
    """Too many codes were refused lately, so none is sent for half an hour; a code lives ten minutes."""
    for _ in range(2):
        junk = {
            **authorization.provider.confirm(await authorization.to_nextcloud(ATTACKER), "victim"),
            "code": ["made-up-code"],
        }
        with pytest.raises(OtherBrowser):
            await authorization.authorization.check_callback(junk, browser=VICTIM)
    params = authorization.provider.confirm(await authorization.to_nextcloud(ATTACKER), "victim")

    with pytest.raises(OtherBrowser):
        await authorization.authorization.check_callback(params, browser=VICTIM)

    assert codes(params) not in authorization.provider.exchanged
    assert await authorization.database.spent_codes.is_spent(codes(params))
    authorization.clock.forward(HALF_AN_HOUR)
    assert await authorization.database.spent_codes.is_spent(codes(params))


async def test_builtin_sends_no_code_for_a_state_that_it_never_made(
    authorization: AuthorizationFixture,
) -> None:
    params = {
        **authorization.provider.confirm(await authorization.to_nextcloud(ATTACKER), "victim"),
        "state": ["c-made-up"],
    }

    with pytest.raises(SignInRefused) as caught:
        await authorization.authorization.check_callback(params, browser=VICTIM)

    assert not isinstance(caught.value, OtherBrowser)
    assert authorization.provider.exchanged == []


async def finish_with(authorization: AuthorizationFixture, code: str) -> None:
    """Bring a code to a new sign-in of the attacker's, in the attacker's browser."""
    begun = parse_qs(urlsplit(await authorization.to_nextcloud(ATTACKER)).query)
    came = await authorization.authorization.check_callback(
        {"state": begun["state"], "code": [code]}, browser=ATTACKER
    )
    await authorization.authorization.finish_sign_in(came, browser=ATTACKER)


@pytest.mark.parametrize("state", ["c-made-up", "", None])
async def test_builtin_spends_the_code_whatever_state_the_attacker_wrote_into_the_address(
    authorization: AuthorizationFixture, state: str | None
) -> None:
    """Nextcloud brings back any `state` that it is given."""
    params = authorization.provider.confirm(await authorization.to_nextcloud(ATTACKER), "victim")
    brought = {"code": params["code"], **({} if state is None else {"state": [state]})}
    with pytest.raises(SignInRefused):
        await authorization.authorization.check_callback(brought, browser=VICTIM)

    with pytest.raises(SignInRefused):
        await finish_with(authorization, codes(params))

    assert authorization.provider.exchanged == []


async def test_builtin_spends_the_code_of_a_client_that_is_ended_during_the_callback(
    authorization: AuthorizationFixture,
) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(VICTIM), "victim")
    came = await authorization.authorization.check_callback(params, browser=VICTIM)
    client = await authorization.database.clients.find(CLIENT)
    assert client
    await authorization.database.clients.delete(CLIENT)

    with pytest.raises((ClientUnknown, SignInRefused)):
        await authorization.authorization.asked_by(came)

    await authorization.database.clients.save(client)
    with pytest.raises(SignInRefused):
        await finish_with(authorization, codes(params))
    assert authorization.provider.exchanged == []


@pytest.mark.parametrize("used", [{"error": ["access_denied"]}, {"code": ["short"]}])
async def test_builtin_spends_the_code_though_the_attacker_used_up_the_state_first(
    authorization: AuthorizationFixture, used: Params
) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(ATTACKER), "victim")
    with pytest.raises(SignInRefused):
        await authorization.authorization.check_callback({"state": params["state"], **used}, browser=ATTACKER)
    with pytest.raises(SignInRefused):
        await authorization.authorization.check_callback(params, browser=VICTIM)

    with pytest.raises(SignInRefused):
        await finish_with(authorization, codes(params))

    assert authorization.provider.exchanged == []


async def test_builtin_ends_an_old_sign_in_with_its_code(authorization: AuthorizationFixture) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(ATTACKER), "alice")
    authorization.clock.forward(11 * 60)

    with pytest.raises(SignInRefused):
        await authorization.authorization.check_callback(params, browser=ATTACKER)

    assert await authorization.given_back() == [f"access-{codes(params)}"]


@pytest.mark.parametrize("change", [{"iss": ["https://evil.example"]}, {"x": ["1", "2"]}])
async def test_builtin_ends_the_code_of_an_answer_that_it_does_not_trust(
    authorization: AuthorizationFixture, change: dict[str, list[str]]
) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(ATTACKER), "alice")

    with pytest.raises(SignInRefused):
        await authorization.authorization.check_callback({**params, **change}, browser=ATTACKER)

    assert await authorization.given_back() == [f"access-{codes(params)}"]


# Mode `oidc`: the grant at Nextcloud.


@pytest.mark.parametrize("signed_in", [True, False])
async def test_oidc_exchanges_and_revokes_a_code_that_the_victim_brings(
    mapped: ConsentSetup, *, signed_in: bool
) -> None:
    attacker, url = await begun_by_attacker(mapped)
    params = mapped.provider.confirm(url, "victim")
    victim = await mapped.browser("victim", preferred_username="victim")

    ending = (
        mapped.consent_service.finish_grant(params, victim.who, victim.token)
        if signed_in
        else mapped.consent_service.end_foreign(params)
    )

    with pytest.raises(OtherBrowser):
        await ending
    with pytest.raises(SignInRefused):
        await mapped.consent_service.finish_grant(params, attacker.who, attacker.token)

    assert mapped.provider.exchanged == [codes(params)]
    assert await mapped.given_back() == [f"access-{codes(params)}"]
    assert await mapped.grant("alice") is None
    assert ("consent", "refused: another browser") in await mapped.audit("alice")


async def test_oidc_takes_the_code_in_no_other_flow_of_the_attacker(people: ConsentSetup) -> None:
    """With `ACCOUNT_MAPPING=confirm` the attacker would only have to say that the account is theirs."""
    attacker, url = await begun_by_attacker(people)
    params = people.provider.confirm(url, "victim")
    people.provider.failure = Unreachable("away")
    with pytest.raises(OtherBrowser):
        await people.consent_service.end_foreign(params)
    people.provider.failure = None
    consent_request = await people.ask("alice", "another client")
    another = parse_qs(urlsplit(await people.allow(consent_request, attacker)).query)

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_grant(
            {"state": another["state"], "code": params["code"]}, attacker.who, attacker.token
        )

    assert await people.pending_grant(consent_request, attacker) is None
    assert people.provider.exchanged == [codes(params)]


async def test_oidc_ends_a_code_for_a_request_that_is_over(mapped: ConsentSetup) -> None:
    consent_request = await mapped.ask("alice")
    alice = await mapped.browser("alice", preferred_username="alice")
    params = mapped.provider.confirm(await mapped.allow(consent_request, alice), "alice")
    await mapped.consent_service.decline(consent_request, alice.who)

    with pytest.raises(ElicitationUnknown):
        await mapped.consent_service.finish_grant(params, alice.who, alice.token)

    assert await mapped.given_back() == [f"access-{codes(params)}"]


async def test_oidc_sends_no_code_where_no_flow_was_begun(mapped: ConsentSetup) -> None:
    with pytest.raises(SignInRefused) as caught:
        await mapped.consent_service.end_foreign({"state": ["made-up"], "code": ["granted-by-victim"]})

    assert not isinstance(caught.value, OtherBrowser)
    assert mapped.provider.exchanged == []


@pytest.mark.parametrize("signed_in", [True, False])
@pytest.mark.parametrize("state", [["made-up"], [], ["x", "y"]])
async def test_oidc_spends_the_code_whatever_state_the_attacker_wrote_into_the_address(
    people: ConsentSetup, state: list[str], *, signed_in: bool
) -> None:
    attacker, url = await begun_by_attacker(people)
    params = people.provider.confirm(url, "victim")
    victim = await people.browser("victim", preferred_username="victim")
    brought = {"state": state, "code": params["code"]}
    with pytest.raises(SignInRefused):
        await (
            people.consent_service.finish_grant(brought, victim.who, victim.token)
            if signed_in
            else people.consent_service.end_foreign(brought)
        )

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_grant(params, attacker.who, attacker.token)

    assert people.provider.exchanged == []


async def test_oidc_ends_a_code_that_a_person_brings_whom_the_claim_gives_no_account(
    mapped: ConsentSetup,
) -> None:
    attacker, url = await begun_by_attacker(mapped)
    params = mapped.provider.confirm(url, "victim")
    mapped.issuer.userinfo = {"sub": "victim"}
    victim = await mapped.browser("victim")

    with pytest.raises(OtherBrowser):
        await mapped.consent_service.finish_grant(params, victim.who, victim.token)
    with pytest.raises(SignInRefused):
        await mapped.consent_service.finish_grant(params, attacker.who, attacker.token)

    assert await mapped.database.spent_codes.is_spent(codes(params))
    assert mapped.provider.exchanged == [codes(params)]
    assert await mapped.given_back() == [f"access-{codes(params)}"]
    assert ("consent", "refused: another browser") in await mapped.audit("alice")


async def test_oidc_ends_the_code_of_a_person_whom_the_claim_gives_no_account_any_more(
    mapped: ConsentSetup,
) -> None:
    """The operator may name the claim after the sign-in: then this session knows no account."""
    alice, url = await begun_by_attacker(mapped)
    params = mapped.provider.confirm(url, "alice")

    with pytest.raises(SignInRefused, match="preferred_username"):
        await mapped.consent_service.finish_grant(params, replace(alice.who, uid=None), alice.token)

    assert await mapped.given_back() == [f"access-{codes(params)}"]
    assert await mapped.grant("alice") is None


async def test_oidc_does_not_revoke_what_a_faster_tab_has_just_stored(mapped: ConsentSetup) -> None:
    """Some providers end all tokens of a sign-in with one of them."""
    consent_request = await mapped.ask("alice")
    alice = await mapped.browser("alice", preferred_username="alice")
    first, second = [
        mapped.provider.confirm(await mapped.allow(consent_request, alice), "alice") for _ in range(2)
    ]
    await mapped.consent_service.finish_grant(first, alice.who, alice.token)

    await mapped.consent_service.finish_grant(second, alice.who, alice.token)

    assert mapped.provider.exchanged == [codes(first)]
    assert await mapped.database.spent_codes.is_spent(codes(second))


# Mode `oidc`: the sign-in at the identity provider.


@pytest.mark.parametrize("flow", ["", "made-up"])
async def test_a_sign_in_that_the_victim_brings_back_is_exchanged_once_and_worth_nothing(
    people: ConsentSetup, flow: str
) -> None:
    start = await people.consent_service.begin_sign_in("account")
    params = people.issuer.sign_in(start.url, "victim")

    for _ in range(2):
        with pytest.raises(OtherBrowser):
            await people.consent_service.finish_sign_in(flow, params)
    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(start.flow.get_secret_value(), params)

    assert len(people.issuer.token_requests()) == 1
    assert await people.consent_service.signed_in(start.flow.get_secret_value()) is None


async def test_a_sign_in_that_the_attacker_finished_first_ends_when_the_victim_brings_it_back(
    people: ConsentSetup,
) -> None:
    start = await people.consent_service.begin_sign_in("account")
    params = people.issuer.sign_in(start.url, "victim")
    stolen = await people.consent_service.finish_sign_in(start.flow.get_secret_value(), params)
    token = stolen.token.get_secret_value()
    before = await people.consent_service.signed_in(token)

    with pytest.raises(OtherBrowser):
        await people.consent_service.finish_sign_in("", params)

    assert before is not None
    assert await people.consent_service.signed_in(token) is None


@pytest.mark.parametrize("first", [0, 1])
async def test_a_sign_in_ends_that_comes_back_in_two_browsers_at_once(
    people: ConsentSetup, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """The attacker's session is stored before or after the victim's callback looks for it."""
    start = await people.consent_service.begin_sign_in("account")
    params, attacker = people.issuer.sign_in(start.url, "victim"), start.flow.get_secret_value()
    sign_ins = people.database.sign_ins
    create, stored = sign_ins.create, list[str]()

    async def meanwhile(token: str, signed_in: SignedIn, *, sub: str | None, sid: str | None) -> None:
        stored.append(token)
        steps = [partial(create, token, signed_in, sub=sub, sid=sid), bring]
        for step in steps[::-1] if first else steps:
            await step()

    async def bring() -> None:
        with pytest.raises(OtherBrowser):
            await people.consent_service.finish_sign_in("", params)

    monkeypatch.setattr(sign_ins, "create", meanwhile)
    with pytest.raises(OtherBrowser):
        await people.consent_service.finish_sign_in(attacker, params)

    assert len(stored) == 1
    assert await people.consent_service.signed_in(stored[0]) is None


async def test_a_second_callback_in_the_own_browser_does_not_end_the_sign_in(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in("account")
    params, flow = people.issuer.sign_in(start.url, "alice"), start.flow.get_secret_value()
    done = await people.consent_service.finish_sign_in(flow, params)

    with pytest.raises(SignInRefused, match="used already"):
        await people.consent_service.finish_sign_in(flow, params)

    assert await people.consent_service.signed_in(done.token.get_secret_value()) is not None


async def test_a_sign_in_of_the_victim_is_worth_nothing_though_the_provider_was_away(
    people: ConsentSetup,
) -> None:
    start = await people.consent_service.begin_sign_in("account")
    params = people.issuer.sign_in(start.url, "victim")
    people.issuer.instead = lambda request: httpx2.Response(503) if request.url.path == "/token" else None
    with pytest.raises(OtherBrowser):
        await people.consent_service.finish_sign_in("", params)
    people.issuer.instead = lambda _: None

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(start.flow.get_secret_value(), params)


async def test_a_state_of_a_sign_in_that_was_changed_is_none_of_ours(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in("account")
    params = people.issuer.sign_in(start.url, "victim")
    state = params["state"][0]

    for changed in ("", "x", state[:-8], f"{state[:40]}A{state[41:]}"):
        with pytest.raises(SignInRefused) as caught:
            await people.consent_service.finish_sign_in("", {**params, "state": [changed]})
        assert not isinstance(caught.value, OtherBrowser)

    assert people.issuer.token_requests() == []
    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(start.flow.get_secret_value(), params)
    assert people.issuer.token_requests() == []


async def test_an_answer_that_the_own_browser_brings_too_late_is_not_said_to_be_anothers(
    people: ConsentSetup,
) -> None:
    start = await people.consent_service.begin_sign_in("account")
    params = people.issuer.sign_in(start.url, "alice")
    people.clock.forward(11 * 60)

    with pytest.raises(SignInRefused) as caught:
        await people.consent_service.finish_sign_in(start.flow.get_secret_value(), params)

    assert not isinstance(caught.value, OtherBrowser)
    assert len(people.issuer.token_requests()) == 1


async def test_an_old_state_ends_no_code(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in("account")
    params = people.issuer.sign_in(start.url, "victim")
    people.clock.forward(21 * 60)

    with pytest.raises(OtherBrowser):
        await people.consent_service.finish_sign_in("", params)

    assert people.issuer.token_requests() == []


async def test_what_the_identity_provider_gave_for_such_a_code_is_revoked_there(people: ConsentSetup) -> None:
    people.issuer.metadata["revocation_endpoint"] = f"{ISSUER}/revoke"
    start = await people.consent_service.begin_sign_in("account")
    params = people.issuer.sign_in(start.url, "victim")
    revoked: list[str] = []

    def revoke(request: httpx2.Request) -> httpx2.Response | None:
        if request.url.path != "/revoke":
            return None
        revoked.append(request.content.decode())
        return httpx2.Response(200)

    people.issuer.instead = revoke
    with pytest.raises(OtherBrowser):
        await people.consent_service.finish_sign_in("", params)

    assert len(revoked) == 1
    assert "token=" in revoked[0]


async def test_a_code_is_ended_though_its_request_is_forgotten(mapped: ConsentSetup) -> None:
    _, url = await begun_by_attacker(mapped)
    params = mapped.provider.confirm(url, "victim")
    mapped.sql("DELETE FROM elicitations")

    with pytest.raises(OtherBrowser):
        await mapped.consent_service.end_foreign(params)

    assert await mapped.given_back() == [f"access-{codes(params)}"]


async def test_a_second_code_of_a_finished_sign_in_is_spent_too(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in("account")
    first, second = (people.issuer.sign_in(start.url, "alice") for _ in range(2))
    await people.consent_service.finish_sign_in(start.flow.get_secret_value(), first)

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(start.flow.get_secret_value(), second)

    assert codes(first) != codes(second)
    assert await people.database.spent_codes.is_spent(codes(second))
