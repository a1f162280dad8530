"""Mode `builtin`: whose consent, whose account, whose browser; and what is left when anything is in doubt."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode, urljoin

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.document import Document, Form
from nextcloud_mcp_server.sandbox.faults import FaultArea, FaultStatus
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.sandbox.state import User
from tests.access_fields import chosen_in
from tests.callback_results import shown
from tests.integration.builtin_app import CALLBACK, BuiltinApp, code_in, open_builtin_app, query_of
from tests.integration.personal_app import until

HTML = {"Accept": "text/html"}
OURS = {**HTML, "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path) as opened:
        yield opened


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield client


class Browser:
    """A browser that is led step by step; `person` is who signs in at Nextcloud."""

    def __init__(self, builtin_app: BuiltinApp, http: httpx2.AsyncClient, name: str) -> None:
        self.builtin_app = builtin_app
        self.http = http
        self.person = Person(name, name, browser=http)

    async def open(self, url: str) -> httpx2.Response:
        return await self.http.get(urljoin(self.builtin_app.url, url), headers=HTML)

    async def refused(self, url: str) -> httpx2.Response:
        """Come back in a way that connects nothing; the page that says so."""
        return await shown(self.http, await self.open(url))

    async def press(self, page: httpx2.Response, answer: str, **fields: object) -> httpx2.Response:
        """Press a button on a page of ours."""
        form = next(one for one in Document.read(page.text).forms if "csrf" in _hidden(one))
        sent: dict[str, object] = {**_hidden(form), "answer": answer, **fields}
        return await self.http.post(urljoin(self.builtin_app.url, form.action), data=sent, headers=OURS)

    async def to_nextcloud(self, client_id: str, **fields: str | None) -> str:
        """Allow a client to read notes; the address at Nextcloud."""
        asked = await self.open(self.builtin_app.authorize_url(client_id, **fields))
        assert asked.status_code == 200, asked.text
        return redirect_target(await self.press(asked, "allow", **{"allow.notes": "read"}))

    async def from_nextcloud(self, url: str) -> str:
        """Sign in at Nextcloud and grant access; the address that leads back to us, which is not opened."""
        return await self.person.sign_in(url, until=f"{self.builtin_app.url}/oauth/callback/nextcloud")

    async def welcomed(self, client_id: str) -> httpx2.Response:
        """Come as far as the question who this is."""
        back = await self.open(await self.from_nextcloud(await self.to_nextcloud(client_id)))
        assert back.status_code == 303, back.text
        return await self.open(back.headers["Location"])


def _hidden(form: Form) -> dict[str, str]:
    return {one.name: one.value for one in form.fields if not one.is_choice}


def link_in(builtin_app: BuiltinApp, answer: object) -> str:
    """Find the link to our page in what a tool answered."""
    return re.findall(rf"{builtin_app.url}/oauth/provision\?elicitationId=[0-9a-f-]{{36}}", str(answer))[0]


def redirect_target(page: httpx2.Response) -> str:
    return str(page.headers["Refresh"]).partition("url=")[2]


@asynccontextmanager
async def browser(builtin_app: BuiltinApp, name: str) -> AsyncGenerator[Browser]:
    async with httpx2.AsyncClient(timeout=60) as http:
        yield Browser(builtin_app, http, name)


@pytest.fixture
async def alice(builtin_app: BuiltinApp) -> AsyncGenerator[Browser]:
    async with browser(builtin_app, "alice") as opened:
        yield opened


@pytest.fixture
async def bob(builtin_app: BuiltinApp) -> AsyncGenerator[Browser]:
    async with browser(builtin_app, "bob") as opened:
        yield opened


@pytest.fixture
async def client_id(builtin_app: BuiltinApp, http: httpx2.AsyncClient) -> str:
    return str((await builtin_app.register(http))["client_id"])


def token_requests(builtin_app: BuiltinApp) -> int:
    return sum("/apps/oauth2/api/v1/token" in one.path for one in builtin_app.sandbox.requests.records)


async def nothing_is_left(builtin_app: BuiltinApp) -> None:
    """Wait until Nextcloud knows of no access, as it must soon after a refusal."""
    await until(lambda: builtin_app.connected() == [])


async def test_one_authorization_gives_the_client_its_token_and_the_server_the_access(
    builtin_app: BuiltinApp, alice: Browser, client_id: str, http: httpx2.AsyncClient
) -> None:
    sent = await alice.press(await alice.welcomed(client_id), "mine")

    back = query_of(redirect_target(sent))
    assert sent.status_code == 200
    assert back["iss"] == [builtin_app.url]
    answer = await builtin_app.exchange_code(http, client_id, back["code"][0])
    assert answer.json()["scope"] == "notes:read"
    assert builtin_app.connected() == ["alice"]


async def test_a_captured_address_at_nextcloud_is_worth_nothing_in_another_browser(
    builtin_app: BuiltinApp, alice: Browser, bob: Browser, client_id: str
) -> None:
    url = await alice.to_nextcloud(client_id)

    refused = await bob.refused(await bob.from_nextcloud(url))

    assert refused.status_code == 403
    assert "began in another browser" in refused.text
    assert token_requests(builtin_app) == 1
    await nothing_is_left(builtin_app)


async def test_a_captured_way_back_is_ended_in_another_browser_and_in_its_own(
    builtin_app: BuiltinApp, alice: Browser, bob: Browser, client_id: str
) -> None:
    back = await alice.from_nextcloud(await alice.to_nextcloud(client_id))

    refused = await bob.refused(back)

    assert refused.status_code == 403
    assert (await alice.refused(back)).status_code == 403
    assert token_requests(builtin_app) == 1
    await nothing_is_left(builtin_app)


async def test_an_approval_in_one_browser_counts_for_no_other(
    builtin_app: BuiltinApp, alice: Browser, bob: Browser, client_id: str
) -> None:
    page = await alice.open(builtin_app.authorize_url(client_id))

    refused = await bob.press(page, "allow", **{"allow.notes": "read"})

    assert refused.status_code == 403
    assert "keeps no cookies" in refused.text


async def test_the_callback_of_one_user_is_shown_to_and_continued_by_no_other_user(
    builtin_app: BuiltinApp, alice: Browser, bob: Browser, client_id: str
) -> None:
    welcome = await alice.welcomed(client_id)
    await bob.open(builtin_app.authorize_url(client_id))

    seen = await bob.open(str(welcome.url))
    pressed = await bob.press(welcome, "mine")

    assert seen.status_code == 403
    assert "Alice" not in seen.text
    assert pressed.status_code == 403
    assert await alice.press(welcome, "mine")


@pytest.mark.parametrize(
    ("change", "sent"),
    [
        ({"state": None}, 0),
        ({"state": "c-wrong"}, 0),
        ({"state": "s-wrong"}, 0),
        ({"state": "wrong"}, 0),
        ({"code": None}, 0),
        ({"error": "access_denied"}, 1),
        ({"code": "short"}, 0),
        ({"iss": "https://evil.example"}, 1),
    ],
)
async def test_an_answer_that_is_not_the_expected_one_is_refused_and_its_code_is_ended(
    builtin_app: BuiltinApp, alice: Browser, client_id: str, change: dict[str, str | None], sent: int
) -> None:
    """Only a code with a `state` of ours is sent, to be revoked; any other is exchanged for no one from then on."""
    back = await alice.from_nextcloud(await alice.to_nextcloud(client_id))
    values: dict[str, str | None] = {name: values[0] for name, values in query_of(back).items()}
    given = {name: text for name, text in {**values, **change}.items() if text is not None}

    refused = await alice.refused(f"/oauth/callback/nextcloud?{urlencode(given)}")

    assert refused.status_code == 403
    assert token_requests(builtin_app) == sent
    if change.get("code", "") == "":
        state = query_of(await alice.to_nextcloud(client_id))["state"][0]
        code = urlencode({"state": state, "code": values["code"]})
        assert (await alice.refused(f"/oauth/callback/nextcloud?{code}")).status_code == 403
    assert token_requests(builtin_app) == sent
    if sent:
        await nothing_is_left(builtin_app)


@pytest.mark.parametrize("name", ["state", "code"])
async def test_an_answer_that_says_something_twice_is_refused(
    builtin_app: BuiltinApp, alice: Browser, client_id: str, name: str
) -> None:
    back = await alice.from_nextcloud(await alice.to_nextcloud(client_id))

    refused = await alice.refused(f"{back}&{urlencode({name: query_of(back)[name][0]})}")

    assert refused.status_code == 403
    assert token_requests(builtin_app) == 0


async def test_the_same_answer_a_second_time_is_refused(alice: Browser, client_id: str) -> None:
    back = await alice.from_nextcloud(await alice.to_nextcloud(client_id))
    await alice.open(back)

    again = await alice.refused(back)

    assert again.status_code == 403


async def test_an_answer_after_more_than_ten_minutes_is_refused(
    builtin_app: BuiltinApp, alice: Browser, client_id: str
) -> None:
    back = await alice.from_nextcloud(await alice.to_nextcloud(client_id))

    builtin_app.clock.ahead += timedelta(minutes=11)
    refused = await alice.refused(back)

    assert refused.status_code == 403
    assert token_requests(builtin_app) == 1


async def test_a_state_of_one_kind_is_no_state_of_the_other(
    builtin_app: BuiltinApp, alice: Browser, client_id: str
) -> None:
    back = await alice.from_nextcloud(await alice.to_nextcloud(client_id))
    account = await alice.open("/account")
    form = Document.read(account.text).forms[0]
    begun = await alice.http.post(urljoin(builtin_app.url, form.action), headers=OURS)
    page_state = query_of(redirect_target(await alice.open(begun.headers["Location"])))["state"][0]
    client_state = query_of(back)["state"][0]
    code = code_in(back)

    for state in (page_state.replace("s-", "c-", 1), client_state.replace("c-", "s-", 1)):
        query = urlencode({"state": state, "code": code})
        refused = await alice.refused(f"/oauth/callback/nextcloud?{query}")
        assert refused.status_code == 403
    assert token_requests(builtin_app) == 0


async def test_no_at_nextcloud_leaves_it_to_the_person_to_go_back(
    builtin_app: BuiltinApp, alice: Browser, client_id: str
) -> None:
    url = await alice.to_nextcloud(client_id, state="of the client")
    state = query_of(url)["state"][0]

    page = await alice.refused(
        f"/oauth/callback/nextcloud?{urlencode({'state': state, 'error': 'access_denied'})}"
    )

    links = Document.read(page.text).links
    back = next(link for link in links if link.startswith(CALLBACK))
    assert page.status_code == 200
    assert "Refresh" not in page.headers
    assert query_of(back) == {
        "error": ["access_denied"],
        "state": ["of the client"],
        "iss": [builtin_app.url],
    }
    assert any(link.startswith("/authorize?") for link in links)


async def test_not_me_ends_at_once_what_was_given_and_tells_how_to_be_another_user(
    builtin_app: BuiltinApp, alice: Browser, client_id: str, http: httpx2.AsyncClient
) -> None:
    welcome = await alice.welcomed(client_id)
    assert builtin_app.connected() == ["alice"]

    page = await alice.press(welcome, "not-mine")

    await nothing_is_left(builtin_app)
    assert "Sign out there first" in page.text
    assert (await alice.press(welcome, "mine")).status_code == 403
    assert (await alice.press(welcome, "not-mine")).status_code == 403


async def test_continue_pressed_twice_shows_the_same_code_and_after_its_use_says_so(
    builtin_app: BuiltinApp, alice: Browser, client_id: str, http: httpx2.AsyncClient
) -> None:
    welcome = await alice.welcomed(client_id)

    codes = [code_in(redirect_target(await alice.press(welcome, "mine"))) for _ in range(2)]
    answer = await builtin_app.exchange_code(http, client_id, codes[0])
    late = await alice.press(welcome, "mine")

    assert codes[0] == codes[1]
    assert answer.status_code == 200
    assert late.status_code == 200
    assert "This was answered already" in late.text
    assert builtin_app.connected() == ["alice"]


async def test_two_copies_of_one_page_give_one_code_and_the_other_page_says_so(
    builtin_app: BuiltinApp, alice: Browser, client_id: str, http: httpx2.AsyncClient
) -> None:
    """N01: the page between a client and its code; both copies can be sent, and one of them counts."""
    url = builtin_app.authorize_url(client_id)
    copies = [await alice.open(url) for _ in range(2)]

    async def whose(copy: httpx2.Response) -> httpx2.Response:
        there = redirect_target(await alice.press(copy, "allow", **{"allow.notes": "read"}))
        back = await alice.open(await alice.from_nextcloud(there))
        return await alice.open(back.headers["Location"])

    welcomes = [await whose(copy) for copy in copies]
    won = await alice.press(welcomes[0], "mine")
    lost = await alice.press(welcomes[1], "mine")
    again = await alice.press(copies[1], "allow", **{"allow.notes": "read"})

    assert (
        await builtin_app.exchange_code(http, client_id, code_in(redirect_target(won)))
    ).status_code == 200
    assert [page.status_code for page in (lost, again)] == [200, 200]
    assert "This was answered already" in lost.text
    await until(lambda: builtin_app.connected() == ["alice"])


@pytest.mark.parametrize("change", ["disabled", "left the group"])
async def test_a_user_excluded_from_nextcloud_or_this_server_gets_no_new_tokens(
    builtin_app: BuiltinApp, alice: Browser, http: httpx2.AsyncClient, change: str
) -> None:
    user = builtin_app.sandbox.state.users["alice"]
    user.groups = ("staff",)
    await builtin_app.restart(allowed_groups="staff")
    tokens = await builtin_app.sign_in(alice.person, http)
    form = {
        "grant_type": "refresh_token",
        "client_id": tokens["client_id"],
        "refresh_token": tokens["refresh_token"],
    }
    if change == "disabled":
        user.enabled = False
    else:
        await builtin_app.restart(allowed_groups="another group")

    answer = await http.post(f"{builtin_app.url}/token", data=form)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}

    assert answer.json()["error"] == "invalid_grant"
    assert (await http.post(f"{builtin_app.url}/mcp", json=ping, headers=headers)).status_code == 401


async def test_a_nextcloud_that_is_down_signs_no_user_out(
    builtin_app: BuiltinApp, alice: Browser, http: httpx2.AsyncClient
) -> None:
    tokens = await builtin_app.sign_in(alice.person, http)
    form = {
        "grant_type": "refresh_token",
        "client_id": tokens["client_id"],
        "refresh_token": tokens["refresh_token"],
    }
    builtin_app.sandbox.faults.status(503)

    answer = await http.post(f"{builtin_app.url}/token", data=form)

    assert answer.status_code == 200


async def test_not_me_after_continue_takes_nothing_back_and_leads_to_where_it_can_be_ended(
    builtin_app: BuiltinApp, alice: Browser, client_id: str
) -> None:
    welcome = await alice.welcomed(client_id)
    await alice.press(welcome, "mine")

    late = await alice.press(welcome, "not-mine")

    assert late.status_code == 303
    assert 'href="/account"' in (await alice.open(late.headers["Location"])).text
    assert builtin_app.connected() == ["alice"]


async def test_a_user_that_never_confirms_the_account_leaves_nothing_at_nextcloud(
    builtin_app: BuiltinApp, alice: Browser, client_id: str
) -> None:
    welcome = await alice.welcomed(client_id)
    builtin_app.clock.ahead += timedelta(minutes=11)

    assert (await alice.press(welcome, "mine")).status_code == 403
    await builtin_app.restart()

    await nothing_is_left(builtin_app)


async def test_the_link_of_one_users_client_is_answered_by_no_other_user(
    builtin_app: BuiltinApp, alice: Browser, bob: Browser, http: httpx2.AsyncClient
) -> None:
    tokens = await builtin_app.sign_in(alice.person, http)
    async with builtin_app.raw(tokens["access_token"]) as client:
        # As in Nextcloud's settings, under "Devices & sessions".
        builtin_app.sandbox.state.app_passwords.clear()
        asked = await client.request("tools/call", {"name": "nc_notes_list_notes", "arguments": {}})
        link = link_in(builtin_app, asked["result"])

        page = await bob.person.consent(link)

        again = await client.request("tools/call", {"name": "nc_notes_list_notes", "arguments": {}})
    assert page.status == 403
    assert "another account" in page.title
    assert again["result"]["isError"]
    await until(lambda: builtin_app.connected() == [])


async def test_signing_in_for_the_account_page_leaves_no_access_behind(
    builtin_app: BuiltinApp, alice: Browser
) -> None:
    page = await alice.person.consent(f"{builtin_app.url}/account")

    assert page.title == "Your connections"
    await nothing_is_left(builtin_app)


async def test_a_sign_in_for_a_consent_request_becomes_the_access_that_was_missing(
    builtin_app: BuiltinApp, alice: Browser, http: httpx2.AsyncClient
) -> None:
    tokens = await builtin_app.sign_in(alice.person, http)
    async with builtin_app.client(tokens["access_token"]) as client:
        # As in Nextcloud's settings, under "Devices & sessions".
        builtin_app.sandbox.state.app_passwords.clear()
        asked = await client.call_tool("nc_notes_list_notes", {})
        link = link_in(builtin_app, asked)

        page = await alice.person.consent(link, only=["notes:read"])

        notes = await client.call_tool("nc_notes_list_notes", {})
    assert page.title == "Connected"
    assert not notes.is_error
    assert builtin_app.connected() == ["alice"]
    titles = [seen.title for seen in alice.person.seen]
    assert titles.count("Account access") == 2, "one for the client, one for the consent request"


async def test_a_user_who_was_made_anew_finds_nothing_of_the_former_one(
    builtin_app: BuiltinApp, alice: Browser, bob: Browser, http: httpx2.AsyncClient
) -> None:
    tokens = await builtin_app.sign_in(alice.person, http)
    state = builtin_app.sandbox.state
    state.app_passwords.clear()
    state.oauth_grants.clear()
    del state.users["alice"]
    state.add_user(User("alice", "Another Alice", "alice"))
    async with browser(builtin_app, "alice") as other:
        page = await other.person.consent(f"{builtin_app.url}/account")

    assert "Claude" not in page.text
    refused = await http.post(
        f"{builtin_app.url}/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "ping"},
        headers={"Authorization": f"Bearer {tokens['access_token']}"},
    )
    assert refused.status_code == 401


async def test_a_user_in_none_of_the_groups_is_refused_and_keeps_nothing(
    builtin_app: BuiltinApp, alice: Browser, bob: Browser, client_id: str
) -> None:
    await builtin_app.restart(allowed_groups="staff, family")
    builtin_app.sandbox.state.users["bob"].groups = ("family",)

    refused = await alice.refused(await alice.from_nextcloud(await alice.to_nextcloud(client_id)))
    page = await alice.person.consent(f"{builtin_app.url}/account")

    assert (refused.status_code, page.status) == (403, 403)
    assert "may not use this server" in refused.text
    await nothing_is_left(builtin_app)
    assert (await bob.press(await bob.welcomed(client_id), "mine")).status_code == 200


async def test_a_client_that_the_operator_does_not_let_in_gets_no_page_to_ask_on(
    builtin_app: BuiltinApp, alice: Browser, client_id: str, http: httpx2.AsyncClient
) -> None:
    await builtin_app.restart(allowed_clients="claude.ai, *.example.org")
    allowed = await builtin_app.register(http, redirect_uris=["https://claude.ai/api/mcp/auth_callback"])

    refused = await alice.open(builtin_app.authorize_url(client_id))
    mixed = await builtin_app.register(
        http, redirect_uris=["https://claude.ai/cb", "https://evil.example/cb"]
    )

    assert refused.status_code == 403
    assert "not allowed here" in refused.text
    assert (
        await alice.open(builtin_app.authorize_url(mixed["client_id"], redirect_uri="https://claude.ai/cb"))
    ).status_code == 403
    assert (
        await alice.open(
            builtin_app.authorize_url(
                allowed["client_id"], redirect_uri="https://claude.ai/api/mcp/auth_callback"
            )
        )
    ).status_code == 200


@pytest.mark.parametrize(
    ("area", "status", "page"), [("oauth2", 503, 503), ("ocs", 503, 503), ("oauth2", 429, 503)]
)
async def test_a_nextcloud_that_fails_in_the_middle_leaves_nothing_and_says_so(
    *,
    builtin_app: BuiltinApp,
    alice: Browser,
    client_id: str,
    area: FaultArea,
    status: FaultStatus,
    page: int,
) -> None:
    back = await alice.from_nextcloud(await alice.to_nextcloud(client_id))
    builtin_app.sandbox.faults.status(status, area=area)

    failed = await alice.refused(back)
    builtin_app.sandbox.faults.clear()

    assert failed.status_code == page
    assert "Nothing was connected" in failed.text
    if area == "ocs":
        await nothing_is_left(builtin_app)


async def test_a_lost_response_of_nextcloud_connects_no_user_and_the_next_try_works(
    builtin_app: BuiltinApp, alice: Browser, client_id: str
) -> None:
    back = await alice.from_nextcloud(await alice.to_nextcloud(client_id))
    builtin_app.sandbox.faults.lost_body(area="oauth2")

    failed = await alice.refused(back)

    assert failed.status_code == 502
    assert "Nothing was connected" in failed.text
    assert (await alice.refused(back)).status_code == 403
    assert (await alice.press(await alice.welcomed(client_id), "mine")).status_code == 200


async def test_what_waits_for_an_answer_outlives_a_restart_of_the_server(
    builtin_app: BuiltinApp, alice: Browser, client_id: str, http: httpx2.AsyncClient
) -> None:
    form = await alice.open(builtin_app.authorize_url(client_id))
    await builtin_app.restart()
    url = redirect_target(await alice.press(form, "allow", **{"allow.notes": "read"}))
    await builtin_app.restart()
    back = await alice.open(await alice.from_nextcloud(url))
    await builtin_app.restart()
    welcome = await alice.open(back.headers["Location"])
    await builtin_app.restart()

    sent = await alice.press(welcome, "mine")

    assert (
        await builtin_app.exchange_code(http, client_id, code_in(redirect_target(sent)))
    ).status_code == 200


async def test_wrong_codes_are_sent_so_seldom_that_nextcloud_goes_on_answering_the_others(
    builtin_app: BuiltinApp, client_id: str
) -> None:
    statuses: list[int] = []
    for letter in "abcd":
        async with browser(builtin_app, "alice") as stranger:
            for number in range(3):
                state = query_of(await stranger.to_nextcloud(client_id))["state"][0]
                answer = {"state": state, "code": f"{letter}{number}" * 64}
                failed = await stranger.refused(f"/oauth/callback/nextcloud?{urlencode(answer)}")
                statuses.append(failed.status_code)

    # All of them come from one network.
    assert token_requests(builtin_app) == 2
    assert statuses.count(403) == 2
    assert statuses.count(503) == 10


async def test_disconnecting_on_the_page_ends_the_clients_tokens_too(
    builtin_app: BuiltinApp, alice: Browser, http: httpx2.AsyncClient
) -> None:
    tokens = await builtin_app.sign_in(alice.person, http)
    await alice.person.consent(f"{builtin_app.url}/account")
    page = await alice.open("/account")
    csrf = re.findall(r'name="csrf" value="([^"]+)"', page.text)[-1]

    await alice.http.post(f"{builtin_app.url}/account/disconnect", data={"csrf": csrf}, headers=OURS)

    await nothing_is_left(builtin_app)
    refused = await http.post(
        f"{builtin_app.url}/token",
        data={
            "grant_type": "refresh_token",
            "refresh_token": tokens["refresh_token"],
            "client_id": tokens["client_id"],
        },
    )
    assert refused.json()["error"] == "invalid_grant"


async def test_one_app_is_signed_out_and_what_it_may_do_stays(
    builtin_app: BuiltinApp, alice: Browser, http: httpx2.AsyncClient
) -> None:
    tokens = await builtin_app.sign_in(alice.person, http)
    await alice.person.consent(f"{builtin_app.url}/account")
    page = await alice.open("/account")
    csrf = re.findall(r'name="csrf" value="([^"]+)"', page.text)[-1]
    assert "Signed in" in page.text

    await alice.http.post(
        f"{builtin_app.url}/account/sign-out-app",
        data={"csrf": csrf, "client": tokens["client_id"]},
        headers=OURS,
    )

    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert (await http.post(f"{builtin_app.url}/mcp", json=ping, headers=headers)).status_code == 401
    assert chosen_in((await alice.open("/account")).text) == ["notes:read"]
    assert builtin_app.connected() == ["alice"]


async def test_a_client_that_is_barred_later_gets_no_new_tokens(
    builtin_app: BuiltinApp, alice: Browser, http: httpx2.AsyncClient
) -> None:
    tokens = await builtin_app.sign_in(alice.person, http)

    await builtin_app.restart(denied_clients="localhost")

    refused = await http.post(
        f"{builtin_app.url}/token",
        data={
            "grant_type": "refresh_token",
            "refresh_token": tokens["refresh_token"],
            "client_id": tokens["client_id"],
        },
    )
    assert (refused.status_code, refused.json()["error"]) == (400, "unauthorized_client")


@pytest.mark.parametrize("way", ["sign-out-everywhere", "disconnect", "app", "sign-out-app"])
async def test_a_page_that_was_left_open_somewhere_gives_no_code_after_everything_was_ended(
    builtin_app: BuiltinApp, alice: Browser, client_id: str, way: str
) -> None:
    """Another user may sit at that computer by now, and could go on for a client of their own."""
    left_open = await alice.welcomed(client_id)
    await alice.press(left_open, "mine")
    async with browser(builtin_app, "alice") as elsewhere:
        await elsewhere.person.consent(f"{builtin_app.url}/account")
        page = await elsewhere.open("/account")
        csrf = re.findall(r'name="csrf" value="([^"]+)"', page.text)[-1]
        form = {"csrf": csrf, "client": client_id, "do": "remove"}
        ended = await elsewhere.http.post(f"{builtin_app.url}/account/{way}", data=form, headers=OURS)
        assert ended.status_code in {200, 303}, ended.text

    refused = await alice.press(left_open, "mine")

    assert refused.status_code == 403
    assert "code=" not in refused.text
