"""Two server processes with one PostgreSQL behind nginx, which sends each request to the next one in turn."""

import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.demo.wire_client import (
    DRAFT_EXTENSION,
    HandshakeClient,
    StatelessClient,
    WireClient,
)
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Page, Person
from tests.integration.personal_app import link_in
from tests.integration.replica_processes import URL, Pair, ReplicaProcess, Way, open_pair

pytestmark = pytest.mark.process

LIST: dict[str, Any] = {"name": "nc_notes_list_notes", "arguments": {}}
URL_MODE: dict[str, Any] = {"elicitation": {"url": {}}}

WORKS = {"stateless works", "handshake works"}

#: The forms of an elicitation (docs/protocol.md), each by the client that gets it.
FORMS: dict[str, tuple[type[WireClient], dict[str, Any]]] = {
    "input_required": (StatelessClient, URL_MODE),
    "draft": (HandshakeClient, {"extensions": {DRAFT_EXTENSION: {}}}),
    "-32042": (HandshakeClient, URL_MODE),
    "text": (HandshakeClient, {}),
}


@pytest.fixture(scope="module")
async def pair(
    anyio_backend: str, postgres_server: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Pair]:
    del anyio_backend
    async with open_pair(tmp_path_factory.mktemp("pair"), postgres_server) as made:
        yield made


@asynccontextmanager
async def client_of(
    pair: Pair, form: str, client_id: str, way: Way | None = None
) -> AsyncGenerator[WireClient]:
    """Connect a client, through the proxy or another way."""
    kind, capabilities = FORMS[form]
    async with pair.http(way, token=pair.token(client_id)) as http:
        client = kind(http, f"{URL}/mcp", capabilities=capabilities)
        await client.open()
        yield client


@asynccontextmanager
async def alice_of(pair: Pair, show: Callable[[Page], None] | None = None) -> AsyncGenerator[Person]:
    async with pair.http() as browser:
        yield Person("alice", "alice", browser=browser, show=show)


def link_of(answer: dict[str, Any]) -> str:
    """Return the link of an elicitation in any form."""
    if "error" in answer:
        return answer["error"]["data"]["elicitations"][0]["url"]
    if "inputRequests" in answer["result"]:
        return answer["result"]["inputRequests"]["provision"]["params"]["url"]
    return link_in(answer["result"]["content"][0]["text"])


