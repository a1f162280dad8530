"""What the log says about requests, as an operator reads it."""

import io
import json
import logging
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.server.services import open_database
from tests.integration.oidc_app import OidcApp
from tests.integration.personal_app import Asked, PersonalApp
from tests.integration.test_many_people import SUBJECT

Log = pytest.LogCaptureFixture


@pytest.fixture(autouse=True)
def at_info(caplog: Log) -> None:
    caplog.set_level(logging.INFO, "nextcloud_mcp_server")


def lines(caplog: Log, event: str) -> list[dict[str, Any]]:
    return [record.__dict__ for record in caplog.records if record.getMessage() == event]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_calls_are_logged_in_both_eras_with_how_they_ended(
    personal_app: PersonalApp, asked: Asked, caplog: Log, mode: str
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(mode=mode, elicitation_callback=asked.by(alice.allow)) as client,
    ):
        try:
            await client.call_tool("nc_notes_list_notes", {})
        except MCPError as need:  # what the SDK's client does with an elicitation of that era
            await alice.allow(need.error.data["elicitations"][0]["url"])
            await client.call_tool("nc_notes_list_notes", {})
        await client.call_tool("nc_notes_get_note", {"note_id": 987_654})
        await client.call_tool("nc_notes_get_note", {"note_id": "s3cret"})

    requests = lines(caplog, "request")
    calls = [line for line in requests if line["method"] == "tools/call"]
    assert "An assistant" not in {line["client"] for line in requests}
    assert {line["tool"] for line in calls} == {"nc_notes_list_notes", "nc_notes_get_note"}
    assert [line["status"] for line in calls][-3:] == ["ok", "tool error", "tool error"]
    assert "asked" in [line["status"] for line in calls]
    assert "s3cret" not in json.dumps([str(line) for line in calls])
    assert not [line for line in lines(caplog, "http") if line["path"] == "/mcp"]
    assert {line["path"] for line in lines(caplog, "http")} >= {"/oauth/provision"}


async def test_a_line_names_the_person_and_the_audit_names_the_same_request(
    oidc_app: OidcApp, caplog: Log
) -> None:
    stream = io.StringIO()
    logs.set_up("info", "json", stream=stream)
    async with oidc_app.person("alice") as alice:
        answer = Asked(oidc_app).by(alice.consent)
        async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=answer) as client:
            await client.call_tool("nc_notes_list_notes", {})
    await oidc_app.stop()

    written = [json.loads(line) for line in stream.getvalue().splitlines()]
    call = [line for line in written if line.get("status") == "ok" and line.get("method") == "tools/call"][-1]
    assert oidc_app.config
    async with open_database(oidc_app.config) as database:
        (entry,) = [
            each.entry
            for each in await database.audit.latest(limit=50)
            if each.entry.action == "nc_notes_list_notes"
        ]
    assert (call["person"], call["client_id"]) == (SUBJECT, entry.client_id)
    assert call["request_id"] == entry.request_id


async def test_the_audit_names_a_tool_by_todays_name_where_it_was_called_by_an_old_one(
    oidc_app: OidcApp,
) -> None:
    await oidc_app.restart(toolsets="deck")
    async with oidc_app.person("alice") as alice:
        answer = Asked(oidc_app).by(alice.consent)
        async with oidc_app.client(
            oidc_app.token("alice", scope="deck:read"), elicitation_callback=answer
        ) as client:
            await client.call_tool("nc_deck_list_boards", {})
    await oidc_app.stop()

    assert oidc_app.config
    async with open_database(oidc_app.config) as database:
        actions = {each.entry.action for each in await database.audit.latest(limit=50)}
    assert "nc_deck_get_board" in actions
    assert "nc_deck_list_boards" not in actions


@pytest.mark.parametrize(("token", "status"), [("made up", 401), (None, 401)])
async def test_a_refused_request_is_logged_without_its_token(
    oidc_app: OidcApp, caplog: Log, token: str | None, status: int
) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient() as http:
        await http.post(f"{oidc_app.url}/mcp?code=s3cret", json={}, headers=headers)

    (line,) = lines(caplog, "http")
    assert (line["method"], line["path"], line["status"]) == ("POST", "/mcp", status)
    assert "s3cret" not in str(line)
    assert "made up" not in str(line)
