"""One consent request of one user: what is asked, whose account it is, how it ended."""

import httpx2
import pytest

from nextcloud_mcp_server.errors import (
    GrantRefused,
    NextcloudMcpError,
    Throttled,
    WrongAccount,
)
from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.access_fields import chosen_in, fields_for
from tests.callback_results import shown
from tests.consent_fixtures import run_sql
from tests.multi_user_pages import (
    HOST,
    NEXTCLOUD,
    MultiUserPages,
    allow,
    checks,
    give,
    gone_to_nextcloud,
    sign_in,
    url,
)

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"


async def answer_with(
    browser: httpx2.AsyncClient, elicitation_id: str, answer: str | None, *scopes: str
) -> httpx2.Response:
    page = await browser.get(url("consent", elicitation_id))
    form = {"elicitationId": elicitation_id, "csrf": checks(page)[-1], **fields_for(*scopes)}
    return await browser.post("/oauth/consent", data=form | ({"answer": answer} if answer else {}))


async def test_the_person_sees_who_asks_for_what_and_as_whom_they_are_signed_in(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)

    page = await people.get(url("consent", await consent_service.open()))

    assert "<strong><bdi>Claude Code</bdi></strong> asks for access to" in page.text
    assert "Signed in as <strong><bdi>Alice</bdi></strong>." in page.text
    assert chosen_in(page.text) == ["notes:read"]
    assert "any assistant on this computer" not in page.text
    assert 'href="/account"' in page.text


@pytest.mark.parametrize("path", ["consent", "confirm", "not-me", "waiting", "done"])
async def test_a_user_without_a_session_is_sent_to_the_page_before_the_sign_in(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str
) -> None:
    elicitation_id = await consent_service.open()

    response = await people.get(url(path, elicitation_id))

    assert (response.status_code, response.headers["location"]) == (303, url("provision", elicitation_id))
    assert consent_service.statements.seen == []


@pytest.mark.parametrize("path", ["consent", "confirm", "cancel"])
async def test_an_answer_of_who_was_signed_out_meanwhile_counts_for_nothing(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str
) -> None:
    elicitation_id = await consent_service.open()
    token = await sign_in(people, consent_service)
    page = await people.get(url("consent", elicitation_id))
    await consent_service.database.sign_ins.delete(token)

    form = {"elicitationId": elicitation_id, "csrf": checks(page)[-1], "answer": "allow"}
    response = await people.post(f"/oauth/{path}", data={**form, "allow.notes": "read"})

    assert response.headers["location"] == url("provision", elicitation_id)
    assert await consent_service.state(elicitation_id) is ElicitationState.PENDING


async def test_allow_leads_over_a_page_of_ours_to_nextcloud(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)

    answer = await allow(people, await consent_service.open(), "notes:read", "files:write")
    redirect_target = await people.get(answer.headers["location"])

    assert (answer.status_code, answer.headers["location"]) == (303, "/oauth/nextcloud")
    assert redirect_target.headers["refresh"].startswith(
        f"0; url={NEXTCLOUD}/index.php/apps/oauth2/authorize?"
    )
    assert "Confirm in <strong>Nextcloud</strong>" in redirect_target.text
    assert consent_service.asked == [{"notes:read", "files:write"}]


