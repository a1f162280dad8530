import re
from datetime import timedelta

import httpx2
import pytest

from nextcloud_mcp_server.errors import (
    Maintenance,
    NextcloudError,
    NotNextcloud,
    StorageError,
    Throttled,
    TimedOut,
    TlsFailed,
    TooOld,
    Unavailable,
    Unreachable,
    Unsealable,
    WrongAccount,
)
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.access_fields import choices_in, chosen_in, fields_for, told_in
from tests.single_user_pages import ORIGIN, SingleUserPages, application

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"
FORM_CHECK = re.compile(r'name="csrf" value="([^"]+)"')


def provision(elicitation_id: str) -> str:
    return f"/oauth/provision?elicitationId={elicitation_id}"


def waiting(elicitation_id: str) -> str:
    return f"/oauth/waiting?elicitationId={elicitation_id}"


async def send(
    browser: httpx2.AsyncClient,
    elicitation_id: str,
    answer: str | None,
    *allow: str,
    to: str = "/oauth/provision",
) -> httpx2.Response:
    """Open the page, fill in its form, send it."""
    shown = await browser.get(
        provision(elicitation_id) if to == "/oauth/provision" else waiting(elicitation_id)
    )
    found = FORM_CHECK.search(shown.text)
    form: dict[str, str | list[str]] = {"elicitationId": elicitation_id, "csrf": found[1] if found else ""}
    if answer is not None:
        form["answer"] = answer
    return await browser.post(to, data={**form, **fields_for(*allow)})


