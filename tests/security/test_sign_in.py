"""Signing in at the browser: no answer counts but the one this browser asked for, once."""

import base64
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import (
    ConfigurationError,
    IssuerUnavailable,
    OtherBrowser,
    SignInRefused,
    StorageError,
)
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from tests.auth_fixtures import together
from tests.consent_fixtures import ConsentSetup
from tests.issuer_fake import (
    CLIENT,
    ISSUER,
    Change,
    Params,
    html,
    huge,
    signing_key,
    twice,
    with_,
    without,
)


async def flow_and_answer(harness: ConsentSetup, name: str = "alice") -> tuple[str, Params]:
    start = await harness.consent_service.begin_sign_in("account")
    return start.flow.get_secret_value(), harness.issuer.sign_in(start.url, name)


ODD: dict[str, Change] = {
    "state missing": without("state"),
    "state wrong": with_("state", "x"),
    "state empty": with_("state", ""),
    "state no text": with_("state", "\ud800"),
    "state twice": twice("state"),
    "code twice": twice("code"),
    "code of another shape": with_("code", "two words here"),
    "code empty": with_("code", ""),
    "code missing": without("code"),
    "code and error": with_("error", "access_denied"),
    "cancelled": lambda params: {"state": params["state"], "error": ["access_denied"]},
    "error": lambda params: {"state": params["state"], "error": ["login_required"]},
    "another issuer": with_("iss", "https://evil.test"),
    "another twice": with_("session_state", "a", "b"),
}


#: What has a `state` of ours and one code: such a code is exchanged, to be revoked.
ENDED = {"code and error", "another issuer", "another twice"}


async def ended(people: ConsentSetup, flow: str, params: Params, *, sent: int) -> None:
    """No one is signed in; the code was sent so often, and never will be again."""
    assert len(people.issuer.token_requests()) == sent
    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(flow, params)
    assert len(people.issuer.token_requests()) == sent


@pytest.mark.parametrize("odd", ODD)
async def test_an_odd_answer_is_refused_and_its_code_is_ended(people: ConsentSetup, odd: str) -> None:
    flow, params = await flow_and_answer(people)
    changed = ODD[odd](params)

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(flow, changed)

    if changed.get("code") == params["code"]:
        await ended(people, flow, params, sent=int(odd in ENDED))
    else:
        assert people.issuer.token_requests() == []


@pytest.mark.parametrize(
    "change",
    [without("iss"), with_("iss", f"{ISSUER}/"), with_("iss", "https://ID.test"), twice("iss")],
    ids=["missing", "slash", "case", "twice"],
)
async def test_an_issuer_that_names_itself_must_be_the_one_that_was_asked(
    people: ConsentSetup, change: Change
) -> None:
    people.issuer.metadata["authorization_response_iss_parameter_supported"] = True
    flow, params = await flow_and_answer(people)

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(flow, change(params))

    await ended(people, flow, params, sent=1)
    await people.consent_service.finish_sign_in(*await flow_and_answer(people))


async def test_an_answer_counts_only_in_the_browser_that_asked(people: ConsentSetup) -> None:
    mine, _ = await flow_and_answer(people, "alice")
    his, params = await flow_and_answer(people, "bob")

    with pytest.raises(OtherBrowser):
        await people.consent_service.finish_sign_in(mine, params)

    await ended(people, his, params, sent=1)


@pytest.mark.parametrize("flow", ["", "x", "AAAA", "ü", "A" * 400])
async def test_a_flow_that_we_did_not_seal_is_refused(people: ConsentSetup, flow: str) -> None:
    _, params = await flow_and_answer(people)

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(flow, params)


async def test_a_changed_flow_is_refused(people: ConsentSetup) -> None:
    flow, params = await flow_and_answer(people)
    changed = flow[:-6] + ("AAAAAA" if flow[-6:] != "AAAAAA" else "BBBBBB")

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(changed, params)


async def test_what_is_sealed_for_the_database_is_no_flow(people: ConsentSetup) -> None:
    for keys in (people.keys, KeyRing.parse([SecretStr(new_key())])):
        sealed = keys.seal('["s", "v", "n", "t", "account", 9999999999]', ("cookie", "sign-in"))
        flow = base64.urlsafe_b64encode(sealed.value).decode()
        with pytest.raises(SignInRefused):
            await people.consent_service.finish_sign_in(flow, {"state": ["s"], "code": ["some-code"]})

    assert people.issuer.token_requests() == []


async def test_a_flow_is_good_for_ten_minutes(people: ConsentSetup) -> None:
    flow, params = await flow_and_answer(people)
    people.clock.forward(10 * 60)

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(flow, params)

    await ended(people, flow, params, sent=1)


async def test_an_answer_that_is_played_again_begins_no_second_session(people: ConsentSetup) -> None:
    flow, params = await flow_and_answer(people)
    done = await people.consent_service.finish_sign_in(flow, params)

    with pytest.raises(SignInRefused, match="used already"):
        await people.consent_service.finish_sign_in(flow, params)

    assert len(people.issuer.token_requests()) == 1
    assert await people.consent_service.signed_in(done.token.get_secret_value()) == done.signed_in


