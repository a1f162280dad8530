"""The pages between a chat client and its code."""

import re
from collections.abc import AsyncIterator

import httpx2
import pytest

from nextcloud_mcp_server.auth.builtin.documents import MOST_PER_ADDRESS
from nextcloud_mcp_server.errors import (
    AuthorizeRefused,
    ClientBarred,
    DocumentHostRefused,
    DocumentsOff,
    DocumentTimedOut,
    DocumentUnfit,
    DocumentUnreachable,
    GrantRefused,
    NextcloudMcpError,
    Throttled,
    TooManyRequests,
    Unreachable,
)
from tests.access_fields import choices_in, chosen_in, told_in
from tests.authorization_pages import (
    CURSOR,
    HOSTED,
    LOGO,
    LOOPBACK,
    AuthorizationPages,
    allowed_by,
    answer,
    ask_url,
    client_browser,
    confirm,
    fields_of,
    return_from_nextcloud,
)
from tests.callback_results import shown
from tests.multi_user_pages import NEXTCLOUD, ORIGIN, sign_in, state_of, target_of

DOCUMENT = "https://claude.ai/oauth/claude-code-client-metadata"


@pytest.fixture
async def known(authorization_pages: AuthorizationPages) -> AuthorizationPages:
    await authorization_pages.client()
    return authorization_pages


@pytest.fixture
async def browser(known: AuthorizationPages) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_browser(known) as opened:
        yield opened


def links(page: httpx2.Response) -> list[str]:
    return [link.replace("&amp;", "&") for link in re.findall(r'<a [^>]*href="([^"]+)"', page.text)]


# Who asks


async def test_a_client_that_came_out_of_nowhere_is_said_to_vouch_for_itself(
    browser: httpx2.AsyncClient,
) -> None:
    page = await browser.get(ask_url())

    assert page.status_code == 200
    assert "<strong><bdi>Claude</bdi></strong> wants to use <strong><bdi>cloud.example.org</bdi>" in page.text
    assert "no authority vouches for it" in page.text
    assert "<dd><bdi>claude.ai</bdi></dd>" in page.text
    assert 'class="notice"' not in page.text
    assert chosen_in(page.text) == []


async def test_requests_are_counted_by_the_address_of_the_browser(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    addresses = [f"https://host{number}.example/client.json" for number in range(MOST_PER_ADDRESS + 1)]
    for address in addresses:
        known.break_document(address, httpx2.ConnectError("refused"))
    answers = [(await browser.get(ask_url(address))).status_code for address in addresses]
    async with client_browser(known, address="198.51.100.9") as other:
        elsewhere = await other.get(ask_url(addresses[-1]))

    assert answers == [*[503] * MOST_PER_ADDRESS, 429]
    assert elsewhere.status_code == 503


async def test_a_client_with_a_document_comes_from_the_host_of_the_document(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    page = await browser.get(
        ask_url(await known.client(DOCUMENT), redirect_uri="https://elsewhere.example/cb")
    )

    assert "vouches" not in page.text
    assert re.findall(r"<dd>(?:<bdi>)?([^<]+)", page.text) == ["claude.ai", "elsewhere.example"]


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        (LOOPBACK, "a program on this computer"),
        (CURSOR, "the program on this computer that opens <bdi>cursor:</bdi> links"),
    ],
)
async def test_a_client_on_this_computer_is_allowed_by_who_has_just_started_it(
    browser: httpx2.AsyncClient, uri: str, says: str
) -> None:
    page = await browser.get(ask_url(redirect_uri=uri))

    assert f"<dd>{says}</dd>" in page.text
    assert "Go on only if you have just started this" in page.text


