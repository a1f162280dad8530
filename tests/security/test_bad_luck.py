"""Lost answers, refused credentials and hostile shapes."""

import time
from functools import partial
from typing import Any

import pytest
from anyio import to_thread
from mcp.client.client import Client
from mcp_types import TextContent

from nextcloud_mcp_server.apps.notes.tools import notes
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.commands import keys
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.sandbox.person import Page, Person
from nextcloud_mcp_server.settings.environment import load
from nextcloud_mcp_server.tools import answer
from tests.integration.personal_app import Asked, PersonalApp

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("nc_notes_create_note", {"title": "Twice?"}),
    ("nc_notes_append_content", {"content": "Twice?"}),
    ("nc_notes_update_note", {"favorite": True}),
    ("nc_notes_delete_note", {}),
]


def all_of_it(person: Person) -> Any:  # noqa: ANN401 - a callback
    async def go(url: str) -> Page:
        return await person.allow(url, only=list(SCOPES))

    return go


async def first_note(client: Client) -> int:
    listed = await client.call_tool("nc_notes_list_notes", {})
    assert listed.structured_content is not None
    return listed.structured_content["notes"][0]["id"]


async def connected(personal_app: PersonalApp) -> bool:
    """Tell whether every stored credential may still be used."""
    assert personal_app.parts is not None
    grants = (await personal_app.parts.services.get()).database.grants
    return not any(grant.credential.needs_reauth for grant in await grants.all())


async def test_a_note_whose_answer_was_lost_is_not_said_to_be_untouched(
    personal_app: PersonalApp, asked: Asked
) -> None:
    """ "Try again" would make the note, or the line in it, twice."""
    said: list[str] = []
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(all_of_it(alice))) as client,
    ):
        note_id = await first_note(client)
        for name, arguments in WRITES:
            methods = frozenset({"POST", "PUT", "DELETE"})
            personal_app.sandbox.faults.lost_body(area="notes", methods=methods)
            given = arguments if "title" in arguments else {"note_id": note_id, **arguments}
            result = await client.call_tool(name, given)
            assert result.is_error
            said += [block.text for block in result.content if isinstance(block, TextContent)]

    assert len(said) == len(WRITES)
    assert all("it may have happened" in sentence for sentence in said), said
    assert not any("Try again" in sentence for sentence in said), said


async def test_a_revoked_credential_is_sent_twice_at_most_although_the_apps_are_not_known_yet(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await first_note(client)
    await personal_app.stop()
    await personal_app.start()
    personal_app.sandbox.state.app_passwords.clear()
    personal_app.sandbox.requests.clear()

    async with personal_app.client() as client:
        refused = [await client.call_tool("nc_notes_list_notes", {}) for _ in range(3)]

    assert all(result.is_error for result in refused)
    # The second one confirms the refusal.
    assert [record.status for record in personal_app.sandbox.requests.records].count(401) == 2


async def test_a_refusal_of_the_question_for_apps_alone_ends_nothing(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await first_note(client)
    await personal_app.stop()
    await personal_app.start()
    personal_app.sandbox.faults.status(401, area="ocs")
    personal_app.sandbox.requests.clear()

    async with personal_app.client() as client:
        first = await client.call_tool("nc_notes_list_notes", {})
        second = await client.call_tool("nc_notes_list_notes", {})

    assert not first.is_error
    # Nextcloud takes the access elsewhere, so one route's refusal does not end it.
    assert not second.is_error
    assert await connected(personal_app)


@pytest.mark.parametrize(
    "link",
    [
        "https://c/login/x/../v2/flow/t",
        "https://c/login/(/../v2/flow/t",
        "https://c/login/v2/(x)/../flow/t",
        "https://c/login/%2e%2e/login/v2/(/.%2E/flow/t",
        "https://c/login/v2/fl&#111;w/t",
        "https://c&#47;login&#x2f;v2&sol;fl&Tab;ow/t",
        "https://c/apps/[/%2E./oauth2/auth&#10;orize",
        "/login/v2/a/b/../../fl%6fw/q",
    ],
)
def test_a_consent_link_is_found_however_it_is_spelled(link: str) -> None:
    assert answer.neutralise_links(f"see {link} now") == f"see {answer.NEUTRALISED} now"


@pytest.mark.parametrize(
    "text", ["../flow/chart.md", "AT&T a/b", "and so on ... (see ../x)", "50 % (of [x]) & more", "../../.."]
)
def test_what_climbs_but_is_no_consent_link_stays(text: str) -> None:
    assert answer.neutralise_links(text) == text


@pytest.mark.parametrize("piece", ["&#1", "..", "x/../", "(..", "%2e", "[&", "a"])
def test_a_long_word_takes_no_long_time(piece: str) -> None:
    started = time.process_time()

    answer.neutralise_links(piece * 200_000)

    assert time.process_time() - started < 30


def test_a_call_with_thousands_of_wrong_arguments_is_refused_quickly() -> None:
    tool = next(one for one in notes.tools if one.name == "nc_notes_get_note")
    started = time.process_time()

    with pytest.raises(InvalidInput, match=r"'k2' is not an argument of this tool\. This tool takes"):
        tool.arguments.validate({f"k{number}": 1 for number in range(20_000)})

    assert time.process_time() - started < 30


async def test_a_category_longer_than_any_path_is_refused_before_a_request(
    personal_app: PersonalApp, asked: Asked
) -> None:
    """Its note would be made, and every list that holds it would be too large to answer."""
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(all_of_it(alice))) as client,
    ):
        await first_note(client)
        category = "/".join(["c" * 200] * 20)
        result = await client.call_tool("nc_notes_create_note", {"title": "x", "category": category})

    assert result.is_error
    assert "shorten it" in str(result.content)
    assert not any(
        record.method == "POST" and "notes" in record.path for record in personal_app.sandbox.requests.records
    )


async def test_without_the_key_a_disconnect_does_not_claim_to_have_deleted_the_access(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await first_note(client)
    await personal_app.stop()
    (personal_app.data_dir / "encryption.key").unlink()
    await personal_app.start()
    async with personal_app.client() as client:
        without = [
            await client.call_tool(name, {}) for name in ("nc_notes_list_notes", "revoke_nextcloud_access")
        ]
    await personal_app.stop()
    # As the error says: the operator goes on with a new key.
    settings = load(nextcloud_host=personal_app.nextcloud_url, data_dir=personal_app.data_dir)
    await to_thread.run_sync(partial(keys.rotate, settings, yes=True))
    await personal_app.start()

    async with personal_app.client() as client:
        refused = await client.call_tool("nc_notes_list_notes", {})
        ended = await client.call_tool("revoke_nextcloud_access", {})
        again = await client.call_tool("nc_notes_list_notes", {})

    assert all("sealed with another key" in str(result.content) for result in without)
    assert "revoke_nextcloud_access" in str(refused.content)
    assert len(personal_app.sandbox.state.app_passwords) == 1
    assert "Delete the app password" in str(ended.content)
    assert "grant" in str(again.content).lower()