def retry_of(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the call again, as the client that got this answer repeats it."""
    if "inputRequests" not in answer.get("result", {}):
        return LIST
    state = answer["result"]["requestState"]
    return {**LIST, "requestState": state, "inputResponses": {"provision": {"action": "accept"}}}


def has_notes(answer: dict[str, Any]) -> bool:
    return "Shopping list" in str(answer.get("result", {}).get("structuredContent"))


async def breaks(client: WireClient, call: dict[str, Any]) -> None:
    """Make a call whose replica is killed meanwhile."""
    with pytest.raises((httpx2.HTTPError, NotAsPromised)):
        await client.request("tools/call", call)


async def until_holds(replica: ReplicaProcess, *, calls: int) -> None:
    """Wait until a replica holds so many calls."""
    with anyio.fail_after(60):
        while await replica.held_calls() < calls:  # noqa: ASYNC110 - another process
            await anyio.sleep(0.05)


async def held_until_the_end(pair: Pair, replica: ReplicaProcess) -> str:
    """Stop a replica that holds a call, and return the error with which it answers the call."""
    async with client_of(pair, "input_required", "stopped", Way(pair.place, replica.port)) as client:
        asked = await client.request("tools/call", LIST)
        answers: list[dict[str, Any]] = []

        async def wait() -> None:
            answers.append(await client.request("tools/call", retry_of(asked)))

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await until_holds(replica, calls=1)
            await replica.end(signal.SIGTERM)
    return answers[0]["error"]["message"]


async def elicitations_of(pair: Pair, client_id: str) -> int:
    return await pair.count("SELECT count(*) FROM elicitations WHERE client_id = $1", client_id)


@pytest.mark.parametrize("form", FORMS)
async def test_a_consent_begun_on_one_is_finished_on_the_other_in_every_form(pair: Pair, form: str) -> None:
    one, other = (Way(pair.place, replica.port) for replica in pair.replicas)
    async with client_of(pair, form, f"across {form}", one) as client, pair.http(other) as browser:
        asked = await client.request("tools/call", LIST)
        results: list[dict[str, Any]] = []

        async def wait_at_one() -> None:
            results.append(await client.request("tools/call", retry_of(asked)))

        async with anyio.create_task_group() as group:
            group.start_soon(wait_at_one)
            await Person("alice", "alice", browser=browser).consent(link_of(asked))
        if not has_notes(results[0]):
            # As a model does with the text.
            results.append(await client.request("tools/call", LIST))

    assert has_notes(results[-1])
    assert await elicitations_of(pair, f"across {form}") == 1


@pytest.mark.parametrize("form", FORMS)
async def test_every_request_of_a_consent_may_reach_the_next_replica(pair: Pair, form: str) -> None:
    pair.place.clear()
    async with client_of(pair, form, f"in turn {form}") as client, alice_of(pair) as alice:
        asked = await client.request("tools/call", LIST)
        await alice.consent(link_of(asked))
        answers = [await client.request("tools/call", LIST) for _ in range(3)]

    used = Counter(line.split()[-1] for line in pair.place.requests())
    assert [has_notes(answer) for answer in answers] == [True] * 3
    assert len(used) == 2, used
    assert min(used.values()) >= 3, used


async def test_killing_the_replica_that_holds_calls_loses_nothing(pair: Pair) -> None:
    one, forms = pair.replicas[0], ("input_required", "-32042")
    ways = {form: Way(pair.place, one.port) for form in forms}
    async with (
        client_of(pair, forms[0], f"held {forms[0]}", ways[forms[0]]) as stateless,
        client_of(pair, forms[1], f"held {forms[1]}", ways[forms[1]]) as handshake,
        alice_of(pair) as alice,
    ):
        clients = (stateless, handshake)
        asked = [await client.request("tools/call", LIST) for client in clients]
        async with anyio.create_task_group() as group:
            for client, answer in zip(clients, asked, strict=True):
                group.start_soon(breaks, client, retry_of(answer))
            await until_holds(one, calls=2)
            await one.end(signal.SIGKILL)
        for way, answer in zip(ways.values(), asked, strict=True):
            # The same clients, with their sessions, through the proxy.
            way.port = None
            await alice.consent(link_of(answer))
        answers = [
            await client.request("tools/call", retry_of(each))
            for client, each in zip(clients, asked, strict=True)
        ]

    assert [has_notes(answer) for answer in answers] == [True, True]
    assert [await elicitations_of(pair, f"held {form}") for form in forms] == [1, 1]


async def test_killing_a_replica_between_any_two_pages_of_a_consent_loses_nothing(pair: Pair) -> None:
    await pair.both_run()
    client_id, ended = "pages", list[str]()

    def kill_once(page: Page) -> None:
        if not ended and page.url.startswith(URL):
            ended.append(page.url)
            pair.replicas[1].kill()

    async with client_of(pair, "-32042", client_id) as client, alice_of(pair, kill_once) as alice:
        asked = await client.request("tools/call", LIST)
        await alice.consent(link_of(asked))
        answer = await client.request("tools/call", LIST)

    assert ended
    assert has_notes(answer)
    assert await elicitations_of(pair, client_id) == 1


async def test_while_one_after_the_other_is_restarted_no_call_of_2026_fails_and_older_clients_go_on(
    pair: Pair,
) -> None:
    answers: Counter[str] = Counter()
    told: list[str] = []
    done = anyio.Event()

    async def calls(client: WireClient, name: str) -> None:
        while not done.is_set():
            answer = await client.request("tools/call", LIST)
            why = "works" if has_notes(answer) else answer["error"]["message"]
            answers[f"{name} {why}"] += 1
            await anyio.sleep(0.1)

    async def both_answer() -> None:
        """Wait until each replica that runs has answered: the first answer of a process takes long."""
        before = answers.copy()
        with anyio.fail_after(60):
            while min((answers - before)[name] for name in WORKS) < 3:  # noqa: ASYNC110 - each answer counts
                await anyio.sleep(0.05)

    async with (
        client_of(pair, "input_required", "rolling") as stateless,
        client_of(pair, "-32042", "rolling") as handshake,
        alice_of(pair) as alice,
        anyio.create_task_group() as group,
    ):
        await alice.consent(link_of(await stateless.request("tools/call", LIST)))
        group.start_soon(calls, stateless, "stateless")
        group.start_soon(calls, handshake, "handshake")
        # The other one was killed by the test before this one.
        one, other = pair.replicas
        await pair.both_run()
        await both_answer()
        await one.end(signal.SIGTERM)
        await one.start()
        await both_answer()
        told.append(await held_until_the_end(pair, other))
        await both_answer()
        done.set()

    # A call that takes longer than the last ones may is cut off, as the held one: at most one each time.
    assert "Send it again in a few seconds" in told[0]
    assert answers.pop(f"handshake {told[0]}", 0) <= 2
    assert set(answers) == WORKS
