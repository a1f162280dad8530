"""The pages between a chat client and its code, in hostile hands."""

import re
from collections.abc import AsyncGenerator
from urllib.parse import urlencode

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.document import Document
from tests.access_fields import choices_in, chosen_in
from tests.integration.builtin_app import CALLBACK, BuiltinApp, open_builtin_app, query_of

HTML = {"Accept": "text/html"}
OURS = {**HTML, "Sec-Fetch-Site": "same-origin"}
APP = "https://app.example.org/oauth/client.json"


@pytest.fixture(scope="module")
async def builtin_app(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path_factory.mktemp("builtin")) as opened:
        yield opened


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60, headers=HTML) as client:
        yield client


@pytest.fixture
async def client_id(builtin_app: BuiltinApp, http: httpx2.AsyncClient) -> str:
    return str((await builtin_app.register(http))["client_id"])


def form_of(page: httpx2.Response) -> dict[str, str]:
    (form,) = Document.read(page.text).forms
    return {one.name: one.value for one in form.fields if not one.is_choice}


async def test_the_page_says_who_asks_where_it_leads_and_what_it_wants(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str
) -> None:
    page = await http.get(builtin_app.authorize_url(client_id))

    document = Document.read(page.text)
    assert page.status_code == 200
    assert "no authority vouches for it" in document.text
    assert "a program on this computer" in document.text
    assert chosen_in(page.text) == []
    assert choices_in(page.text) == ["notes:read", "notes:change", "files:read", "files:change"]


async def test_a_client_with_a_document_is_named_by_the_host_that_vouches_for_it(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    builtin_app.documents[APP] = {
        "client_id": APP,
        "client_name": "App",
        "redirect_uris": ["https://elsewhere.example.net/callback", "cursor://app/callback"],
    }
    uri = "https://elsewhere.example.net/callback"

    web = Document.read((await http.get(builtin_app.authorize_url(APP, redirect_uri=uri))).text)
    native = Document.read(
        (await http.get(builtin_app.authorize_url(APP, redirect_uri="cursor://app/callback"))).text
    )

    assert "app.example.org" in web.text.replace("\u200b", "")
    assert "elsewhere.example.net" in web.text
    assert "opens cursor: links" in native.text
    assert "Go on only if" in native.text
    assert "Go on only if" not in web.text


async def test_a_host_too_long_for_the_page_shows_whose_it_is(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    """The page cut a long host at its end, which left the name of another host."""
    host = f"claude.ai.{'x' * 60}.evil.example"
    registered = await builtin_app.register(http, redirect_uris=[f"https://{host}/callback"])
    document = f"https://{host}/client.json"
    builtin_app.documents[document] = {
        "client_id": document,
        "client_name": "App",
        "redirect_uris": [f"https://{host}/callback"],
    }

    texts = [
        Document.read(
            (
                await http.get(builtin_app.authorize_url(str(one), redirect_uri=f"https://{host}/callback"))
            ).text
        ).text.replace(" ", "")
        for one in (registered["client_id"], document)
    ]

    assert [text.count(".evil.example") for text in texts] == [1, 2]
    assert not any("claude.ai" in text for text in texts)


async def test_marks_on_a_name_cover_no_other_line_of_the_page(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    registered = await builtin_app.register(http, client_name="A" + "\u030d\u0489" * 40)

    page = await http.get(builtin_app.authorize_url(str(registered["client_id"])))

    assert page.status_code == 200
    assert "A\u030d\u0489\u030d\u0489" in page.text
    assert "\u030d\u0489" * 3 not in page.text


@pytest.mark.parametrize(
    ("scope", "offered"),
    [
        ("notes:read", ["notes:read"]),
        ("notes:write openid offline_access", ["notes:change-only"]),
        ("openid profile email offline_access", ["notes:read", "notes:change", "files:read", "files:change"]),
        ("", ["notes:read", "notes:change", "files:read", "files:change"]),
    ],
)
async def test_what_is_asked_for_is_offered_and_nothing_is_chosen_beforehand(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str, scope: str, offered: list[str]
) -> None:
    page = await http.get(builtin_app.authorize_url(client_id, scope=scope))

    assert choices_in(page.text) == offered
    assert chosen_in(page.text) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"client_id": None},
        {"client_id": "mcp-unknown"},
        {"client_id": "https://app.example.org/not-there.json"},
        {"client_id": "https://127.0.0.1/client.json"},
        {"client_id": "http://app.example.org/client.json"},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "http://127.0.0.1:9/callback/../evil"},
        {"redirect_uri": f"{CALLBACK}?more=1"},
        {"redirect_uri": "http://127.0.0.1.evil.example/callback"},
        {"redirect_uri": "//evil.example"},
        {"redirect_uri": "javascript:alert(1)"},
        {"state": "x" * 5_000},
    ],
)
async def test_no_browser_is_redirected_to_an_unregistered_url(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str, fields: dict[str, str | None]
) -> None:
    page = await http.get(builtin_app.authorize_url(**{"client_id": client_id, **fields}))

    assert page.status_code in {400, 403}
    assert "Location" not in page.headers
    assert "Refresh" not in page.headers
    assert "evil" not in page.text
    assert "text/html" in page.headers["Content-Type"]
    assert [link for link in Document.read(page.text).links if link.startswith(("http", "//", "java"))] == []


