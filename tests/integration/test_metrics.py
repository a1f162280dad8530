"""What a journey from a question to an answer adds to the metrics."""

from collections.abc import Generator

import pytest

from nextcloud_mcp_server.telemetry import metrics
from tests.counted import Counted
from tests.integration.personal_app import Asked, PersonalApp


@pytest.fixture
def counted() -> Generator[Counted]:
    exporter = Counted()
    with metrics.exported(exporter):
        yield exporter


async def test_a_journey_is_counted_from_the_question_to_the_answer(
    personal_app: PersonalApp, asked: Asked, counted: Counted
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(mode="auto", elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await client.call_tool("nc_notes_list_notes", {})
        await client.call_tool("nc_notes_get_note", {"note_id": 987_654})
        await client.call_tool("made_up_by_the_client", {})

    called = "nextcloud_mcp_requests_total", "tools/call"
    assert counted.sums[*called, "nc_notes_list_notes", "asked"] >= 1
    assert counted.sums[*called, "nc_notes_list_notes", "ok"] == 1
    assert counted.sums[*called, "nc_notes_get_note", "tool error"] == 1
    assert counted.sums[*called, "(unknown)", "tool error"] == 1
    assert counted.times["nextcloud_mcp_request_seconds", "tools/call", "nc_notes_get_note"] == 1
    assert counted.sums["nextcloud_mcp_consents_asked_total",] == 1
    assert counted.sums["nextcloud_mcp_consents_total", "complete"] == 1
    assert counted.times["nextcloud_mcp_consent_seconds",] == 1
    assert counted.sums["nextcloud_mcp_held_calls",] == 0
    assert counted.times["nextcloud_mcp_held_calls",] >= 2
    assert counted.sums["nextcloud_mcp_nextcloud_responses_total", "GET", "404"] >= 1
    assert counted.sums["nextcloud_mcp_nextcloud_responses_total", "GET", "200"] >= 1


async def test_methods_that_a_client_makes_up_are_counted_together(
    personal_app: PersonalApp, counted: Counted
) -> None:
    async with personal_app.raw() as client:
        for method in ("made/up", "x" * 300):
            assert "error" in await client.request(method, {})

    made_up = {key[1:] for key in counted.sums if key[0] == "nextcloud_mcp_requests_total"}
    assert ("other", "", "error") in made_up
    assert not [key for key in made_up if key[0] in ("made/up", "x" * 300)]


async def test_a_consent_request_that_is_declined_is_counted_as_such(
    personal_app: PersonalApp, asked: Asked, counted: Counted
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(mode="auto", elicitation_callback=asked.by(alice.decline)) as client,
    ):
        await client.call_tool("nc_notes_list_notes", {})

    assert counted.sums["nextcloud_mcp_consents_total", "declined"] == 1
    assert ("nextcloud_mcp_consent_seconds",) not in counted.sums