async def test_a_connected_user_is_done_at_once(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()

    answer = await allow(people, elicitation_id)
    page = await people.get(answer.headers["location"])

    assert answer.headers["location"] == url("done", elicitation_id)
    assert "<strong>Connected</strong> as <strong><bdi>Alice</bdi></strong>." in page.text
    assert 'href="/account">Your connections' in page.text


async def follow(browser: httpx2.AsyncClient, consent_service: MultiUserPages, *scopes: str) -> str:
    """Sign in and press Allow where that starts a login flow."""
    consent_service.follows = True
    await sign_in(browser, consent_service)
    elicitation_id = await consent_service.open()
    answer = await allow(browser, elicitation_id, *scopes)
    assert answer.headers["location"].startswith(url("waiting", elicitation_id))
    return elicitation_id


async def test_a_login_flow_is_followed_from_a_page_of_ours(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await follow(people, consent_service)

    page = await people.get(url("waiting", elicitation_id))
    again = await people.get(url("consent", elicitation_id))
    early = await people.get(url("done", elicitation_id))

    link = await consent_service.login_url(elicitation_id)
    assert page.headers["refresh"] == "5"
    assert f'href="{link}" target="_blank" rel="noopener noreferrer"' in page.text
    assert "<strong>10 minutes</strong> left" in page.text
    assert again.headers["location"] == url("waiting", elicitation_id)
    assert early.headers["location"] == url("consent", elicitation_id)


async def test_what_was_left_out_is_said_while_a_login_flow_is_followed(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    consent_service.follows = True
    await sign_in(people, consent_service)
    answer = await allow(people, await consent_service.open(needed=["notes:read"]), "files:read")

    page = await people.get(answer.headers["location"])

    assert answer.headers["location"].endswith("&without=notes:read")
    assert "You left something out" in page.text


async def test_when_the_login_flow_is_granted_the_page_goes_on_to_the_end(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await follow(people, consent_service)
    await consent_service.granted(elicitation_id, "alice")

    page = await people.get(url("waiting", elicitation_id))
    done = await people.get(page.headers["location"])

    assert page.headers["location"] == url("done", elicitation_id)
    assert "<strong>Connected</strong> as <strong><bdi>Alice</bdi></strong>." in done.text


async def test_when_it_is_granted_with_another_account_the_page_says_so_and_leads_to_the_question(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await follow(people, consent_service)
    await consent_service.granted(elicitation_id, "bob")

    page = await people.get(url("waiting", elicitation_id))
    question = await people.get(url("consent", elicitation_id))

    assert page.status_code == 403
    assert "<strong>That is another Nextcloud account</strong>" in page.text
    assert f'href="{url("consent", elicitation_id)}">Try again' in page.text
    assert "refresh" not in page.headers
    assert question.status_code == 200
    await allow(people, elicitation_id)
    assert (await people.get(url("waiting", elicitation_id))).status_code == 200


async def test_nothing_is_followed_that_was_not_begun(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()

    page = await people.get(url("waiting", elicitation_id))

    assert page.headers["location"] == url("consent", elicitation_id)


async def test_a_login_flow_can_be_cancelled_from_the_page_that_follows_it(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await follow(people, consent_service)
    page = await people.get(url("waiting", elicitation_id))
    form = {"elicitationId": elicitation_id, "csrf": checks(page)[0]}

    answers = [await people.post("/oauth/cancel", data=form) for _ in range(2)]
    done = await people.get(url("done", elicitation_id))

    assert {answer.headers["location"] for answer in answers} == {url("done", elicitation_id)}
    assert consent_service.audit == [("consent", "declined")]
    assert await consent_service.state(elicitation_id) is ElicitationState.DECLINED
    assert done.status_code == 200


async def test_with_a_mapping_the_callback_from_nextcloud_ends_on_the_result_page(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    consent_service.maps = True
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()

    back = await give(people, consent_service, elicitation_id, "alice")

    assert (back.status_code, back.headers["location"]) == (303, url("done", elicitation_id))
    assert "__Host-redirect" not in people.cookies


async def test_without_a_mapping_the_user_confirms_that_the_account_is_their_own(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()

    back = await give(people, consent_service, elicitation_id, "alice")
    asked = await people.get(back.headers["location"])
    form = {"elicitationId": elicitation_id, "csrf": checks(asked)[0]}
    odd = await people.post("/oauth/confirm", data={**form, "answer": "perhaps"})
    answer = await people.post("/oauth/confirm", data={**form, "answer": "mine"})

    assert back.headers["location"] == url("confirm", elicitation_id)
    assert "Connected as <strong><bdi>Alice</bdi></strong> on" in asked.text
    assert "What <bdi>Claude Code</bdi> may do:" in asked.text
    assert odd.headers["location"] == url("confirm", elicitation_id)
    assert answer.headers["location"] == url("done", elicitation_id)
    assert await consent_service.state(elicitation_id) is ElicitationState.COMPLETE


async def test_not_me_takes_back_what_was_given_and_tells_how_to_try_again(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()
    asked = await people.get((await give(people, consent_service, elicitation_id, "bob")).headers["location"])

    form = {"elicitationId": elicitation_id, "csrf": checks(asked)[0], "answer": "not-mine"}
    answer = await people.post("/oauth/confirm", data=form)
    page = await people.get(answer.headers["location"])
    await consent_service.end(elicitation_id, ElicitationState.DECLINED)
    later = await people.get(answer.headers["location"])

    assert consent_service.connected == {}
    assert "We have removed that access." in page.text
    assert f'href="{url("consent", elicitation_id)}">Try again' in page.text
    assert "Try again" not in later.text


@pytest.mark.parametrize("path", ["consent", "nextcloud"])
async def test_while_something_waits_for_a_yes_every_page_before_leads_there(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()
    await allow(people, elicitation_id)
    kept = people.cookies["__Host-redirect"]
    await give(people, consent_service, elicitation_id, "alice")
    people.cookies.set("__Host-redirect", kept, domain=HOST)

    response = await people.get("/oauth/nextcloud" if path == "nextcloud" else url(path, elicitation_id))

    assert response.headers["location"] == url("confirm", elicitation_id)


async def test_a_consent_request_that_is_over_leads_to_how_it_ended(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()
    form = {
        "elicitationId": elicitation_id,
        "csrf": checks(await people.get(url("consent", elicitation_id)))[-1],
    }
    await answer_with(people, elicitation_id, "deny")

    answers = [
        await people.get(url("consent", elicitation_id)),
        await people.post("/oauth/consent", data={**form, "answer": "allow", "allow.notes": "read"}),
        await people.get(url("confirm", elicitation_id)),
    ]

    assert {answer.headers["location"] for answer in answers} == {url("done", elicitation_id)}
    assert await consent_service.state(elicitation_id) is ElicitationState.DECLINED


async def test_declining_says_that_nothing_was_connected(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)

    answer = await answer_with(people, await consent_service.open(), "deny", "notes:read")
    page = await people.get(answer.headers["location"])

    assert "<strong>Nothing</strong> was connected." in page.text


async def test_a_consent_request_that_failed_says_why(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()
    await consent_service.end(elicitation_id, ElicitationState.FAILED, Failure("opened_by_others"))

    page = await people.get(url("done", elicitation_id))

    assert "Another person opened the link several times" in page.text


async def test_a_consent_request_that_ran_out_of_time_is_no_longer_valid(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()
    await consent_service.end(elicitation_id, ElicitationState.EXPIRED)

    page = await people.get(url("done", elicitation_id))

    assert page.status_code == 404


@pytest.mark.parametrize("path", ["done", "confirm"])
async def test_a_page_that_comes_too_early_leads_back_to_the_question(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()

    response = await people.get(url(path, elicitation_id))

    assert response.headers["location"] == url("consent", elicitation_id)


@pytest.mark.parametrize("answer", ["none", "yes", None])
async def test_any_other_answer_shows_the_page_again_as_it_was(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, answer: str | None
) -> None:
    await sign_in(people, consent_service)

    response = await answer_with(people, await consent_service.open(), answer, "files:read")

    assert response.status_code == 200
    assert chosen_in(response.text) == ["files:read"]
    assert consent_service.statements.changes == []


async def test_allowing_nothing_shows_the_page_again_with_a_sentence(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)

    response = await answer_with(people, await consent_service.open(), "allow")

    assert response.status_code == 422
    assert 'role="alert"' in response.text


async def test_a_form_with_nothing_but_scopes_that_were_not_offered_is_asked_again(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open(offered=["notes:read"])

    response = await answer_with(people, elicitation_id, "allow", "files:write", "admin")

    assert response.status_code == 422
    assert "Everything is off." in response.text
    assert consent_service.asked == []


async def test_what_was_allowed_before_stays_so_and_what_was_not_offered_is_left_out(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open(offered=["notes:read", "notes:write"], granted=["notes:read"])

    await allow(people, elicitation_id, "notes:write", "files:write", "admin")

    assert consent_service.asked == [{"notes:read", "notes:write"}]


@pytest.mark.parametrize(
    ("fault", "status", "title"),
    [
        (GrantRefused("The code is too old."), 403, "Nextcloud did not confirm it"),
        (WrongAccount("It opens bob."), 403, "That is another Nextcloud account"),
        (Throttled("Too many."), 503, "Nextcloud asks for a pause"),
    ],
)
async def test_when_the_callback_fails_the_page_says_why_and_leads_to_the_consent_page(
    people: httpx2.AsyncClient,
    consent_service: MultiUserPages,
    fault: NextcloudMcpError,
    status: int,
    title: str,
) -> None:
    await sign_in(people, consent_service)
    elicitation_id = await consent_service.open()
    params = {"code": consent_service.code("alice"), "state": await gone_to_nextcloud(people, elicitation_id)}
    consent_service.break_nextcloud(lambda _: fault)

    answer = await people.get("/oauth/callback/nextcloud", params=params)
    response = await shown(people, answer)

    assert response.status_code == status
    assert f"<strong>{title}</strong>" in response.text
    assert f'href="{url("consent", elicitation_id)}">Try again' in response.text
    assert str(fault) not in response.text


async def test_the_page_on_the_way_leads_nowhere_for_who_was_not_sent(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    signed_out = await people.get("/oauth/nextcloud")
    await sign_in(people, consent_service)
    signed_in = await people.get("/oauth/nextcloud")

    assert signed_out.status_code == signed_in.status_code == 404
    assert signed_out.content == signed_in.content


async def test_an_unknown_link_gets_the_page_for_old_links(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)

    response = await people.get(url("consent", UNKNOWN))

    assert response.status_code == 404
    assert "no longer valid" in response.text


async def test_a_refusal_that_names_no_consent_request_offers_no_other_account(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open("alice")
    await sign_in(people, consent_service, "alice")
    state = await gone_to_nextcloud(people, elicitation_id)
    token = await sign_in(people, consent_service, "bob")
    changed = f"UPDATE grant_requests SET sign_in_hash = '{hash_of(token)}'"
    run_sql(consent_service.file, changed)

    params = {"code": consent_service.code("bob"), "state": state}
    answer = await people.get("/oauth/callback/nextcloud", params=params)
    response = await shown(people, answer)

    assert response.status_code == 403
    assert "another account" in response.text
    assert "<form" not in response.text


async def test_the_page_that_asks_whose_account_it_is_shows_its_picture_and_says_which_risk_it_carries(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    consent_service.give_picture()
    await sign_in(people, consent_service)
    back = await give(people, consent_service, await consent_service.open(), "alice")

    page = await people.get(back.headers["location"])

    assert '<img class="face" src="data:image/png;base64,iVBORw0KGgo=" alt=""' in page.text
    assert "it takes your word for it" in page.text
    assert "img-src 'self' data:" in page.headers["content-security-policy"]


async def test_without_a_picture_the_first_letter_of_the_name_is_shown(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)
    back = await give(people, consent_service, await consent_service.open(), "alice")

    page = await people.get(back.headers["location"])

    assert '<span class="face" aria-hidden="true">A</span>' in page.text
    assert "<img" not in page.text


async def test_a_user_whose_account_is_taken_reads_what_to_ask_for(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    consent_service.maps = True
    await consent_service.client("bob", uid="alice")
    run_sql(consent_service.file, "UPDATE accounts SET mapped = true")
    await sign_in(people, consent_service)

    answer = await give(people, consent_service, await consent_service.open(), "alice")
    page = await shown(people, answer)

    assert page.status_code == 403
    assert "ask the operator of this server to release it" in page.text


@pytest.mark.parametrize("maps", [False, True])
async def test_a_callback_takes_at_most_four_transactions(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, *, maps: bool
) -> None:
    """Also a minute after the last page: the last use of the session is recorded by the page that follows."""
    consent_service.maps = maps
    await sign_in(people, consent_service)
    state = await gone_to_nextcloud(people, await consent_service.open())
    consent_service.clock.forward(61)
    consent_service.statements.reset()

    params = {"code": consent_service.code("alice"), "state": state}
    answer = await people.get("/oauth/callback/nextcloud", params=params)

    assert answer.headers["location"].startswith("/oauth/done" if maps else "/oauth/confirm")
    assert 1 < consent_service.statements.transactions <= 4