async def test_a_client_without_a_name_is_called_an_assistant(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    page = await browser.get(ask_url(await known.client("mcp-nameless", name="\u202e\n")))

    assert "<title>an assistant wants" in page.text.lower().replace("<bdi>", "")
    assert "given by the app" not in page.text


async def test_the_logo_of_a_client_is_in_the_page_and_said_to_be_the_apps_own(
    known: AuthorizationPages, browser: httpx2.AsyncClient
) -> None:
    await known.client_with_logo(DOCUMENT)

    page = await browser.get(ask_url(DOCUMENT))

    assert '<img class="app-logo" src="data:image/png;base64,' in page.text
    assert LOGO not in page.text
    assert "“<bdi>Claude</bdi>” and its picture are given by the app." in page.text


async def test_the_account_page_shows_the_logos_of_the_clients_that_have_one(
    known: AuthorizationPages, browser: httpx2.AsyncClient
) -> None:
    await known.client_with_logo(DOCUMENT)
    await known.pages.client(client_id=DOCUMENT)
    await known.pages.client(client_id="mcp-claude", name="Other")
    await sign_in(browser, known.pages)

    page = await browser.get("/account")

    assert re.search(
        r'<h2><img class="app-logo" src="data:image/png;base64,[^"]+" [^>]+> <bdi>Claude', page.text
    )
    assert "<h2><bdi>Other</bdi>" in page.text


async def test_a_client_that_imitates_another_has_no_logo(
    known: AuthorizationPages, browser: httpx2.AsyncClient
) -> None:
    imitator = await known.client_with_logo("https://evil.example/client.json")

    page = await browser.get(ask_url(imitator))

    assert "The name looks like “Claude”" in page.text
    assert "<img" not in page.text


async def test_a_client_that_imitates_another_has_no_logo_on_the_account_page(
    known: AuthorizationPages, browser: httpx2.AsyncClient
) -> None:
    imitator = await known.client_with_logo("https://evil.example/client.json")
    await known.pages.client(client_id=imitator)
    await sign_in(browser, known.pages)

    page = await browser.get("/account")

    assert "<h2><bdi>Claude" in page.text
    assert "app-logo" not in page.text


async def test_only_what_is_asked_for_is_offered(browser: httpx2.AsyncClient) -> None:
    page = await browser.get(ask_url(scope="notes:write openid"))

    assert choices_in(page.text) == ["notes:change-only"]
    assert chosen_in(page.text) == []


async def test_the_page_is_created_without_a_request_to_another_host(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    await browser.get(ask_url())

    assert known.pages.statements.changes == []
    assert known.pages.network.asked == []
    assert (known.away, known.here) == (0, 0)


# What cannot be


@pytest.mark.parametrize(
    ("fault", "status", "title"),
    [
        (AuthorizeRefused("Odd."), 400, "cannot be trusted"),
        (ClientBarred("No."), 403, "not allowed here"),
        (DocumentsOff("No."), 400, "has to register itself"),
        (DocumentUnreachable("No."), 503, "cannot be reached"),
        (DocumentTimedOut("No."), 504, "did not come in time"),
        (DocumentUnfit("No."), 400, "cannot be used"),
        (DocumentHostRefused("No."), 403, "where this server does not look"),
        (TooManyRequests("Slow down.", retry_after_seconds=7), 429, "Too many requests"),
        (RuntimeError("A bug."), 500, "Something went wrong here"),
    ],
)
async def test_what_cannot_be_put_to_a_person_leads_nowhere(
    browser: httpx2.AsyncClient, known: AuthorizationPages, fault: Exception, status: int, title: str
) -> None:
    known.break_document(DOCUMENT, fault)

    page = await browser.get(ask_url(DOCUMENT))

    assert page.status_code == status
    assert title in page.text
    assert links(page) == []
    assert "refresh" not in page.headers


async def test_a_user_of_an_unknown_client_is_told_how_to_add_it_again(
    browser: httpx2.AsyncClient,
) -> None:
    page = await browser.get(ask_url("mcp-forgotten"))

    assert page.status_code == 400
    assert "Remove this server from the app and add it again" in page.text


async def test_what_a_client_does_not_get_is_told_to_it_by_who_presses_the_button(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    page = await browser.get(ask_url(resource="https://other.example"))

    (link,) = links(page)
    assert page.status_code == 400
    assert link.startswith(f"{HOSTED}?error=invalid_target&")
    assert httpx2.URL(link).params["iss"] == ORIGIN
    assert "refresh" not in page.headers


async def test_a_question_longer_than_any_is_not_read_and_said_to_be_the_apps_fault(
    browser: httpx2.AsyncClient,
) -> None:
    page = await browser.get(ask_url(state="x" * 8_000))

    assert page.status_code == 400
    assert "question cannot be trusted" in page.text
    assert "x" * 100 not in page.text


# The answer


async def test_allow_leads_over_a_page_of_ours_to_nextcloud(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    redirect_target = await answer(browser, "allow", "notes:read", "files:write")

    assert redirect_target.status_code == 200
    assert target_of(redirect_target).startswith(f"{NEXTCLOUD}/index.php/apps/oauth2/authorize?")
    assert links(redirect_target) == [target_of(redirect_target)]
    assert await allowed_by(browser, known, redirect_target) == {"notes:read", "files:write"}


async def test_what_was_not_offered_is_not_allowed(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    address = ask_url(scope="notes:read")

    redirect_target = await answer(browser, "allow", "notes:read", "files:write", "admin", address=address)

    assert await allowed_by(browser, known, redirect_target) == {"notes:read"}


@pytest.mark.parametrize("scopes", [[], ["admin"]])
async def test_allow_with_everything_off_asks_once_more(
    browser: httpx2.AsyncClient, known: AuthorizationPages, scopes: list[str]
) -> None:
    page = await answer(browser, "allow", *scopes)

    assert page.status_code == 400
    assert 'role="alert"' in page.text
    assert chosen_in(page.text) == []
    assert known.away == 0


async def test_allow_with_nothing_but_what_was_not_asked_for_asks_once_more(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    page = await answer(browser, "allow", "files:write", address=ask_url(scope="notes:read"))

    assert page.status_code == 400
    assert 'role="alert"' in page.text
    assert choices_in(page.text) == ["notes:read"]
    assert known.away == 0


async def test_enter_in_a_choice_asks_once_more_and_keeps_what_was_chosen(
    browser: httpx2.AsyncClient,
) -> None:
    page = await answer(browser, "none", "notes:write")

    assert page.status_code == 200
    assert chosen_in(page.text) == ["notes:change-only"]
    assert 'role="alert"' not in page.text


async def test_no_leads_back_with_the_clients_own_words(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    """N03: the client hears of it with its own state and our name."""
    told = await answer(browser, "deny")

    url = f"{HOSTED}?error=access_denied&state=of+the+client&iss=https%3A%2F%2Fmcp.example.org"
    assert (told.status_code, target_of(told), links(told)) == (200, url, [url])
    assert "details" not in told.text
    assert known.away == 0


async def test_where_an_answer_is_too_long_for_a_header_there_is_a_button(
    browser: httpx2.AsyncClient,
) -> None:
    state = "é" * 700

    told = await answer(browser, "deny", address=ask_url(state=state))

    assert "refresh" not in told.headers
    assert [httpx2.URL(link).params["state"] for link in links(told)] == [state]


async def test_a_form_from_another_browser_is_refused(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    async with client_browser(known) as other:
        await other.get(ask_url())
        form = {**fields_of(await browser.get(ask_url())), "answer": "allow", "allow.notes": "read"}
        refused = await other.post("/authorize", data=form)

    assert refused.status_code == 403
    assert "Start once more from your app" in refused.text
    assert known.pages.statements.changes == []


async def test_a_user_whose_answer_failed_may_open_the_same_request_again(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    known.fail_at("INSERT INTO authorization_transactions", Unreachable("No connection."))

    page = await answer(browser, "allow", "notes:read")
    (again,) = links(page)

    assert page.status_code == 502
    assert chosen_in((await browser.get(again)).text) == []
    assert httpx2.URL(again).params["state"] == "of the client"


async def test_a_client_that_keeps_no_state_gets_none(browser: httpx2.AsyncClient) -> None:
    address = ask_url().replace("&state=of+the+client", "")

    told = await answer(browser, "deny", address=address)
    cancelled = await return_without_code(browser, address)

    assert "state" not in httpx2.URL(target_of(told)).params
    assert "state" not in httpx2.URL(links(cancelled)[0]).params


# Back from Nextcloud


async def return_without_code(browser: httpx2.AsyncClient, address: str = "") -> httpx2.Response:
    redirect_target = await answer(browser, "allow", "notes:read", address=address)
    query = {"error": "access_denied", "state": state_of(target_of(redirect_target))}
    return await shown(browser, await browser.get("/oauth/callback/nextcloud", params=query))


async def test_a_user_after_the_callback_is_asked_whether_the_account_is_their_own(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    back = await return_from_nextcloud(browser, known, "bob", "notes:read", "notes:write")
    page = await browser.get(back.headers["location"])

    assert back.status_code == 303
    assert re.fullmatch(r"/authorize/confirm\?transaction=[A-Za-z0-9_-]{32}", back.headers["location"])
    assert "Signed in as <strong><bdi>Bob</bdi></strong>" in page.text
    assert "<bdi>bob</bdi> on <bdi>cloud.example.org</bdi>" in page.text
    assert "Then you go back to <bdi>claude.ai</bdi>." in page.text
    assert told_in(page.text) == [("Notes", "Read and change")]
    assert "allowed it earlier" not in page.text


async def test_a_user_without_another_name_is_called_by_their_account(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    known.pages.call("bob", "")

    page = await browser.get((await return_from_nextcloud(browser, known)).headers["location"])

    assert "Signed in as <strong><bdi>bob</bdi></strong>" in page.text


async def test_what_was_allowed_earlier_is_shown_too(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    await known.pages.client("bob", "mcp-claude", scopes=frozenset({"files:write"}))

    page = await browser.get((await return_from_nextcloud(browser, known)).headers["location"])

    assert told_in(page.text) == [("Notes", "Read"), ("Files", "Change only")]
    assert "Part of this you allowed it earlier" in page.text


async def test_a_program_on_this_computer_is_gone_back_to_by_no_name(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    back = await return_from_nextcloud(browser, known, address=ask_url(redirect_uri=LOOPBACK))

    assert (
        "Then you go back to the app on this computer." in (await browser.get(back.headers["location"])).text
    )


async def test_a_user_that_declined_at_nextcloud_may_try_again_or_go_back(
    browser: httpx2.AsyncClient,
) -> None:
    page = await return_without_code(browser)

    again, back = links(page)
    assert page.status_code == 200
    assert "refresh" not in page.headers
    assert "<strong>Nothing</strong> was connected." in page.text
    assert back.startswith(f"{HOSTED}?error=access_denied&")
    assert (await browser.get(again)).status_code == 200


async def test_a_callback_is_accepted_once_and_in_one_browser(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    redirect_target = await answer(browser, "allow", "notes:read")
    code, state = known.pages.code("bob"), state_of(target_of(redirect_target))
    address = f"/oauth/callback/nextcloud?code={code}&state={state}"

    async with client_browser(known) as other:
        await other.get(ask_url())
        refused = await shown(other, await other.get(address))
    ended = await shown(browser, await browser.get(address))
    first = await return_from_nextcloud(browser, known)
    second = await shown(browser, await browser.get(str(first.request.url)))

    assert (refused.status_code, ended.status_code, second.status_code) == (403, 403, 403)
    assert "This began in another browser" in refused.text
    assert first.headers["location"].startswith("/authorize/confirm?")
    assert "This browser connected nothing" in second.text


async def test_a_user_in_none_of_the_groups_is_told_so_and_so_is_the_client(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    known.admit_only("staff")

    page = await shown(browser, await return_from_nextcloud(browser, known))

    assert page.status_code == 403
    assert "members of certain groups" in page.text
    assert links(page)[1].startswith(f"{HOSTED}?error=access_denied&")
    assert known.here == 0


@pytest.mark.parametrize(
    ("fault", "status"),
    [(GrantRefused("No."), 403), (Throttled("Wait."), 503), (Unreachable("No connection."), 502)],
)
async def test_after_trouble_at_nextcloud_the_same_may_be_asked_again(
    browser: httpx2.AsyncClient, known: AuthorizationPages, fault: NextcloudMcpError, status: int
) -> None:
    known.pages.break_nextcloud(lambda _: fault)

    page = await shown(browser, await return_from_nextcloud(browser, known))

    assert page.status_code == status
    assert [httpx2.URL(link).path for link in links(page)] == ["/authorize"]


# Continue, and Not me


async def test_continue_leads_back_with_a_code_that_can_be_copied(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    sent = await confirm(browser, known)

    url = httpx2.URL(target_of(sent))
    assert sent.status_code == 200
    assert links(sent)[0] == str(url)
    assert (url.host, url.params["state"], url.params["iss"]) == ("claude.ai", "of the client", ORIGIN)
    assert f"<code>{url.params['code']}</code>" in sent.text
    assert "Go to <bdi>claude.ai</bdi>" in sent.text
    assert "<strong>Connected.</strong> On to <bdi>Claude</bdi>" in sent.text


@pytest.mark.parametrize("uri", [CURSOR, LOOPBACK])
async def test_continue_opens_a_program(
    browser: httpx2.AsyncClient, uri: str, known: AuthorizationPages
) -> None:
    sent = await confirm(browser, known, address=ask_url(redirect_uri=uri))

    assert target_of(sent).startswith(f"{uri}?code=")
    assert ">Open the app</a>" in sent.text


async def test_a_user_that_goes_back_after_continue_stays_connected(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    address = (await return_from_nextcloud(browser, known)).headers["location"]
    form = fields_of(await browser.get(address))
    first = await browser.post("/authorize/confirm", data={**form, "answer": "mine"})

    page = await browser.get(address)
    not_me = await browser.post("/authorize/confirm", data={**form, "answer": "not-mine"})
    second = await browser.post("/authorize/confirm", data={**form, "answer": "mine"})

    assert "You have said yes already" in page.text
    assert "Not me" not in page.text
    assert 'href="/account"' in page.text
    assert (not_me.status_code, not_me.headers["location"]) == (303, address)
    assert target_of(first) == target_of(second)
    assert list(known.connected.values()) == ["bob"]


async def test_not_me_connects_nothing_and_says_how_to_be_another_user(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    page = await confirm(browser, known, "not-mine")

    again, back = links(page)
    assert page.status_code == 200
    assert "Sign out there first" in page.text
    assert back.startswith(f"{HOSTED}?error=access_denied&")
    assert (await browser.get(again)).status_code == 200
    assert (known.connected, known.here) == ({}, 0)


@pytest.mark.parametrize("said", ["", "none", "yes"])
async def test_anything_else_asks_once_more(
    browser: httpx2.AsyncClient, known: AuthorizationPages, said: str
) -> None:
    again = await confirm(browser, known, said)

    assert again.status_code == 303
    assert again.headers["location"].startswith("/authorize/confirm?transaction=")
    assert known.connected == {}


async def test_the_page_of_one_browser_is_shown_and_answered_in_no_other(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    address = (await return_from_nextcloud(browser, known)).headers["location"]
    form = {**fields_of(await browser.get(address)), "answer": "mine"}

    async with client_browser(known) as other:
        await other.get(ask_url())
        looked = await other.get(address)
        pressed = await other.post("/authorize/confirm", data=form)

    assert (looked.status_code, pressed.status_code) == (403, 403)
    assert "Bob" not in looked.text
    assert known.connected == {}


@pytest.mark.parametrize(
    "query", ["", "?transaction=", "?transaction=short", f"?transaction={'a' * 32}&transaction={'a' * 32}"]
)
async def test_a_page_without_a_transaction_is_not_there(
    browser: httpx2.AsyncClient, known: AuthorizationPages, query: str
) -> None:
    page = await browser.get(f"/authorize/confirm{query}")

    assert page.status_code == 403
    assert known.pages.statements.seen == []


# Who takes a callback


@pytest.mark.parametrize(
    ("state", "table"),
    [
        ("c-x", "authorization_transactions"),
        ("s-x", "authorization_transactions"),
        ("x", "grant_requests"),
        ("", "grant_requests"),
    ],
)
async def test_a_callback_goes_to_whom_its_state_names(
    browser: httpx2.AsyncClient, known: AuthorizationPages, state: str, table: str
) -> None:
    answered = await browser.get("/oauth/callback/nextcloud", params={"code": "bob", "state": state})

    assert (await shown(browser, answered)).status_code == 403
    tables = ("authorization_transactions", "grant_requests")
    assert [each for each in tables if known.pages.statements.touch(each)] == [table]


async def test_there_is_no_second_callback_where_nextcloud_alone_identifies_users(
    browser: httpx2.AsyncClient,
) -> None:
    assert (await browser.get("/oauth/callback/sign-in")).status_code == 404
