"""The demo is what a newcomer sees first: it runs in every wire form, and says so when it does not."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args

import anyio
import httpx2
import pytest
from anyio import from_thread

from nextcloud_mcp_server.demo import dialect as dialects
from nextcloud_mcp_server.demo.bridge import play_bridge
from nextcloud_mcp_server.demo.journey import play
from nextcloud_mcp_server.demo.multi_user import play_multi_user
from nextcloud_mcp_server.demo.narrator import Narrator
from nextcloud_mcp_server.demo.servers import open_builtin_servers, open_multi_user_servers, run_server
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person

pytestmark = pytest.mark.process

ON_THE_WIRE = {
    "draft": ['"code": -32000', "notifications/progress", '"status": "complete"'],
    "2025-11-25": ['"code": -32042', '"method": "notifications/elicitation/complete"'],
    "2026-07-28": ['"resultType": "input_required"', '"requestState": "', "The call was held for"],
    "text": ['"isError": true', "The user opens this link in a browser", "The repeated call goes through"],
}
IN_EVERY_FORM = [
    "24 tools in ",
    "Nextcloud's page “Account access”",
    "• Shopping list",
    "# Lisbon in May",
    "- [x] oat milk",
    "It was changed since it was read",
    "In the trash: Notes/Recipes/Pancakes.md",
    "the access was deleted at Nextcloud too",
    "A new link, for a new consent.",
    "All 11 steps turned out as promised",
]


FOR_TWO = [
    "Alice's client is told where to sign in",
    'resource_metadata="http://127.0.0.1:',
    "The identity provider's page “Sign in to the sandbox's accounts”",
    "Our page “This request belongs to another account”",
    "Refused: a link is for the person whose assistant asked.",
    "Nextcloud's page “Account access”",
    "• Shopping list",
    "• Garage code",
    "Five calls each: 5 notes of Alice, 2 of Bob, none of both.",
    "For Bob, there is no such note.",
    "Alice would be asked again; Bob's assistant reads on.",
    "All 11 steps turned out as promised",
]


FOR_NEWCOMERS = [
    "A Nextcloud and the server start on this computer, and nothing else",
    "which is the same server. The",
    '"client_name": "Demo assistant"',
    "Our page “Demo assistant wants to use",
    "Notes: Read",
    "Nextcloud's page “Account access”",
    "Our page “Signed in as Alice Example”",
    "One authorization: the client has its token",
    "• Shopping list",
    'error="insufficient_scope"',
    "Written: “Birthday gifts”. Nextcloud still lists one access of hers.",
    "Our page “This request belongs to another account”",
    "The call goes on by itself, with the access that Nextcloud gave now.",
    "Five calls each: 6 notes of Alice, 2 of Bob, none of both.",
    "For Bob, there is no such note.",
    "Alice would be asked again; Bob's assistant reads on.",
    "All 12 steps turned out as promised",
]


def test_every_wire_form_is_played_here() -> None:
    assert set(ON_THE_WIRE) == set(get_args(dialects.Name)) == set(dialects.DIALECTS)


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["--dialect", "draft"], [*IN_EVERY_FORM, *ON_THE_WIRE["draft"]]),
        (["--mode", "oidc", "--dialect", "2025-11-25"], [*FOR_TWO, *ON_THE_WIRE["2025-11-25"]]),
        (["--mode", "builtin", "--dialect", "text"], [*FOR_NEWCOMERS, *ON_THE_WIRE["text"]]),
    ],
    ids=["personal", "oidc", "builtin"],
)
def test_the_demo_command_plays_the_whole_journey(arguments: list[str], keys: list[str]) -> None:
    command = [sys.executable, "-m", "nextcloud_mcp_server", "demo", *arguments]

    ended = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=600, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert [key for key in keys if key not in ended.stdout] == []
    assert "\x1b" not in ended.stdout


@pytest.mark.parametrize(
    ("mode", "dialect", "keys"), [("oidc", "draft", FOR_TWO), ("builtin", "2026-07-28", FOR_NEWCOMERS)]
)
async def test_the_journey_of_two_people_ends_well_in_this_process(
    mode: Literal["oidc", "builtin"], dialect: dialects.Name, keys: list[str]
) -> None:
    out = io.StringIO()

    await play_multi_user(dialect, out, mode=mode)

    assert [key for key in (*keys, *ON_THE_WIRE[dialect]) if key not in out.getvalue()] == []


@pytest.mark.parametrize("mode", ["oidc", "builtin"])
def test_the_two_people_leave_nothing_to_do_by_hand(mode: str) -> None:
    command = [sys.executable, "-m", "nextcloud_mcp_server", "demo", "--mode", mode, "--manual"]

    ended = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=600, check=False)

    assert ended.returncode != 0
    assert "leave out --manual" in ended.stderr


@pytest.mark.parametrize("dialect", get_args(dialects.Name))
async def test_the_journey_ends_well_in_this_process(dialect: dialects.Name) -> None:
    out = io.StringIO()

    await play(dialect, out)

    assert [key for key in (*IN_EVERY_FORM, *ON_THE_WIRE[dialect]) if key not in out.getvalue()] == []


async def test_a_person_may_give_the_consent_and_tick_what_they_like() -> None:
    out = io.StringIO()
    ticks = iter([["files:write"], ["notes:read"], ["files:read"], ["notes:write"]])

    async with httpx2.AsyncClient() as browser:
        alice = Person("alice", "alice", browser=browser)

        async def allow(url: str) -> None:
            await alice.allow(url, only=next(ticks))

        await play("2026-07-28", out, manual=True, open_page=lambda url: from_thread.run(allow, url))

    assert "sign in as alice with password alice" in out.getvalue()
    assert "so the server asks once more" in out.getvalue()
    assert "All 11 steps turned out as promised" in out.getvalue()
    assert list(ticks) == []


@pytest.mark.parametrize("dialect", ["draft", "2026-07-28"])
async def test_a_person_who_says_no_ends_the_demo_with_one_sentence(dialect: dialects.Name) -> None:
    out = io.StringIO()

    async with httpx2.AsyncClient() as browser:
        alice = Person("alice", "alice", browser=browser)
        with pytest.raises(NotAsPromised) as caught:
            await play(dialect, out, manual=True, open_page=lambda url: from_thread.run(alice.decline, url))

    assert str(caught.value).startswith(
        "Step 4 (Alice allows it in her browser, while the call waits) did not turn out as promised: "
    )
    assert "\n" not in str(caught.value)


async def test_a_server_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    narrator = Narrator(io.StringIO(), live=False)

    with pytest.raises(
        NotAsPromised, match="The server did not start; the last it said: Error: --nextcloud "
    ):
        async with run_server(tmp_path, "ftp://nonsense", narrator, {"NEXTCLOUD_MCP_SECRET": "x" * 32}):
            raise NotImplementedError


async def test_no_call_of_the_two_people_is_held_for_as_long_as_on_a_server() -> None:
    """The journey stood still for 25 seconds in two of the forms, after Bob had been refused."""
    narrator = Narrator(io.StringIO(), live=False)
    for opened in (open_multi_user_servers(narrator), open_builtin_servers(narrator)):
        async with opened as servers:
            environment = await anyio.Path(f"/proc/{servers.process_id}/environ").read_bytes()

        assert b"HOLD_SECONDS=4" in environment.split(b"\0")


async def test_the_journey_through_the_bridge_is_slow_calls_to_its_client() -> None:
    out = io.StringIO()

    await play_bridge(out)

    said = " ".join(out.getvalue().split())
    for sentence in (
        "declares nothing: no elicitation, no sign-in",
        "Waiting for you in the browser, at 127.0.0.1:",
        "For the chat client this was one slow call.",
        "All 6 steps turned out as promised.",
    ):
        assert sentence in said
