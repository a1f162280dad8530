"""One consent over stdio, in every form that clients understand: real processes, real pipes."""

from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    EmptyResult,
    SubscribeRequest,
    SubscribeRequestParams,
)

from nextcloud_mcp_server.sandbox.apps.notes.store import Changes, NoteStore
from tests.integration.personal_app import Asked, link_in, until
from tests.integration.stdio_app import DRAFT, LIST, URL, StdioApp, link, shows_notes

COMPLETE = "notifications/elicitation/complete"


async def unused(context: object, params: ElicitRequestParams) -> ElicitResult:
    raise NotImplementedError


def text(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


async def test_a_2026_client_is_sent_to_nextcloud_s_own_page_and_its_waiting_call_goes_through(
    stdio_app: StdioApp,
) -> None:
    asked = Asked(stdio_app)
    async with (
        stdio_app.person() as alice,
        stdio_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        result = await client.call_tool(LIST, {})

    assert "Shopping list" in str(result.structured_content)
    assert len(asked.urls) == 1
    assert asked.urls[0].startswith(f"{stdio_app.nextcloud_url}/login/v2/flow/")


async def test_a_2025_client_gets_error_32042_a_notice_and_its_retry_goes_through(
    stdio_app: StdioApp,
) -> None:
    heard: list[Any] = []

    async def listen(message: object) -> None:
        if getattr(message, "method", "") == COMPLETE:
            heard.append(message)

    async with (
        stdio_app.person() as alice,
        stdio_app.client(mode="legacy", elicitation_callback=unused, message_handler=listen) as client,
    ):
        with pytest.raises(MCPError) as caught:
            await client.call_tool(LIST, {})
        wanted = UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0]
        await alice.allow(wanted.url)
        await until(lambda: bool(heard))
        result = await client.call_tool(LIST, {})

    assert wanted.url.startswith(f"{stdio_app.nextcloud_url}/login/v2/flow/")
    assert [one.params.elicitation_id for one in heard] == [wanted.elicitation_id]
    assert "Shopping list" in str(result.structured_content)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_without_elicitation_is_told_in_words_and_called_again(
    stdio_app: StdioApp, mode: str
) -> None:
    async with stdio_app.person() as alice, stdio_app.client(mode=mode) as client:
        told = await client.call_tool(LIST, {})
        await alice.allow(link_in(text(told)))
        result = await client.call_tool(LIST, {})

    assert told.is_error
    assert text(told).endswith("\n\nWhen that is done, call the tool again.")
    assert "Shopping list" in str(result.structured_content)


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("elicitation", [{}, {"form": {}}])
async def test_a_client_with_forms_only_is_told_in_words(
    stdio_app: StdioApp, elicitation: dict[str, Any], *, modern: bool
) -> None:
    async with (
        stdio_app.person() as alice,
        stdio_app.lines({"elicitation": elicitation}, modern=modern) as client,
    ):
        told = await client.call(LIST)
        await alice.allow(link(told))
        result = await client.call(LIST)

    assert told["result"]["isError"] is True
    assert shows_notes(result)


async def test_a_draft_client_gets_error_32000_and_tracks_the_consent_request_to_its_end(
    stdio_app: StdioApp,
) -> None:
    async with stdio_app.person() as alice, stdio_app.lines(DRAFT) as client:
        refused = await client.call(LIST)
        wanted = refused["error"]["data"]["elicitations"][0]
        tracking = {"elicitationId": wanted["elicitationId"], "_meta": {"progressToken": "p"}}
        tracked = await client.send("elicitation/track", tracking)
        await alice.allow(wanted["url"])
        answer = await client.answer(tracked)
        result = await client.call(LIST)

    assert refused["error"]["code"] == -32000
    assert answer["result"] == {"status": "complete"}
    assert [one["method"] for one in client.notices].count("notifications/progress") >= 1
    assert shows_notes(result)


async def test_the_link_is_on_the_address_that_browsers_use(stdio_app: StdioApp) -> None:
    public = stdio_app.nextcloud_url.replace("127.0.0.1", "localhost")
    stdio_app.settings["NEXTCLOUD_PUBLIC_URL"] = public
    async with stdio_app.person() as alice, stdio_app.lines() as client:
        url = link(await client.call(LIST))
        await alice.allow(url)
        result = await client.call(LIST)

    assert url.startswith(f"{public}/login/v2/flow/")
    assert shows_notes(result)


async def test_closing_stdin_ends_the_process_with_0_and_leaves_nothing_else_on_stdout(
    stdio_app: StdioApp,
) -> None:
    async with stdio_app.lines() as client:
        await client.request("tools/list", {})
        code, rest = await client.leave()

    assert code == 0
    assert rest == b""


async def test_closing_stdin_ends_the_process_while_a_call_is_held(stdio_app: StdioApp) -> None:
    async with stdio_app.lines(URL) as client:
        await client.call(LIST)
        await client.send("tools/call", {"name": LIST, "arguments": {}})
        await until(lambda: len(stdio_app.polls) > 0)
        code, _ = await client.leave()

    assert code == 0


async def test_the_log_is_on_stderr_and_holds_no_link(stdio_app: StdioApp, tmp_path: Path) -> None:
    stdio_app.settings["LOG_LEVEL"] = "debug"
    async with stdio_app.person() as alice, stdio_app.lines() as client:
        url = link(await client.call(LIST))
        await alice.allow(url)
        await client.call(LIST)
        await client.leave()

    logged = stdio_app.log.read_text("utf-8")
    assert "made the key" in logged
    assert url.rsplit("/", 1)[-1] not in logged
    assert not [secret for secret in stdio_app.sandbox.state.app_passwords if secret in logged]


#: What a start imports neither for itself nor for its first list of tools.
LATE = {"sqlalchemy", "aiosqlite", "alembic", "jinja2", "jwt", "lxml", "icalendar", "pygments"}


def imported(stdio_app: StdioApp) -> set[str]:
    """Return the top-level packages that the processes have imported so far."""
    lines = stdio_app.log.read_text().splitlines()
    names = (line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:"))
    return {name.partition(".")[0] for name in names}


async def test_a_first_list_with_an_app_password_asks_for_the_apps_and_opens_no_database(
    stdio_app: StdioApp,
) -> None:
    # Python then writes each import to stderr.
    stdio_app.settings |= {"PYTHONPROFILEIMPORTTIME": "1", "TOOLSETS": "all"}
    stdio_app.settings |= {"NEXTCLOUD_USERNAME": "alice", "NEXTCLOUD_APP_PASSWORD": "alice"}
    stdio_app.sandbox.state.users["alice"].denied_apps = frozenset({"news"})
    async with stdio_app.lines() as client:
        listed = await client.request("tools/list", {})
        at_start, files = imported(stdio_app), list(stdio_app.data_dir.glob("*"))
        called = await client.call(LIST)
        with_a_call = imported(stdio_app)

    names = [tool["name"] for tool in listed["result"]["tools"]]
    assert "nc_mail_list_messages" in names
    assert not [name for name in names if name.startswith("nc_news")]
    assert "mcp" in at_start
    assert at_start & LATE == set()
    assert files == []
    assert shows_notes(called)
    assert "sqlalchemy" in with_a_call


async def test_a_nextcloud_out_of_reach_is_a_warning_while_the_server_serves(stdio_app: StdioApp) -> None:
    stdio_app.settings["NEXTCLOUD_HOST"] = "http://127.0.0.1:9"
    async with stdio_app.lines() as client:
        listed = await client.request("tools/list", {})
        await until(lambda: "nextcloud-mcp-server doctor" in stdio_app.log.read_text("utf-8"))
        code, _ = await client.leave()

    assert LIST in str(listed["result"])
    assert code == 0


async def test_a_nextcloud_in_maintenance_mode_is_a_warning_too(stdio_app: StdioApp) -> None:
    stdio_app.sandbox.state.maintenance = True
    async with stdio_app.lines() as client:
        await until(lambda: "maintenance" in stdio_app.log.read_text("utf-8"))
        code, _ = await client.leave()

    assert code == 0


async def test_a_client_that_subscribed_to_a_note_hears_that_it_has_changed(stdio_app: StdioApp) -> None:
    heard: list[str] = []

    async def listen(message: Any) -> None:  # noqa: ANN401 - whatever the SDK hands on
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.append(str(message.params.uri))

    def looks() -> int:
        return sum(one.path.endswith("/api/v1/notes") for one in stdio_app.sandbox.requests.records)

    notes = NoteStore(stdio_app.sandbox.state.users["alice"], stdio_app.sandbox.state.clock)
    mine, other = (notes.create(Changes(title=title, content="1")) for title in ("Mine", "Other"))
    stdio_app.settings |= {
        "NEXTCLOUD_USERNAME": "alice",
        "NEXTCLOUD_APP_PASSWORD": "alice",
        "UPDATE_SECONDS": "1",
    }
    async with stdio_app.client(mode="legacy", message_handler=listen) as client:
        address = f"nc://notes/{mine.file_id}"
        subscribe = SubscribeRequest(params=SubscribeRequestParams(uri=address))
        await client.session.send_request(subscribe, EmptyResult)
        # What is there when a user subscribes is not a change.
        await until(lambda: looks() > 0)
        for each in (other, mine):
            notes.update(each, Changes(content="22"))
        await until(lambda: bool(heard))

    assert heard == [address]
