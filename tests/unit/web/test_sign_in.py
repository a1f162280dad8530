"""Before a sign-in, on the way to it, and back."""

import re

import httpx2

from nextcloud_mcp_server.storage.crypto import hash_of
from tests.callback_results import shown
from tests.issuer_fake import ISSUER
from tests.multi_user_pages import (
    HOST,
    MultiUserPages,
    browser_of,
    checks,
    config,
    gone_to_sign_in,
    sign_in,
    state_of,
    url,
)


async def test_the_first_page_names_the_nextcloud_and_what_comes_next(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    response = await people.get(url("provision", await consent_service.open()))

    assert response.status_code == 200
    assert "An assistant wants to use <strong><bdi>cloud.example.org</bdi></strong>" in response.text
    assert "set-cookie" not in response.headers
    assert consent_service.statements.seen == []


async def test_continue_leads_over_a_page_of_ours_to_the_sign_in(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    answer = await people.post(url("provision", await consent_service.open()))
    redirect_target = await people.get(answer.headers["location"])

    assert (answer.status_code, answer.headers["location"]) == (303, "/oauth/sign-in")
    assert redirect_target.headers["refresh"].startswith(f"0; url={ISSUER}/authorize?")
    assert f'href="{ISSUER}/authorize?response_type=code&amp;client_id=' in redirect_target.text
    assert "You sign in on <bdi>id.test</bdi>" in redirect_target.text


async def test_a_user_sees_the_consent_request_after_the_sign_in(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open()
    params = consent_service.signed_in_at(await gone_to_sign_in(people, elicitation_id), "alice")

    answer = await people.get("/oauth/callback/sign-in", params=params)
    shown = await people.get(answer.headers["location"])

    assert (answer.status_code, answer.headers["location"]) == (303, url("consent", elicitation_id))
    assert "Signed in as <strong><bdi>Alice</bdi></strong>." in shown.text
    assert [name for name in people.cookies if "session" not in name] == []


async def test_a_signed_in_user_continues_at_once(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open()
    await sign_in(people, consent_service)

    answer = await people.post(url("provision", elicitation_id))

    assert answer.headers["location"] == url("consent", elicitation_id)
    assert consent_service.issuer.asked == []


async def test_a_second_sign_in_ends_the_first_session(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    first = await consent_service.session("bob")
    redirect_target = await gone_to_sign_in(people, await consent_service.open())
    people.cookies.set("__Host-session", first, domain=HOST)

    params = consent_service.signed_in_at(redirect_target, "alice")
    await people.get("/oauth/callback/sign-in", params=params)

    assert consent_service.sessions == {hash_of(people.cookies["__Host-session"])} != {hash_of(first)}
    assert "<bdi>Alice</bdi>" in (await people.get("/account")).text


async def test_a_refused_sign_in_can_be_tried_again_for_the_same_link(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open()
    state = state_of(await gone_to_sign_in(people, elicitation_id))

    answer = await people.get("/oauth/callback/sign-in", params={"error": "access_denied", "state": state})
    refused = await shown(people, answer)

    assert refused.status_code == 403
    assert "The sign-in did not work" in refused.text
    assert f'href="{url("provision", elicitation_id)}">Try again' in refused.text


async def test_a_refused_sign_in_for_the_account_page_leads_back_there(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await people.post("/account/sign-in")

    answer = await people.get("/oauth/callback/sign-in", params={"state": "wrong", "code": "alice"})
    refused = await shown(people, answer)

    assert 'href="/account">Try again' in refused.text
    assert consent_service.sessions == set()


async def test_an_answer_that_no_browser_asked_for_reaches_who_spends_its_code(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    params = {"code": "code-of-alice-at-the-issuer", "state": "some"}
    answer = await people.get("/oauth/callback/sign-in", params=params)
    refused = await shown(people, answer)

    assert refused.status_code == 403
    assert "Try again" not in refused.text
    assert consent_service.sessions == set()
    assert consent_service.is_spent(params["code"])


async def test_of_an_answer_of_absurd_length_only_the_code_is_read_to_spend_it(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    redirect_target = await gone_to_sign_in(people, await consent_service.open())
    params = {**consent_service.signed_in_at(redirect_target, "alice"), "more": "a" * 9_000}
    refused = await shown(people, await people.get("/oauth/callback/sign-in", params=params))

    assert refused.status_code == 403
    assert consent_service.sessions == set()
    assert consent_service.is_spent(*params["code"])


async def test_an_identity_provider_that_does_not_answer_is_named_as_the_sign_in(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open()
    consent_service.break_issuer(lambda request: httpx2.ConnectError("refused", request=request))

    response = await people.post(url("provision", elicitation_id))

    assert response.status_code == 503
    assert "The sign-in does not answer" in response.text
    assert f'href="{url("provision", elicitation_id)}">Try again' in response.text


async def test_the_page_on_the_way_leads_nowhere_without_a_sign_in_that_was_begun_here(
    people: httpx2.AsyncClient,
) -> None:
    people.cookies.set("of-another-program", "1")

    response = await people.get("/oauth/sign-in")

    assert response.status_code == 404
    assert "refresh" not in response.headers
    assert 'href="/account">Your connections' in response.text


async def test_a_browser_that_keeps_no_cookies_is_told_so_before_it_signs_in(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    """Without its two cookies, the page on the way said that the link is no longer valid."""
    begun = await people.post(url("provision", await consent_service.open()))
    people.cookies.clear()

    response = await people.get(begun.headers["location"])

    assert response.status_code == 403
    assert "Your browser keeps no cookies here" in response.text
    assert "refresh" not in response.headers


async def test_an_address_that_would_not_fit_a_header_is_never_sent(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    consent_service.issuer.metadata["authorization_endpoint"] = 'https://login.example.org/" onload="'

    response = await people.post(url("provision", await consent_service.open()))

    assert response.status_code == 500
    assert "set-cookie" not in response.headers


async def test_on_loopback_the_cookies_have_plain_names(consent_service: MultiUserPages) -> None:
    settings = config(secure_cookies=False)

    async with browser_of(consent_service, settings) as browser:
        browser.base_url = "http://mcp.example.org"
        answer = await browser.post(url("provision", await consent_service.open()))

    names = re.findall(r"^([\w-]+)=", "\n".join(answer.headers.get_list("set-cookie")), re.MULTILINE)
    assert names == ["sign-in", "redirect"]
    assert all("secure" not in cookie.lower() for cookie in answer.headers.get_list("set-cookie"))


async def test_another_user_can_take_over_from_the_page_that_refused(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open("alice")
    await sign_in(people, consent_service, "bob")
    refused = await people.get(url("consent", elicitation_id))

    form = {"elicitationId": elicitation_id, "csrf": checks(refused)[0]}
    answer = await people.post("/oauth/other-account", data=form)
    redirect_target = await people.get(answer.headers["location"])

    assert refused.status_code == 403
    assert "This request belongs to <strong>another account</strong>" in refused.text
    assert "Signed in as <strong><bdi>Bob</bdi></strong>." in refused.text
    assert answer.headers["location"] == "/oauth/sign-in"
    assert "&prompt=login" in redirect_target.headers["refresh"]
    assert consent_service.sessions == set()
    assert "__Host-session" not in people.cookies


async def test_a_user_signed_out_meanwhile_can_still_take_another_account(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    answer = await people.post("/oauth/other-account", data={"elicitationId": await consent_service.open()})

    assert answer.headers["location"] == "/oauth/sign-in"
    assert consent_service.statements.changes == []


async def test_the_first_page_of_the_server_tells_the_address_to_give_to_an_assistant(
    people: httpx2.AsyncClient,
) -> None:
    response = await people.get("/")

    assert '<code class="command">https://mcp.example.org/mcp</code>' in response.text
    assert 'href="/account"' in response.text
