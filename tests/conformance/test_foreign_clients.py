"""Clients that others wrote, each through the same journey: list, consent, retry, conflict, resource, prompt."""

import os
import re
from pathlib import Path

import pytest

from nextcloud_mcp_server.sandbox.person import Person
from tests.conformance.client_runners import Answer, Player, playing
from tests.conformance.client_servers import place
from tests.conformance.third_party_clients import CLIENTS, Foreign, Transport

LIST = "nc_notes_list_notes"

JOURNEYS = [
    pytest.param(
        client,
        transport,
        id=f"{client.package} over {transport}",
        marks=() if client.core else pytest.mark.clients,
    )
    for client in CLIENTS
    for transport in client.transports
]


async def call(player: Player, tool: str, **arguments: object) -> Answer:
    return await player.order("call", tool=tool, arguments=arguments)


async def allowed(player: Player, alice: Person, tool: str, **arguments: object) -> Answer:
    """Call, allow what the answer asks for, and call the same again."""
    answer = await call(player, tool, **arguments)
    if answer.error:
        await alice.allow(answer.link)
        answer = await call(player, tool, **arguments)
    assert not answer.error, answer.text
    return answer


def member(name: str, text: str) -> str:
    """Find one member of an answer, however the client writes it."""
    found = re.search(rf'"{name}": ?"?([^",}}]+)', text)
    assert found is not None, text
    return found[1]


def keep(client: Foreign, transport: Transport, player: Player) -> None:
    """Write down what was said where a folder for it is named, for the documents."""
    if folder := os.environ.get("CLIENT_TRANSCRIPTS"):
        name = f"{client.package.replace('/', '-')}-{transport}.txt"
        (Path(folder) / name).write_text("\n".join(player.transcript) + "\n")


@pytest.mark.parametrize(("client", "transport"), JOURNEYS)
async def test_a_client_gets_through_the_whole_journey(
    client: Foreign, transport: Transport, tmp_path: Path
) -> None:
    pages: list[str] = []
    home = tmp_path / "home"
    home.mkdir()
    async with place(transport, tmp_path / "data") as (people, server), people.person() as alice:

        def shows(url: str) -> None:
            pages.append(url)
            people.consent_request(alice.allow, url)

        async with playing(client, server, home, shows) as player:
            try:
                await journey(client, player, alice, pages)
            finally:
                keep(client, transport, player)


async def journey(client: Foreign, player: Player, alice: Person, pages: list[str]) -> None:
    listed = await player.order("tools")
    assert LIST in listed.names

    first = await call(player, LIST)
    if client.way == "held":
        assert len(pages) == 1
        notes = first
    else:
        assert first.code == (-32042 if client.way == "error" else None), first
        await alice.allow(first.link)
        notes = await call(player, LIST)
    assert not notes.error, notes.text
    assert "Shopping list" in notes.text

    read = await allowed(player, alice, "nc_notes_get_note", title="Shopping list")
    note_id, etag = int(member("id", read.text)), member("etag", read.text)
    change = {"note_id": note_id, "etag": etag}
    written = await allowed(player, alice, "nc_notes_update_note", **change, content="Milk, bread")
    current = member("etag", written.text)
    refused = await call(player, "nc_notes_update_note", **change, content="Only milk")
    assert refused.error
    assert "Read it again" in refused.text
    assert current not in refused.text
    again = await call(player, "nc_notes_get_note", note_id=note_id)
    assert "Milk, bread" in again.text
    redone = await call(
        player,
        "nc_notes_update_note",
        note_id=note_id,
        etag=member("etag", again.text),
        content="Milk, bread, tea",
    )
    assert not redone.error, redone.text

    resource = await player.order("read", uri=f"nc://notes/{note_id}")
    assert "Milk, bread, tea" in resource.text
    if "prompts" not in client.lacks:
        prompt = await player.order("prompt", name="tidy_note", arguments={"note": "Shopping list"})
        assert "Shopping list" in prompt.text