@pytest.mark.parametrize("name", ["client_id", "redirect_uri", "state"])
async def test_what_decides_where_an_answer_goes_may_not_be_there_twice(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str, name: str
) -> None:
    page = await http.get(f"{builtin_app.authorize_url(client_id)}&{urlencode({name: 'again'})}")

    assert page.status_code == 400
    assert CALLBACK not in page.text


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"response_mode": "form_post"}, "invalid_request"),
        ({"request_uri": "https://evil.example/request"}, "request_not_supported"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"resource": "https://evil.example/mcp"}, "invalid_target"),
        ({"prompt": "none"}, "interaction_required"),
    ],
)
async def test_what_a_client_does_not_get_it_is_told_when_its_person_goes_back_and_not_before(
    builtin_app: BuiltinApp,
    http: httpx2.AsyncClient,
    client_id: str,
    fields: dict[str, str | None],
    error: str,
) -> None:
    page = await http.get(builtin_app.authorize_url(client_id, **{"state": "mine", **fields}))

    (back,) = [link for link in Document.read(page.text).links if link.startswith(CALLBACK)]
    assert page.status_code == 400
    assert "Location" not in page.headers
    assert "Refresh" not in page.headers
    told = query_of(back)
    assert (told["error"], told["state"], told["iss"]) == ([error], ["mine"], [builtin_app.url])


async def test_something_said_twice_is_told_to_the_client(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str
) -> None:
    url = f"{builtin_app.authorize_url(client_id)}&scope=notes:read&scope=files:read"

    assert "error=invalid_request" in (await http.get(url)).text


async def test_a_client_may_name_our_resource_more_than_once_and_with_a_slash(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str
) -> None:
    url = f"{builtin_app.authorize_url(client_id)}&{urlencode({'resource': f'{builtin_app.url}/mcp/'})}"

    assert (await http.get(url)).status_code == 200


async def test_any_port_of_this_computer_is_the_registered_one_and_one_redirect_need_not_be_named(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str
) -> None:
    other_port = await http.get(
        builtin_app.authorize_url(client_id, redirect_uri="http://127.0.0.1:54321/callback")
    )
    unnamed = await http.get(builtin_app.authorize_url(client_id, redirect_uri=None))
    several = await builtin_app.register(http, redirect_uris=[CALLBACK, "https://claude.ai/cb"])
    ambiguous = await http.get(builtin_app.authorize_url(several["client_id"], redirect_uri=None))

    assert (other_port.status_code, unnamed.status_code, ambiguous.status_code) == (200, 200, 400)


async def test_declining_answers_the_client_and_asks_nextcloud_nothing(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str
) -> None:
    page = await http.get(builtin_app.authorize_url(client_id, state="a b&c=d\u00e9\r\nX: y"))
    before = builtin_app.sandbox.requests.total

    told = await http.post(
        f"{builtin_app.url}/authorize", data={**form_of(page), "answer": "deny"}, headers=OURS
    )

    back = told.headers["Refresh"].partition("url=")[2]
    assert told.status_code == 200
    assert query_of(back) == {
        "error": ["access_denied"],
        "state": ["a b&c=d\u00e9\r\nX: y"],
        "iss": [builtin_app.url],
    }
    assert builtin_app.sandbox.requests.total == before


async def test_the_longest_state_in_any_script_survives_the_form(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str
) -> None:
    state = "\U0001f600" * 500
    page = await http.get(builtin_app.authorize_url(client_id, state=state))

    told = await http.post(
        f"{builtin_app.url}/authorize", data={**form_of(page), "answer": "deny"}, headers=OURS
    )

    # Too long for a header by itself, so that the user presses the button.
    assert "Refresh" not in told.headers
    (link,) = [link for link in Document.read(told.text).links if "state=" in link]
    assert query_of(link)["state"] == [state]


@pytest.mark.parametrize("answer", ["allow", "none", ""])
async def test_everything_off_and_enter_in_a_choice_allow_nothing(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str, answer: str
) -> None:
    page = await http.get(builtin_app.authorize_url(client_id))

    again = await http.post(
        f"{builtin_app.url}/authorize", data={**form_of(page), "answer": answer}, headers=OURS
    )

    assert "Refresh" not in again.headers
    assert ("Everything is off" in again.text) == (answer == "allow")


@pytest.mark.parametrize(
    "headers",
    [
        HTML,
        {**HTML, "Sec-Fetch-Site": "cross-site"},
        {**HTML, "Sec-Fetch-Site": "same-site"},
        {**HTML, "Sec-Fetch-Site": "none"},
        {**HTML, "Origin": "https://evil.example"},
        {**HTML, "Origin": "null"},
    ],
)
@pytest.mark.parametrize("path", ["/authorize", "/authorize/confirm"])
async def test_a_form_that_another_page_sends_does_nothing(
    *, builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str, headers: dict[str, str], path: str
) -> None:
    page = await http.get(builtin_app.authorize_url(client_id))
    fields = {**form_of(page), "answer": "allow", "allow.notes": "read", "transaction": "a" * 32}

    refused = await http.post(f"{builtin_app.url}{path}", data=fields, headers=headers)

    assert refused.status_code == 403
    assert "Refresh" not in refused.headers