async def test_a_flow_that_brought_one_person_in_never_brings_another(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in("account")
    flow = start.flow.get_secret_value()
    alice, bob = (people.issuer.sign_in(start.url, name) for name in ("alice", "bob"))
    done = await people.consent_service.finish_sign_in(flow, alice)

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(flow, bob)

    assert await people.consent_service.signed_in(done.token.get_secret_value()) == done.signed_in


async def test_two_answers_at_once_begin_one_session(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in("account")
    flow = start.flow.get_secret_value()
    begun: list[str] = []
    refused: list[Exception] = []

    async def answer(name: str, params: Params) -> None:
        try:
            begun.append(
                (await people.consent_service.finish_sign_in(flow, params)).signed_in.principal.subject
            )
        except (SignInRefused, StorageError) as error:
            refused.append(error)

    alice, bob = (people.issuer.sign_in(start.url, name) for name in ("alice", "bob"))
    await together(lambda: answer("alice", alice), lambda: answer("bob", bob))

    assert len(begun) == 1
    assert len(refused) == 1


async def test_each_sign_in_has_a_session_of_its_own(people: ConsentSetup) -> None:
    tokens = {(await people.browser()).token for _ in range(3)}

    assert len(tokens) == 3
    assert {len(token) for token in tokens} == {43}


async def test_a_code_from_another_users_sign_in_is_of_no_use(people: ConsentSetup) -> None:
    flow, params = await flow_and_answer(people, "mallory")
    _, victims = await flow_and_answer(people, "alice")

    # The verifier that goes along was made for another code.
    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(flow, {**params, "code": victims["code"]})


async def test_a_token_with_another_nonce_is_refused(people: ConsentSetup) -> None:
    for nonce in ("another", "", 7, None):
        people.issuer.claims = {"nonce": nonce}
        with pytest.raises(SignInRefused):
            await people.browser()


NOW = 1_795_780_800


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.test"},
        {"iss": f"{ISSUER}/"},
        {"aud": "another-client"},
        {"aud": ["another-client"]},
        {"aud": []},
        {"aud": None},
        {"azp": "another-client"},
        {"aud": [CLIENT, "another-client"]},
        {"exp": NOW - 31},
        {"exp": None},
        {"iat": NOW + 31},
        {"iat": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"at_hash": "x"},
    ],
    ids=str,
)
async def test_a_token_that_says_anything_wrong_is_refused(
    people: ConsentSetup, claims: dict[str, Any]
) -> None:
    assert people.clock.seconds() == NOW
    people.issuer.claims = claims

    with pytest.raises(SignInRefused):
        await people.browser()


@pytest.mark.parametrize(
    "header", [{"typ": "at+jwt"}, {"jku": f"{ISSUER}/keys"}, {"kid": "another"}], ids=str
)
async def test_a_token_with_an_odd_header_is_refused(people: ConsentSetup, header: dict[str, Any]) -> None:
    people.issuer.header = header

    with pytest.raises(SignInRefused):
        await people.browser()


async def test_a_token_signed_by_another_user_is_refused(people: ConsentSetup) -> None:
    people.issuer.key = signing_key(1)

    with pytest.raises(SignInRefused):
        await people.browser()


async def test_an_unsigned_token_is_refused(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in("account")
    nonce = parse_qs(urlsplit(start.url).query)["nonce"][0]
    claims = {"iss": ISSUER, "aud": CLIENT, "sub": "alice", "nonce": nonce, "exp": NOW + 60, "iat": NOW}
    params = people.issuer.sign_in(start.url, "mallory")
    people.issuer.tokens = {"id_token": jwt.encode(claims, "", algorithm="none", headers={"kid": "one"})}

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(start.flow.get_secret_value(), params)


async def test_metadata_of_another_issuer_begins_nothing(people: ConsentSetup) -> None:
    people.issuer.metadata["issuer"] = "https://evil.test"

    with pytest.raises(ConfigurationError, match="calls itself"):
        await people.consent_service.begin_sign_in("account")


@pytest.mark.parametrize(
    "answer",
    [
        html(),
        huge(),
        httpx2.Response(302, headers={"Location": "https://evil.test/token"}),
        httpx2.Response(200, json={"token_type": "Bearer"}),
        httpx2.Response(503),
    ],
    ids=["html", "huge", "redirect", "nothing", "down"],
)
async def test_an_answer_that_is_none_begins_no_session(
    people: ConsentSetup, answer: httpx2.Response
) -> None:
    people.issuer.instead = lambda request: answer if request.url.path == "/token" else None

    with pytest.raises(IssuerUnavailable):
        await people.browser()

    assert {request.url.host for request in people.issuer.asked} == {"id.test"}


async def test_a_sign_in_that_was_not_for_identity_is_refused(people: ConsentSetup) -> None:
    people.issuer.tokens = {"scope": "profile"}

    with pytest.raises(SignInRefused):
        await people.browser()


async def test_nothing_that_an_address_says_is_repeated(people: ConsentSetup) -> None:
    flow, params = await flow_and_answer(people)
    evil = "<script>alert(1)</script>"
    said = {"state": params["state"], "error": [evil], "error_description": [evil], "error_uri": [evil]}

    with pytest.raises(SignInRefused) as caught:
        await people.consent_service.finish_sign_in(flow, said)

    assert "script" not in str(caught.value)


async def test_the_token_request_carries_the_verifier_and_never_the_address(people: ConsentSetup) -> None:
    await people.browser()

    form = people.issuer.token_requests()[0]
    request = next(one for one in people.issuer.asked if one.url.path == "/token")
    assert len(form["code_verifier"]) == 43
    assert str(request.url) == f"{ISSUER}/token"
    assert "Cookie" not in request.headers