async def test_the_page_says_who_asks_for_what_and_what_is_needed_now(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open(needed=["notes:read"])

    response = await browser.get(provision(elicitation_id))

    assert response.status_code == 200
    assert "<bdi>Claude Code</bdi>" in response.text
    assert "cloud.example.org" in response.text
    assert "any assistant on this computer" in response.text
    assert chosen_in(response.text) == ["notes:read"]
    assert choices_in(response.text) == ["notes:read", "notes:change", "files:read", "files:change"]
    assert response.text.index(">Notes<") < response.text.index("<details>") < response.text.index(">Files<")
    assert consent.statements.changes == []


async def test_the_first_button_of_the_form_allows_nothing(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    response = await browser.get(provision(await consent.open()))

    buttons = re.findall(r"<button[^>]*>", response.text)
    assert buttons[0] == '<button name="answer" value="none" hidden>'


async def test_only_what_the_operator_allows_is_offered(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open(offered=["notes:read"])

    response = await browser.get(provision(elicitation_id))

    assert choices_in(response.text) == ["notes:read"]


async def test_a_head_request_gets_the_status_of_the_page(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    response = await browser.head(provision(await consent.open()))

    assert response.status_code == 200


async def test_allowing_goes_on_to_a_page_that_follows_along(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()

    answer = await send(browser, elicitation_id, "allow", "notes:read", "files:read")
    page = await browser.get(answer.headers["location"])

    assert (answer.status_code, answer.headers["location"]) == (303, waiting(elicitation_id))
    assert await consent.ticked(elicitation_id) == {"notes:read", "files:read"}
    assert page.headers["refresh"] == "2"
    assert (
        f'href="{await consent.login_url(elicitation_id)}" target="_blank" rel="noopener noreferrer"'
        in page.text
    )
    assert "<strong>10 minutes</strong> left" in page.text
    assert "left something out" not in page.text


async def test_the_time_left_is_told_down_to_the_last_moments(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read")
    start = consent.clock.moment

    said: list[str] = []
    for seconds in (61, 539, 540, 541):
        consent.clock.moment = start + timedelta(seconds=seconds)
        said += re.findall(
            r'class="soft"><strong>(.*?)</strong> left', (await browser.get(waiting(elicitation_id))).text
        )

    assert said == ["9 minutes", "2 minutes", "1 minute", "Less than a minute"]


async def test_the_waiting_page_can_be_kept_from_reloading(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read")

    page = await browser.get(f"{waiting(elicitation_id)}&paused=1")

    assert "refresh" not in page.headers
    assert f'<a href="{waiting(elicitation_id)}">Look again</a>' in page.text
    assert (
        "<code>Nextcloud MCP server</code> (<code>core.login_flow_v2.allowed_user_agents</code>)" in page.text
    )


async def test_leaving_out_what_is_needed_is_allowed_and_said(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open(needed=["notes:read"])

    answer = await send(browser, elicitation_id, "allow", "files:read")
    page = await browser.get(answer.headers["location"])
    await consent.complete(elicitation_id)
    done = await browser.get(waiting(elicitation_id))

    assert "You left something out" in page.text
    assert "<li>Read your notes</li>" in done.text
    assert told_in(done.text) == [("Notes", "Off"), ("Files", "Read")]


async def test_the_waiting_page_names_only_what_is_needed(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open(needed=["notes:read"])
    await send(browser, elicitation_id, "allow", "files:read")

    page = await browser.get(f"{waiting(elicitation_id)}&without=files:write&without=notes:read&without=<b>")

    notice = page.text.partition("You left something out")[2].partition("</section>")[0]
    assert re.findall(r"<li>(.*?)</li>", notice) == ["Read your notes"]
    assert f'href="{waiting(elicitation_id)}&amp;without=notes:read&amp;paused=1"' in page.text


async def test_what_is_allowed_already_is_shown_so_and_stays(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open(needed=["notes:write"], granted=["notes:read"])

    shown = await browser.get(provision(elicitation_id))
    await send(browser, elicitation_id, "allow", "notes:write")
    await consent.complete(elicitation_id)
    done = await browser.get(waiting(elicitation_id))

    assert chosen_in(shown.text) == ["notes:change"]
    assert 'name="allow.notes" value="off" disabled>' in shown.text
    assert shown.text.count("allowed so far: Read") == 1
    assert "If Nextcloud asks you to confirm" in shown.text
    assert told_in(done.text) == [("Notes", "Read and change")]


async def test_what_was_allowed_once_can_be_confirmed_again_without_a_choice(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open(needed=["notes:read"], granted=["notes:read"])

    shown = await browser.get(provision(elicitation_id))
    answer = await send(browser, elicitation_id, "allow")

    assert "wants you to confirm once more" in shown.text
    assert "Next, Nextcloud asks you to confirm" in shown.text
    assert answer.headers["location"] == waiting(elicitation_id)
    assert await consent.ticked(elicitation_id) == {"notes:read"}


async def test_allowing_nothing_shows_the_page_again_with_a_sentence(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()

    response = await send(browser, elicitation_id, "allow")

    assert response.status_code == 422
    assert 'role="alert"' in response.text
    assert consent.statements.changes == []


@pytest.mark.parametrize("answer", ["none", "yes", None])
async def test_any_other_answer_shows_the_page_again_as_it_was(
    browser: httpx2.AsyncClient, consent: SingleUserPages, answer: str | None
) -> None:
    elicitation_id = await consent.open()

    response = await send(browser, elicitation_id, answer, "files:read")

    assert response.status_code == 200
    assert chosen_in(response.text) == ["files:read"]
    assert consent.statements.changes == []


async def test_scopes_that_were_not_offered_are_left_out(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open(offered=["notes:read"])

    await send(browser, elicitation_id, "allow", "notes:read", "files:write", "admin")

    assert await consent.ticked(elicitation_id) == {"notes:read"}


async def test_declining_connects_nothing_and_says_so(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()

    answer = await send(browser, elicitation_id, "deny", "notes:read")
    page = await browser.get(answer.headers["location"])

    assert await consent.state(elicitation_id) is ElicitationState.DECLINED
    assert "<strong>Nothing</strong> was connected." in page.text
    assert consent.flows == 0


async def test_a_finished_consent_request_names_the_account_and_what_was_allowed(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read", "notes:write")
    await consent.complete(elicitation_id, "alice")

    page = await browser.get(waiting(elicitation_id))

    assert "<strong>Connected</strong> as <strong><bdi>Alice</bdi></strong>." in page.text
    assert told_in(page.text) == [("Notes", "Read and change")]
    assert "refresh" not in page.headers


async def test_a_finished_consent_request_without_a_name_still_says_connected(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read")
    await consent.end(elicitation_id, ElicitationState.COMPLETE, account_name="")

    page = await browser.get(waiting(elicitation_id))

    assert "<h1><strong>Connected.</strong></h1>" in page.text


async def test_a_failed_consent_request_says_why_with_a_reference_that_is_in_the_log(
    browser: httpx2.AsyncClient, consent: SingleUserPages, caplog: pytest.LogCaptureFixture
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read")
    await consent.fail(elicitation_id, Failure("other_connected", {"answered": "bob", "connected": "alice"}))

    page = await browser.get(waiting(elicitation_id))

    reference = re.findall(r"<dd>(\w{4}-\w{4})</dd>", page.text)
    assert (
        "You confirmed in Nextcloud as <bdi>bob</bdi>, but <bdi>alice</bdi> is connected here." in page.text
    )
    assert len(reference) == 1
    assert reference[0] in caplog.text


async def test_a_failed_consent_request_says_why_in_the_language_of_the_browser(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read")
    await consent.fail(elicitation_id, Failure("took_too_long", {"program": "Nextcloud MCP server"}))

    page = await browser.get(waiting(elicitation_id), headers={"Accept-Language": "de"})

    assert "Die Anmeldung bei Nextcloud hat zu lange gedauert." in page.text
    assert "took too long" not in page.text


@pytest.mark.parametrize(
    "failure",
    [
        Failure("", {"sentence": "An earlier sentence."}),
        Failure("from_later"),
        Failure("not_yours", {"answered": "bob"}),
        Failure(""),
    ],
)
async def test_a_failure_without_words_on_the_pages_still_gets_its_page_and_no_english_sentence(
    browser: httpx2.AsyncClient, consent: SingleUserPages, failure: Failure
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read")
    await consent.fail(elicitation_id, failure)

    page = await browser.get(waiting(elicitation_id), headers={"Accept-Language": "de"})

    assert "Das hat nicht geklappt" in page.text
    assert "An earlier sentence." not in page.text


async def test_a_consent_request_that_ran_out_of_time_is_no_longer_valid(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read")
    consent.expire()

    page = await browser.get(waiting(elicitation_id))

    assert page.status_code == 404
    assert "no longer valid" in page.text


async def test_the_link_leads_the_browser_that_answered_back_to_its_consent_request(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read")

    while_waiting = await browser.get(provision(elicitation_id))
    await consent.complete(elicitation_id)
    afterwards = await browser.get(provision(elicitation_id))

    assert while_waiting.headers["location"] == afterwards.headers["location"] == waiting(elicitation_id)


async def test_a_form_that_is_sent_twice_leads_to_the_same_flow(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    shown = await browser.get(provision(elicitation_id))
    form = {"elicitationId": elicitation_id, "csrf": FORM_CHECK.findall(shown.text)[0], "answer": "allow"}

    first = await browser.post("/oauth/provision", data={**form, "allow.notes": "read"})
    second = await browser.post("/oauth/provision", data={**form, "allow.notes": "read"})
    await consent.complete(elicitation_id)
    third = await browser.post("/oauth/provision", data={**form, "allow.files": "change-only"})

    assert {first.headers["location"], second.headers["location"], third.headers["location"]} == {
        waiting(elicitation_id)
    }
    assert consent.flows == 1
    assert await consent.ticked(elicitation_id) == {"notes:read"}


async def test_a_form_for_a_consent_request_that_is_over_gets_the_page_for_old_links(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    shown = await browser.get(provision(elicitation_id))
    await consent.complete(elicitation_id)

    form = {"elicitationId": elicitation_id, "csrf": FORM_CHECK.findall(shown.text)[0], "answer": "allow"}
    response = await browser.post("/oauth/provision", data=form)

    assert response.status_code == 404
    assert "no longer valid" in response.text


async def test_cancelling_ends_the_consent_request(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read")

    answer = await send(browser, elicitation_id, None, to="/oauth/cancel")
    page = await browser.get(answer.headers["location"])

    assert answer.status_code == 303
    assert await consent.state(elicitation_id) is ElicitationState.DECLINED
    assert "was connected" in page.text


async def test_cancelling_too_late_shows_what_was_connected(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    await send(browser, elicitation_id, "allow", "notes:read")
    shown = await browser.get(waiting(elicitation_id))
    await consent.complete(elicitation_id)

    form = {"elicitationId": elicitation_id, "csrf": FORM_CHECK.findall(shown.text)[0]}
    answer = await browser.post("/oauth/cancel", data=form)
    page = await browser.get(answer.headers["location"])

    assert "<bdi>Alice</bdi>" in page.text


async def test_a_consent_request_that_was_not_answered_here_cannot_be_cancelled_here(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    shown = await browser.get(provision(elicitation_id))

    form = {"elicitationId": elicitation_id, "csrf": FORM_CHECK.findall(shown.text)[0]}
    response = await browser.post("/oauth/cancel", data=form)

    assert response.status_code == 404
    assert await consent.state(elicitation_id) is ElicitationState.PENDING


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        (Unreachable("No connection."), (502, "Nextcloud does not answer")),
        (TimedOut("No answer in time."), (504, "Nextcloud does not answer")),
        (TlsFailed("Bad certificate."), (502, "The way to Nextcloud is not safe")),
        (NotNextcloud("Something else."), (502, "There is no Nextcloud at that address")),
        (TooOld("Version 27."), (502, "This Nextcloud is too old")),
        (Throttled("Too many."), (503, "Nextcloud asks for a pause")),
        (Maintenance("Closed."), (503, "Nextcloud is closed for maintenance")),
        (Unavailable("Not now."), (503, "Nextcloud does not answer")),
        (WrongAccount("Another."), (403, "That is another Nextcloud account")),
        (NextcloudError("Odd."), (502, "Nextcloud had a problem")),
        (StorageError("Disk full."), (503, "This server cannot read its data just now")),
        (Unsealable("A key is missing."), (503, "This server cannot read its data just now")),
        (ZeroDivisionError("secret detail"), (500, "Something went wrong here")),
    ],
)
async def test_when_allowing_fails_the_page_says_why_and_how_to_try_again(
    browser: httpx2.AsyncClient,
    consent: SingleUserPages,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    answer: tuple[int, str],
) -> None:
    status, title = answer
    elicitation_id = await consent.open()
    consent.break_network(fault)

    response = await send(browser, elicitation_id, "allow", "notes:read")

    assert response.status_code == status
    assert f"<strong>{title}</strong>" in response.text
    assert f'href="{provision(elicitation_id)}">Try again' in response.text
    assert re.findall(r"<dd>(\w{4}-\w{4})</dd>", response.text)[0] in caplog.text
    assert str(fault) not in response.text
    assert ("Retry-After" in response.headers) is (status == 503)
    assert await consent.state(elicitation_id) is ElicitationState.OPENED


async def test_trying_again_after_a_fault_works(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    consent.break_network(Unreachable("No connection."))
    await send(browser, elicitation_id, "allow", "notes:read")
    consent.break_network(None)

    answer = await send(browser, elicitation_id, "allow", "notes:read")

    assert answer.headers["location"] == waiting(elicitation_id)


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b'{"answer": "allow"}', "application/json"),
        (b"a=" + b"x" * 20_000, "application/x-www-form-urlencoded"),
        (b"&".join(b"a=1" for _ in range(100)), "application/x-www-form-urlencoded"),
        ("a=ü".encode(), "application/x-www-form-urlencoded"),
    ],
)
async def test_a_form_that_is_none_of_ours_is_not_read(
    browser: httpx2.AsyncClient, content: bytes, content_type: str
) -> None:
    response = await browser.post("/oauth/provision", content=content, headers={"Content-Type": content_type})

    assert response.status_code == 400
    assert "could not be read" in response.text


async def test_a_form_still_counts_after_the_keys_were_changed(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    shown = await browser.get(provision(elicitation_id))
    form = {"elicitationId": elicitation_id, "csrf": FORM_CHECK.findall(shown.text)[0], "answer": "allow"}
    rotated = application(consent, keys=[b"n" * 32, b"k" * 32])

    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(rotated),
        base_url=ORIGIN,
        headers=browser.headers,
        cookies=browser.cookies,
    ) as later:
        answer = await later.post("/oauth/provision", data={**form, "allow.notes": "read"})

    assert answer.status_code == 303


async def test_a_browser_that_keeps_no_cookies_is_told_so_and_how_to_go_on_elsewhere(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open(needed=["notes:read"])
    shown = await browser.get(provision(elicitation_id))
    form = {"elicitationId": elicitation_id, "csrf": "x", "answer": "allow", **fields_for("notes:read")}
    browser.cookies.clear()

    without = await browser.post("/oauth/provision", data=form)
    browser.cookies.set("of-another-program", "1")
    with_another = await browser.post("/oauth/provision", data=form)

    assert "set-cookie" in shown.headers
    assert (without.status_code, with_another.status_code) == (403, 403)
    assert "Your browser keeps no cookies here" in without.text
    assert f">{ORIGIN}{provision(elicitation_id)}</code>" in without.text
    assert f'href="{provision(elicitation_id)}">Try again' in without.text
    assert "That page was too old" in with_another.text


async def test_a_link_that_is_over_says_what_to_write_to_the_assistant(browser: httpx2.AsyncClient) -> None:
    gone = await browser.get(provision(UNKNOWN))

    assert "Ask your assistant again" in gone.text
    assert "Connect my Nextcloud" in gone.text
    assert "/account" not in gone.text