@pytest.mark.parametrize("change", ["request", "csrf", "both", "old"])
async def test_a_form_that_was_changed_or_is_old_does_nothing(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str, change: str
) -> None:
    fields = {
        **form_of(await http.get(builtin_app.authorize_url(client_id))),
        "answer": "allow",
        "allow.notes": "read",
    }
    other = form_of(await http.get(builtin_app.authorize_url(client_id, scope="notes:read")))
    ahead = builtin_app.clock.ahead
    match change:
        case "request":
            fields["request"] = other["request"]
        case "csrf":
            fields["csrf"] = "0" * 64
        case "both":
            fields |= {"request": "AAAA", "csrf": other["csrf"]}
        case _:
            builtin_app.clock.ahead += ahead.__class__(minutes=31)
    try:
        refused = await http.post(f"{builtin_app.url}/authorize", data=fields, headers=OURS)
    finally:
        builtin_app.clock.ahead = ahead

    assert refused.status_code == 403


async def test_two_windows_with_two_questions_are_answered_each_for_itself(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str
) -> None:
    first = form_of(await http.get(builtin_app.authorize_url(client_id, state="first")))
    second = form_of(await http.get(builtin_app.authorize_url(client_id, state="second")))

    for fields, state in ((second, "second"), (first, "first")):
        told = await http.post(
            f"{builtin_app.url}/authorize", data={**fields, "answer": "deny"}, headers=OURS
        )
        assert query_of(told.headers["Refresh"].partition("url=")[2])["state"] == [state]


async def test_a_client_whose_document_changes_meanwhile_is_looked_at_once_more(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    url = "https://changing.example.org/client.json"
    old = {"client_id": url, "client_name": "Changing", "redirect_uris": [CALLBACK]}
    builtin_app.documents[url] = old
    fields = form_of(await http.get(builtin_app.authorize_url(url)))
    builtin_app.documents[url] = {**old, "redirect_uris": ["https://elsewhere.example.org/cb"]}
    builtin_app.clock.ahead += builtin_app.clock.ahead.__class__(hours=2)
    await builtin_app.restart()
    moved = await http.get(builtin_app.authorize_url(url))
    builtin_app.clock.ahead -= builtin_app.clock.ahead.__class__(hours=2)

    refused = await http.post(
        f"{builtin_app.url}/authorize",
        data={**fields, "answer": "allow", "allow.notes": "read"},
        headers=OURS,
    )

    assert moved.status_code == 400
    assert refused.status_code == 400
    assert "cannot be trusted" in refused.text


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", "\u202egpj.live", "x" * 300, "Claude\r\nSet-Cookie: a=b", "", "{{ 7*7 }}"],
)
async def test_a_name_can_make_the_page_say_nothing_else(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, name: str
) -> None:
    client_id = str((await builtin_app.register(http, client_name=name))["client_id"])

    page = await http.get(builtin_app.authorize_url(client_id))

    assert page.status_code == 200
    assert "<script" not in page.text
    assert "\u202e" not in page.text
    assert "x" * 70 not in page.text
    assert "49 wants" not in Document.read(page.text).heading
    assert page.headers.get_list("set-cookie")[0].startswith("browser=")


@pytest.mark.parametrize("name", ["CLAUD\u039e", "CL\u2206UDE", "CL\u2200UDE", "Claud\u2203"])
async def test_a_name_written_with_signs_in_place_of_letters_is_marked(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, name: str
) -> None:
    client_id = (await builtin_app.register(http, client_name=name))["client_id"]

    page = await http.get(builtin_app.authorize_url(client_id))

    assert 'role="alert"' in page.text


async def test_looking_at_a_link_has_no_effect(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str
) -> None:
    before = builtin_app.sandbox.requests.total

    for _ in range(3):
        await http.get(builtin_app.authorize_url(client_id))
    head = await http.head(builtin_app.authorize_url(client_id))

    assert builtin_app.sandbox.requests.total == before
    assert head.status_code == 405


@pytest.mark.parametrize("auth_transaction", ["", "a", "a" * 32, "../../x", "a" * 4_000])
async def test_a_transaction_of_no_user_is_shown_to_no_browser(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, auth_transaction: str
) -> None:
    page = await http.get(f"{builtin_app.url}/authorize/confirm", params={"transaction": auth_transaction})

    assert page.status_code == 403
    assert "This browser connected nothing" in page.text


async def test_the_pages_speak_german_too(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str
) -> None:
    page = await http.get(builtin_app.authorize_url(client_id), headers={"Accept-Language": "de"})

    assert re.search('<html lang="de">', page.text)
    assert "möchte" in page.text
