"""Resources and prompts, as a client attaches them to a conversation."""

import base64

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    BlobResourceContents,
    ElicitRequestParams,
    ElicitResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

from nextcloud_mcp_server.resources.kind import MAX_BYTES
from tests.integration.personal_app import Asked, PersonalApp

Ref = PromptReference | ResourceTemplateReference

NOTE = ResourceTemplateReference(uri="nc://notes/{id}")
FILE = ResourceTemplateReference(uri="nc://files/{+path}")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


async def unused(context: object, params: ElicitRequestParams) -> ElicitResult:
    raise NotImplementedError


async def listed(client: Client) -> dict[str, str]:
    """List every resource by its address, page by page."""
    found: dict[str, str] = {}
    cursor: str | None = None
    while True:
        page = await client.list_resources(cursor=cursor)
        found |= {str(one.uri): one.name for one in page.resources}
        cursor = page.next_cursor
        if cursor is None:
            return found


async def text_of(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


async def values(client: Client, ref: Ref, name: str, value: str) -> list[str]:
    return (await client.complete(ref, {"name": name, "value": value})).completion.values


async def test_before_any_consent_lists_are_empty_and_no_user_is_asked(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with personal_app.client(elicitation_callback=asked.by(None)) as client:
        found = await listed(client)
        templates = (await client.list_resource_templates()).resource_templates
        completed = await values(client, NOTE, "id", "Shop")

    assert found == {}
    assert completed == []
    assert [one.uri_template for one in templates] == ["nc://notes/{id}", "nc://files/{+path}"]
    assert asked.urls == []


async def test_reading_a_resource_opens_one_page_and_the_waiting_read_goes_through(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        shopping = personal_app.sandbox.state.users["alice"].files.get("/Notes/Shopping list.md").file_id
        note = await text_of(client, f"nc://notes/{shopping}")
        found = await listed(client)
        capabilities = await text_of(client, "nc://capabilities")

    assert len(asked.urls) == 1
    assert "oat milk" in note
    assert found[f"nc://notes/{shopping}"] == "Shopping list"
    assert '"notes"' in capabilities


async def test_a_2025_client_gets_error_32042_for_a_resource_and_its_retry_goes_through(
    personal_app: PersonalApp,
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(mode="legacy", elicitation_callback=unused) as client,
    ):
        with pytest.raises(MCPError) as caught:
            await client.read_resource("nc://files/Readme.md")
        await alice.allow(caught.value.error.data["elicitations"][0]["url"])
        text = await text_of(client, "nc://files/Readme.md")

    assert caught.value.error.code == -32042
    assert text


async def test_a_client_that_can_show_no_page_finds_the_link_in_the_error(personal_app: PersonalApp) -> None:
    async with personal_app.client() as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("nc://notes/1")

    assert caught.value.error.code == -32603
    assert caught.value.error.message.endswith("\n\nWhen that is done, read this again.")
    assert "/oauth/provision?elicitationId=" in caught.value.error.message


async def connected(personal_app: PersonalApp, asked: Asked, only: list[str] | None = None) -> None:
    async def allow(url: str) -> None:
        await alice.allow(url, only=only)

    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(allow)) as client,
    ):
        await client.call_tool("request_nextcloud_access", {"permissions": only} if only else {})


async def test_the_first_page_holds_notes_for_a_client_that_asks_for_no_other(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await connected(personal_app, asked)
    async with personal_app.client() as client:
        first = await client.list_resources()

    assert "Shopping list" in {one.name for one in first.resources}


async def test_what_was_not_allowed_is_not_listed_and_reading_it_asks(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await connected(personal_app, asked, ["notes:read"])
    async with personal_app.client() as client:
        found = await listed(client)
        with pytest.raises(MCPError, match="opens this link"):
            await client.read_resource("nc://files/Readme.md")

    assert found
    assert not any(uri.startswith("nc://files/") for uri in found)


async def test_completion_leads_to_notes_by_title_and_to_files_by_folder(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await connected(personal_app, asked)
    async with personal_app.client() as client:
        notes = await values(client, NOTE, "id", "shop")
        prompt = await values(client, PromptReference(name="tidy_note"), "note", "shopping list")
        top = await values(client, FILE, "path", "no")
        inside = await values(client, FILE, "path", "Notes/")
        nowhere = await values(client, FILE, "path", "Nowhere/x")
        other = await values(client, ResourceTemplateReference(uri="nc://other/{x}"), "x", "")
        no_completion = await values(client, PromptReference(name="find_document"), "memory", "x")
        title = await text_of(client, f"nc://notes/{notes[0].replace(' ', '%20')}")

    assert [one.partition(" ")[2] for one in notes] == ["Shopping list"]
    assert prompt == notes
    assert top == ["Notes/"]
    assert any(one.endswith(".md") for one in inside)
    assert nowhere == other == no_completion == []
    assert title


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("nc://notes/0x1", "There is no resource"),
        ("nc://notes/999999", "note"),
        ("nc://files/no%20such.md", "no such.md"),
        ("nc://files/../../admin/secret", "secret|climb|'..'"),
        ("nc://talk/1", "There is no resource"),
        ("file:///etc/passwd", "There is no resource"),
    ],
)
async def test_what_is_not_there_is_said_in_one_sentence(
    personal_app: PersonalApp, asked: Asked, uri: str, message: str
) -> None:
    await connected(personal_app, asked)
    async with personal_app.client() as client:
        with pytest.raises(MCPError, match=message) as caught:
            await client.read_resource(uri)

    assert caught.value.error.code == -32602
    assert "\n" not in caught.value.error.message


async def test_pictures_come_as_bytes_and_what_is_too_large_names_the_tool_for_parts(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await connected(personal_app, asked)
    alice = personal_app.sandbox.state.users["alice"]
    alice.files.put("/dot.png", PIXEL)
    alice.files.put("/long.txt", b"x" * (MAX_BYTES + 1))
    async with personal_app.client() as client:
        (picture,) = (await client.read_resource("nc://files/dot.png")).contents
        with pytest.raises(MCPError, match="nc_files_read_file reads it in parts"):
            await client.read_resource("nc://files/long.txt")

    assert isinstance(picture, BlobResourceContents)
    assert base64.b64decode(picture.blob) == PIXEL


async def test_a_consent_link_in_a_file_is_not_passed_on(personal_app: PersonalApp, asked: Asked) -> None:
    await connected(personal_app, asked)
    personal_app.sandbox.state.users["alice"].files.put(
        "/bait.txt", b"open https://evil.example/login/v2/flow/abc"
    )
    async with personal_app.client() as client:
        text = await text_of(client, "nc://files/bait.txt")

    assert "evil.example" not in text


async def test_a_cursor_that_is_not_ours_is_refused(personal_app: PersonalApp, asked: Asked) -> None:
    await connected(personal_app, asked)
    async with personal_app.client() as client:
        deep, other = (base64.urlsafe_b64encode(each).decode() for each in (b"[" * 40_000, b'["file","x"]'))
        for cursor in ("nonsense!", "WzFd", other, deep):
            with pytest.raises(MCPError, match="That cursor does not belong to this list"):
                await client.list_resources(cursor=cursor)


async def test_a_nextcloud_without_notes_or_that_is_down_hides_no_other_resource(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await connected(personal_app, asked)
    personal_app.sandbox.faults.status(503, area="notes")
    async with personal_app.client() as client:
        found = await listed(client)

    assert "nc://files/Readme.md" in found
    assert not any(uri.startswith("nc://notes/") for uri in found)


async def test_the_headers_of_a_request_narrow_resources_and_prompts(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await connected(personal_app, asked)
    async with personal_app.client(headers={"X-MCP-Toolsets": "notes"}) as client:
        found = await listed(client)
        prompts = [one.name for one in (await client.list_prompts()).prompts]
        with pytest.raises(MCPError, match="There is no resource"):
            await client.read_resource("nc://files/Readme.md")
        with pytest.raises(MCPError, match="There is no prompt 'find_document'"):
            await client.get_prompt("find_document", {"memory": "x"})

    assert prompts == ["tidy_note"]
    assert not any(uri.startswith("nc://files/") for uri in found)


async def test_a_prompt_holds_what_the_person_typed_as_it_is(personal_app: PersonalApp) -> None:
    async with personal_app.client() as client:
        listed_prompts = (await client.list_prompts()).prompts
        prompt = await client.get_prompt("find_document", {"memory": "the {argument} of 2024"})

    (message,) = prompt.messages
    assert isinstance(message.content, TextContent)
    assert "which I remember this: the {argument} of 2024\n" in message.content.text
    assert {one.name for one in listed_prompts} == {"find_document", "tidy_note"}


@pytest.mark.parametrize(
    "arguments", [{}, {"memory": " "}, {"memory": "x" * 1001}, {"memory": "x", "more": "y"}]
)
async def test_a_prompt_without_its_argument_says_what_it_takes(
    personal_app: PersonalApp, arguments: dict[str, str]
) -> None:
    async with personal_app.client() as client:
        with pytest.raises(MCPError, match="The prompt find_document takes the argument 'memory'"):
            await client.get_prompt("find_document", arguments)


async def test_with_their_toolsets_events_and_contacts_are_there_as_well(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await personal_app.stop()
    await personal_app.start(toolsets="calendar,contacts")
    await connected(personal_app, asked)
    event, contact = "nc://calendar/{calendar}/{event}", "nc://contacts/{book}/{contact}"
    async with personal_app.client() as client:
        found = await listed(client)
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        calendars = await values(client, ResourceTemplateReference(uri=event), "calendar", "pers")
        # Blanks alone match every name.
        blanks, too_many = [
            await values(client, ResourceTemplateReference(uri=event), "calendar", " " * count)
            for count in (10, 5_000)
        ]
        named = await client.complete(
            ResourceTemplateReference(uri=event),
            {"name": "event", "value": "stand"},
            context_arguments={"calendar": "personal"},
        )
        lunch = await text_of(client, "nc://calendar/personal/standup.ics")

    assert templates == [event, contact]
    assert {"nc://capabilities", "nc://calendar/personal/standup.ics"} <= set(found)
    assert "nc://contacts/contacts/contact-1.vcf" in found
    assert calendars == ["personal"]
    assert "personal" in blanks
    assert too_many == []
    assert named.completion.values == ["standup.ics"]
    assert '"title":"Stand-up"' in lunch


async def test_the_title_of_an_event_brings_no_link_into_the_list(
    personal_app: PersonalApp, asked: Asked
) -> None:
    day = personal_app.sandbox.state.clock().strftime("%Y%m%d")
    event = (
        f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:u\r\nDTSTART;VALUE=DATE:{day}\r\n"
        "SUMMARY:See https://evil.example/login/v2/flow/abc\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    personal_app.sandbox.state.users["alice"].calendars["personal"].put("u.ics", event, 0)
    await personal_app.stop()
    await personal_app.start(toolsets="calendar")
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await client.call_tool("nc_calendar_list_calendars", {})
        names = list((await listed(client)).values())

    assert any(name.startswith("See [link removed") for name in names)
    assert not any("/login/v2/flow" in name for name in names)
