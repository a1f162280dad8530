"""What a user sees, changes and ends on the account page."""

import re
from dataclasses import replace
from datetime import timedelta

import httpx2
import pytest

from nextcloud_mcp_server.storage.crypto import hash_of
from tests.access_fields import chosen_in, fields_for
from tests.multi_user_pages import HOST, MultiUserPages, checks, sign_in, target_of

ACCOUNT = "/account"


async def send(browser: httpx2.AsyncClient, path: str, /, **fields: str | list[str]) -> httpx2.Response:
    page = await browser.get(ACCOUNT)
    return await browser.post(f"{ACCOUNT}/{path}", data={"csrf": checks(page)[0], **fields})


async def test_a_user_without_a_session_signs_in_and_returns_to_the_page(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    page = await people.get(ACCOUNT)
    await people.post("/account/sign-in")
    redirect_target = target_of(await people.get("/oauth/sign-in"))
    params = consent_service.signed_in_at(redirect_target, "alice")
    back = await people.get("/oauth/callback/sign-in", params=params)

    assert "Sign in to see which apps" in page.text
    assert back.headers["location"] == ACCOUNT


async def test_a_signed_in_user_need_not_sign_in_again(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)

    response = await people.post("/account/sign-in")

    assert response.headers["location"] == ACCOUNT
    assert consent_service.statements.changes == []


async def test_calls_of_tools_without_an_underscore_are_shown_and_consents_are_not(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client(recent=consent_service.did("fetch", "search", "consent", "refresh"))
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    assert "<span>Searched notes and files</span>" in page.text
    assert "<span>Read a note or file</span>" in page.text
    assert "<bdi>consent</bdi>" not in page.text
    assert "<bdi>refresh</bdi>" not in page.text


async def test_each_app_is_shown_with_what_it_may_do_since_when_and_what_it_did(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client(
        recent=consent_service.did("nc_notes_get_note", "nc_notes_update_note", "nc_new_tool")
    )
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    assert "<h2><bdi>Claude Code</bdi></h2>" in page.text
    assert chosen_in(page.text) == ["notes:change", "files:read"]
    assert re.findall(r"<time[^>]*>([^<]+)</time>", page.text) == [
        "on 3 March 2026",
        # Its newest action is later than what the permission says.
        "just now",
        "just now",
        "1 hour ago",
        "2 hours ago",
        # This browser's sign-in.
        "just now",
        "just now",
    ]
    assert 'title="2026-06-11 10:42 UTC"' in page.text
    assert "signed in <time" in page.text
    assert "<span>Read a note</span>" in page.text
    assert '<li class="care">' in page.text
    assert "<span><bdi>nc_new_tool</bdi></span>" in page.text
    assert "<bdi>alice</bdi> on <bdi>cloud.example.org</bdi>" in page.text


async def test_what_did_not_work_says_so_and_what_is_no_tool_is_left_out(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client(
        recent=(
            *consent_service.did("nc_notes_get_note", result="NotFound"),
            *consent_service.did("permission"),
        )
    )
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    assert "Read a note <small>did not work</small>" in page.text
    assert "permission" not in page.text


async def test_a_line_names_its_object_escaped_and_with_hidden_characters_shown(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    [read, changed] = consent_service.did("nc_notes_get_note", "nc_notes_update_note")
    await consent_service.client(
        recent=(
            replace(read, object_name="<b>Shop\u202e\nping</b>"),
            replace(changed, object_name="Budget.md"),
        )
    )
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    shown = "&lt;b&gt;Shop&lt;U+202E&gt;&lt;U+000A&gt;ping&lt;/b&gt;"
    assert f"<span>Read a note: <bdi>{shown}</bdi></span>" in page.text
    assert ": <bdi>Budget.md</bdi></span>" in page.text


async def test_an_app_with_a_recent_action_is_not_said_to_be_unused(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    recent = consent_service.did("nc_notes_get_note")
    await consent_service.client(last_used_at=None, recent=recent)
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    assert "not used yet" not in page.text
    assert "last used <time" in page.text


async def test_to_disconnect_one_app_asks_once(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    question = page.text[page.text.index("Disconnect…</summary>") :]
    assert question.index("would have to ask you for everything again") < question.index('value="remove"')
    assert page.text.count('value="remove"') == 1


async def test_a_success_is_not_shown_as_a_warning(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await sign_in(people, consent_service)

    await send(people, "app", client="claude", do="pause")
    page = await people.get(ACCOUNT)

    assert '<p class="notice good" role="status">Paused.' in page.text


@pytest.mark.parametrize(
    ("ago", "english", "german"),
    [
        (timedelta(seconds=59), "just now", "gerade eben"),
        (timedelta(seconds=-5), "just now", "gerade eben"),
        (timedelta(minutes=1), "1 minute ago", "vor 1 Minute"),
        (timedelta(hours=23), "23 hours ago", "vor 23 Stunden"),
        (timedelta(days=1), "1 day ago", "vor 1 Tag"),
        (timedelta(days=6), "6 days ago", "vor 6 Tagen"),
        (timedelta(days=7), "on 4 June 2026", "am 4. Juni 2026"),
    ],
)
async def test_a_time_is_said_as_people_say_it(
    people: httpx2.AsyncClient,
    consent_service: MultiUserPages,
    ago: timedelta,
    english: str,
    german: str,
) -> None:
    await consent_service.client(last_used_at=consent_service.clock() - ago)
    await sign_in(people, consent_service)

    pages = [await people.get(ACCOUNT, headers={"Accept-Language": language}) for language in ("en", "de")]

    assert "last used <time" in pages[0].text
    assert f">{english}</time>" in pages[0].text
    assert f">{german}</time>" in pages[1].text


async def test_two_apps_of_one_name_are_told_apart_by_what_they_are_known_as(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client(client_id="https://one.example/client.json")
    await consent_service.client(client_id="https://two.example/client.json")
    await consent_service.client(client_id="code", name="VS Code", last_used_at=None)
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    assert re.findall(r"<small><bdi>([^<]+)</bdi></small>", page.text) == [
        "https://one.example/client.json",
        "https://two.example/client.json",
    ]
    assert "not used yet" in page.text


async def test_a_user_without_a_connection_is_told_how_it_begins(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    assert "No app is connected" in page.text
    assert "No account on <bdi>cloud.example.org</bdi> is connected." in page.text
    assert "Disconnect everything" not in page.text


async def test_a_key_that_nextcloud_refuses_is_explained(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await consent_service.refuse_credential()
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    assert "Nextcloud does not accept the key any more" in page.text


async def test_switches_are_saved_and_the_next_page_says_so_once(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await sign_in(people, consent_service)

    answer = await send(
        people, "app", client="claude", do="save", **fields_for("notes:read", "files:write", "admin")
    )
    first, second = await people.get(ACCOUNT), await people.get(ACCOUNT)

    assert (answer.status_code, answer.headers["location"]) == (303, ACCOUNT)
    assert consent_service.clients["alice", "claude"].scopes == {"notes:read", "files:write"}
    assert "Saved. It counts from now on." in first.text
    assert "Saved." not in second.text


async def test_an_app_without_any_permission_is_shown_as_one_that_may_do_nothing(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await sign_in(people, consent_service)

    await send(people, "app", client="claude", do="save")
    page = await people.get(ACCOUNT)

    assert "It may do nothing at the moment." in page.text


async def test_an_app_is_paused_and_goes_on(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await sign_in(people, consent_service)

    await send(people, "app", client="claude", do="pause")
    paused = await people.get(ACCOUNT)
    await send(people, "app", client="claude", do="resume")
    going_on = await people.get(ACCOUNT)

    assert '<span class="chip care">Paused</span>' in paused.text
    assert "While it is paused, it can do nothing." in paused.text
    assert '<span class="chip">Active</span>' in going_on.text
    assert not consent_service.clients["alice", "claude"].paused


async def test_one_app_is_disconnected_and_the_others_stay(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await consent_service.client(client_id="code", name="VS Code")
    await sign_in(people, consent_service)

    await send(people, "app", client="claude", do="remove")
    page = await people.get(ACCOUNT)

    assert list(consent_service.clients) == [("alice", "code")]
    assert "Disconnected. The app can do nothing any more." in page.text


@pytest.mark.parametrize("do", ["nothing", "destroy", ["save", "remove"]])
async def test_any_other_button_changes_nothing(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, do: str | list[str]
) -> None:
    await consent_service.client()
    await sign_in(people, consent_service)

    response = await send(people, "app", client="claude", do=do)

    assert response.headers["location"] == ACCOUNT
    assert consent_service.statements.changes == []


@pytest.mark.parametrize("client", ["", "x" * 3_000, ["claude", "claude"], "unknown"])
async def test_an_app_that_is_not_there_cannot_be_changed(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, client: str | list[str]
) -> None:
    await consent_service.client()
    await sign_in(people, consent_service)

    response = await send(people, "app", client=client, do="remove")

    assert response.status_code == 400
    assert 'href="/account">Try again' in response.text
    assert list(consent_service.clients) == [("alice", "claude")]


@pytest.mark.parametrize(
    ("at_nextcloud", "sentence"),
    [
        (True, "the key is deleted at Nextcloud too"),
        (False, "Nextcloud has not confirmed it yet"),
    ],
)
async def test_everything_is_disconnected_and_the_page_tells_what_nextcloud_said(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, *, at_nextcloud: bool, sentence: str
) -> None:
    await consent_service.client()
    await consent_service.client("bob")
    if not at_nextcloud:
        consent_service.break_nextcloud(lambda request: httpx2.ConnectError("refused", request=request))
    await sign_in(people, consent_service)

    await send(people, "disconnect")
    page = await people.get(ACCOUNT)

    assert sentence in page.text
    assert consent_service.connected == {"bob": "bob"}


async def test_signing_out_ends_this_session_only(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    other = await consent_service.session("alice")
    await sign_in(people, consent_service)

    await send(people, "sign-out")
    page = await people.get(ACCOUNT)

    assert consent_service.sessions == {hash_of(other)}
    assert "You are signed out here." in page.text
    assert "__Host-session" not in people.cookies


async def test_signing_out_everywhere_ends_every_session_of_this_person(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.session("alice")
    bob = await consent_service.session("bob")
    await sign_in(people, consent_service)

    await send(people, "sign-out-everywhere")
    page = await people.get(ACCOUNT)

    assert consent_service.sessions == {hash_of(bob)}
    assert "in every browser" in page.text


@pytest.mark.parametrize("path", ["app", "disconnect", "sign-out", "sign-out-everywhere"])
async def test_a_form_of_who_was_signed_out_meanwhile_leads_to_the_way_in(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str
) -> None:
    await consent_service.client()
    token = await sign_in(people, consent_service)
    page = await people.get(ACCOUNT)
    await consent_service.database.sign_ins.delete(token)

    response = await people.post(
        f"/account/{path}", data={"csrf": checks(page)[0], "client": "claude", "do": "remove"}
    )

    assert response.headers["location"] == ACCOUNT
    assert list(consent_service.clients) == [("alice", "claude")]


async def test_a_made_up_sentence_is_not_said(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    people.cookies.set("__Host-message", "hacked", domain=HOST)

    page = await people.get(ACCOUNT)

    assert page.status_code == 200
    assert 'role="status"' not in page.text


async def test_apps_that_are_signed_in_are_shown_apart_and_signed_out_one_by_one(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await consent_service.app()
    await consent_service.app(client_id="mcp-2", name="ChatGPT")
    await consent_service.app("bob", "mcp-3", name="Codex")
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)
    back = await send(people, "sign-out-app", client="mcp-2")
    told = await people.get(ACCOUNT)

    assert re.findall(r'<span id="app-\d"><bdi>([^<]+)', page.text) == ["Claude Code", "ChatGPT"]
    assert back.headers["location"] == ACCOUNT
    assert "The app has to sign in again." in told.text
    assert consent_service.apps == {("alice", "claude"), ("bob", "mcp-3")}
    assert set(consent_service.clients) == {("alice", "claude"), ("alice", "mcp-2"), ("bob", "mcp-3")}


async def test_apps_of_one_name_are_told_apart_by_their_ids(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.app(client_id="mcp-1")
    await consent_service.app(client_id="mcp-2")
    await consent_service.app(client_id="mcp-3", name="\u202e")
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    assert re.findall(r"<small><bdi>(mcp-\d)</bdi> ·", page.text) == ["mcp-1", "mcp-2"]
    assert "An assistant" in page.text or "an assistant" in page.text


@pytest.mark.parametrize("client", ["", "x" * 2_049])
async def test_a_form_that_names_no_app_signs_none_out(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, client: str
) -> None:
    await consent_service.app()
    await sign_in(people, consent_service)

    page = await send(people, "sign-out-app", client=client)

    assert page.status_code == 400
    assert "Nothing was changed" in page.text
    assert consent_service.apps == {("alice", "claude")}


async def test_a_client_of_another_user_stays_signed_in(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.app("bob", "mcp-of-somebody-else")
    await sign_in(people, consent_service)

    await send(people, "sign-out-app", client="mcp-of-somebody-else")

    assert consent_service.apps == {("bob", "mcp-of-somebody-else")}


async def test_where_apps_are_signed_in_signing_out_everywhere_says_that_they_are_too(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)
    without = await people.get(ACCOUNT)
    await consent_service.app()

    page = await people.get(ACCOUNT)

    assert "Your apps stay connected." in without.text
    assert "and those of your apps" in page.text


async def test_each_browser_is_shown_with_its_place_and_ended_alone(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    here = await sign_in(people, consent_service)
    there = await consent_service.session(place="192.0.2.0/24")
    bobs = await consent_service.session("bob")

    page = await people.get(ACCOUNT)
    foreign = await send(people, "end-sign-in", browser=hash_of(bobs))
    ended = await send(people, "end-sign-in", browser=hash_of(there))
    told = await people.get(ACCOUNT)

    assert "192.0.2.0/24" in page.text
    assert page.text.count("this browser</span>") == 1
    assert hash_of(bobs) not in page.text
    assert (foreign.status_code, ended.status_code) == (303, 303)
    assert consent_service.sessions == {hash_of(here), hash_of(bobs)}
    assert "That browser is signed out." in told.text
    assert "192.0.2.0/24" not in told.text


async def test_ending_this_browsers_sign_in_signs_out_here(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    here = await sign_in(people, consent_service)

    await send(people, "end-sign-in", browser=hash_of(here))

    assert consent_service.sessions == set()
    assert "Sign in" in (await people.get(ACCOUNT)).text
    assert not any(name.endswith("session") for name in people.cookies)


@pytest.mark.parametrize(("days", "told"), [(1, True), (6, True), (8, False)])
async def test_a_client_that_was_connected_lately_is_pointed_out(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, days: int, *, told: bool
) -> None:
    await consent_service.client(granted_at=consent_service.clock() - timedelta(days=days))
    await sign_in(people, consent_service)

    page = await people.get(ACCOUNT)

    assert ("New: <bdi>Claude Code</bdi> was connected <time" in page.text) == told
