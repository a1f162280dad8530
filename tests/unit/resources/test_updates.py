from collections import Counter
from collections.abc import AsyncGenerator

import anyio
import httpx2
import pytest
from anyio.abc import TaskGroup

from nextcloud_mcp_server.protocol.availability import AppList, Apps
from nextcloud_mcp_server.resources import updates
from nextcloud_mcp_server.resources.interest import MAX_ADDRESSES, MAX_INTERESTS
from nextcloud_mcp_server.storage.records import Principal
from tests.permits import is_held, watch_notes
from tests.updates_fixtures import ALICE, UpdatesServer, open_harness, settled

README = "nc://files/Readme.md"


@pytest.fixture
async def harness() -> AsyncGenerator[UpdatesServer]:
    async with open_harness() as made:
        yield made


@pytest.fixture
async def group() -> AsyncGenerator[TaskGroup]:
    async with anyio.create_task_group() as running:
        yield running
        running.cancel_scope.cancel()


async def test_a_look_holds_large_lists_as_a_call_does_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, harness: UpdatesServer
) -> None:
    note, client = harness.note("One"), harness.client()
    await client.subscribed(note)
    held = watch_notes(monkeypatch)
    harness.change(note)
    await harness.look()

    assert held == [True]
    assert not await is_held("alice")


async def test_a_session_hears_of_the_note_it_named_and_of_no_other(harness: UpdatesServer) -> None:
    one, other = harness.note("One"), harness.note("Other")
    client = harness.client()
    await client.subscribed(one, f"{one} with a title")
    harness.change(other)
    await harness.look()
    quiet = client.heard()

    harness.change(one)
    await harness.look()

    assert quiet == []
    assert sorted(client.heard()) == [one, f"{one} with a title"]


async def test_a_stream_is_promised_what_it_may_hear_of_and_hears_it(
    harness: UpdatesServer, group: TaskGroup
) -> None:
    note, client = harness.note("One"), harness.client(modern=True)
    group.start_soon(client.listen, note, README, "nc://talk/1")
    await settled()
    honored = client.honored()
    client.heard()

    harness.sandbox.state.users["alice"].files.put("/Readme.md", b"new")
    await harness.look()

    assert honored == [note, README]
    assert client.heard() == [README]


async def test_what_is_deleted_or_made_is_told_as_well(harness: UpdatesServer) -> None:
    note, client = harness.note("One"), harness.client().listed()
    await client.subscribed(note, "nc://files/Later/new.txt")
    harness.notes.delete(harness.notes.find(int(note.rpartition("/")[2])))
    harness.sandbox.state.users["alice"].files.make_folder("/Later")
    harness.sandbox.state.users["alice"].files.put("/Later/new.txt", b"1")

    await harness.look()

    assert sorted(client.heard()) == ["nc://files/Later/new.txt", note, "resources/list_changed"]


async def test_all_clients_of_a_person_cost_one_look_that_asks_for_etags_alone(
    harness: UpdatesServer, group: TaskGroup
) -> None:
    note = harness.note("One")
    for number in range(5):
        await harness.client().subscribe(note, README)
        group.start_soon(harness.client(modern=True, program=f"b{number}").listen, note, README)
    await settled()

    unchanged = await harness.look()
    harness.change(note)
    changed = await harness.look()

    home = "PROPFIND /remote.php/dav/files/alice"
    notes = "GET /index.php/apps/notes/api/v1/notes"
    assert unchanged == [notes, home]
    assert changed == [notes, home, f"{home}/Readme.md", home]


async def test_nextcloud_is_asked_only_while_a_client_is_subscribed(harness: UpdatesServer) -> None:
    note, one, other = harness.note("One"), harness.client(), harness.client()
    before = await harness.look()
    await one.subscribed(note)
    await other.subscribed(note)
    await one.leave()
    during = await harness.look()

    await other.unsubscribe(note)
    await other.unsubscribe("nc://notes/never")
    await harness.client().unsubscribe(note)
    after = await harness.look()

    assert before == after == []
    assert during
    assert harness.kept == 0


async def test_while_its_stream_is_closed_a_session_costs_nothing_and_then_it_hears_what_it_missed(
    harness: UpdatesServer,
) -> None:
    note, client = harness.note("One"), harness.client()
    await client.subscribed(note)
    client.attend()
    await settled()
    harness.network.seen.clear()
    client.turn_away()
    client.attend()
    await settled()
    still_there = list(harness.network.seen)
    client.turn_away()
    await harness.look()
    harness.change(note)
    before = client.heard()
    client.attend()
    await settled()

    assert still_there == before == []
    assert client.heard() == [note]


async def test_only_who_can_hear_is_looked_after_again_and_again() -> None:
    async with open_harness(seconds=0.01) as harness:
        looks, enough = Counter[str](), anyio.Event()

        def count(request: httpx2.Request) -> None:
            looks["notes" if request.url.path.endswith("/notes") else request.method] += 1
            if looks["PROPFIND"] > 5:
                enough.set()

        harness.network.instead = count
        gone, there = harness.client(), harness.client("bob")
        there.attend()
        await gone.subscribe(harness.note("One"))
        await there.subscribe(README)
        with anyio.fail_after(60):
            await enough.wait()

    assert looks["notes"] == 1


async def test_of_two_subscriptions_one_can_be_ended(harness: UpdatesServer) -> None:
    note, client = harness.note("One"), harness.client()
    await client.subscribed(note, README)
    await client.unsubscribe(note)
    harness.change(note)
    harness.sandbox.state.users["alice"].files.put("/Readme.md", b"new")

    await harness.look()

    assert client.heard() == [README]


async def test_a_stream_that_its_client_closes_leaves_nothing_behind(harness: UpdatesServer) -> None:
    client = harness.client(modern=True)
    async with anyio.create_task_group() as group:
        group.start_soon(client.listen, harness.note("One"))
        group.start_soon(client.listen, README)
        await settled()
        group.cancel_scope.cancel()

    assert await harness.look() == []
    assert harness.kept == 0


async def test_a_list_that_changes_is_told_to_those_who_asked_for_that(
    harness: UpdatesServer, group: TaskGroup
) -> None:
    wants, tools = harness.client(modern=True), harness.client(modern=True)
    session, unlisted = harness.client().listed(), harness.client()
    group.start_soon(lambda: wants.listen(resources=True))
    group.start_soon(lambda: tools.listen(tools=True))
    await session.subscribed(README)
    await unlisted.subscribed(README)
    for client in (wants, tools):
        client.heard()

    harness.note("New")
    await harness.look()
    with_note = [client.heard() for client in (wants, tools, session, unlisted)]
    harness.sandbox.state.users["alice"].files.put("/new.txt", b"1")
    await harness.look()
    with_file = [client.heard() for client in (wants, tools)]

    assert with_note == [["resources/list_changed"], [], ["resources/list_changed"], []]
    assert with_file == [["resources/list_changed"], []]


async def test_for_a_stream_that_named_nothing_no_database_is_opened_before_a_call(group: TaskGroup) -> None:
    async def apps(_: object) -> Apps:
        return Apps(AppList(frozenset({"notes"})))

    async with open_harness(known=False) as harness:
        client = harness.client(modern=True)
        group.start_soon(lambda: client.listen(resources=True))
        await settled()
        unopened = list(harness.opened)
        harness.state.availability.learn(ALICE, apps)
        await settled()

    assert unopened == []
    assert harness.opened
    assert "GET /index.php/apps/notes/api/v1/notes" in harness.network.seen


async def test_a_client_that_subscribes_while_the_server_starts_is_notified_too(group: TaskGroup) -> None:
    async with open_harness(running=False) as harness:
        await harness.client().subscribed(README)
        before = list(harness.network.seen)
        group.start_soon(harness.poller.run)
        await settled()

    assert not any(one.startswith("PROPFIND") for one in before)
    assert any(one.startswith("PROPFIND") for one in harness.network.seen)


@pytest.mark.parametrize("uri", ["nc://talk/1", "file:///etc/passwd"])
async def test_what_is_no_resource_cannot_be_subscribed_to(harness: UpdatesServer, uri: str) -> None:
    assert (await harness.client().refusal(uri)).startswith("There is no resource")


async def test_the_refusal_of_a_subscription_repeats_no_consent_link(harness: UpdatesServer) -> None:
    sentence = await harness.client().refusal("https://mcp.example.org/oauth/provision?elicitationId=1")

    assert "[link removed" in sentence
    assert "/oauth/provision" not in sentence


async def test_without_access_a_session_is_told_to_read_first_and_a_stream_is_promised_nothing(
    group: TaskGroup,
) -> None:
    async with open_harness(scopes=frozenset({"notes:read"})) as harness:
        session, stream = harness.client(), harness.client(modern=True)
        refused = await session.refusal(README)
        group.start_soon(stream.listen, README)
        await settled()

        assert refused.startswith("There is no access to this resource yet: read it")
        assert stream.honored() == []


async def test_a_request_on_no_session_cannot_subscribe(harness: UpdatesServer) -> None:
    assert await harness.client(modern=True).refusal(README) == "Subscribing needs a session."


async def test_a_nextcloud_that_cannot_be_asked_is_said_so(harness: UpdatesServer) -> None:
    harness.sandbox.faults.status(503, area="all")

    assert "Nextcloud" in await harness.client().refusal(README)


async def test_one_person_has_so_many_subscriptions_and_no_more(
    harness: UpdatesServer, group: TaskGroup
) -> None:
    client, other, bob = harness.client(), harness.client(), harness.client("bob")
    await client.subscribe(*(f"nc://files/{number}" for number in range(MAX_ADDRESSES)))
    stream = harness.client(modern=True)
    group.start_soon(lambda: stream.listen(README, resources=True))
    await settled()

    assert (await other.refusal(README)).startswith("There are too many subscriptions")
    assert (await client.refusal(README)).startswith("There are too many subscriptions")
    assert stream.honored() == []
    await client.subscribe("nc://files/1")
    await bob.subscribe(README)


async def test_one_person_has_so_many_sessions_and_streams_and_no_more(
    harness: UpdatesServer, group: TaskGroup
) -> None:
    for _ in range(MAX_INTERESTS):
        await harness.client().subscribe(README)
    for _ in range(updates.MAX_STREAMS):
        group.start_soon(harness.client(modern=True).listen)
    await settled()

    assert (await harness.client().refusal(README)).startswith("There are too many")
    assert await harness.client(modern=True).listen(README) is False


async def test_so_many_people_are_looked_after_and_no_more() -> None:
    async with open_harness(max_people=1) as harness:
        alice = harness.client()
        await alice.subscribe(README)
        refused = await harness.client("bob").refusal(README)
        await alice.leave()
        await harness.client("bob").subscribe(README)

    assert refused.startswith("There are too many")


async def test_a_refused_credential_ends_the_subscriptions_after_one_probe(
    harness: UpdatesServer, group: TaskGroup
) -> None:
    session, stream = harness.client().listed(), harness.client(modern=True)
    await session.subscribed(README)
    ended: list[bool] = []

    async def listen() -> None:
        ended.append(await stream.listen(README))

    group.start_soon(listen)
    await settled()
    harness.network.instead = lambda _: httpx2.Response(401, json={})

    asked = await harness.look()
    again = await harness.look()

    assert asked == ["PROPFIND /remote.php/dav/files/alice", "GET /ocs/v2.php/cloud/user"]
    assert again == []
    assert session.heard() == [README, "resources/list_changed"]
    assert ended == [True]
    assert harness.kept == 0


async def test_an_answer_for_another_user_ends_the_subscriptions_and_is_recorded(
    harness: UpdatesServer,
) -> None:
    session = harness.client()
    await session.subscribed(README)
    harness.network.instead = lambda _: httpx2.Response(207, headers={"X-User-Id": "bob"}, text="")

    await harness.look()

    assert session.heard() == [README]
    assert harness.audit.results == ["WrongAccount"]
    assert await harness.look() == []


@pytest.mark.parametrize(
    ("status", "headers"), [(503, {}), (429, {"Retry-After": "7200"}), (500, {})], ids=["503", "429", "500"]
)
async def test_a_nextcloud_in_trouble_is_left_in_peace_whatever_is_subscribed_meanwhile(
    harness: UpdatesServer, status: int, headers: dict[str, str]
) -> None:
    session = harness.client()
    await session.subscribed(README)
    harness.network.instead = lambda _: httpx2.Response(status, headers=headers)
    troubled = await harness.look()

    harness.network.instead = lambda _: None
    await session.subscribed("nc://files/other.txt")
    looked = await harness.look()

    assert set(troubled) == {"PROPFIND /remote.php/dav/files/alice"}
    assert bool(looked) == (status == 500)
    assert session.heard() == []


async def test_an_app_that_fails_hides_no_change_in_another(harness: UpdatesServer) -> None:
    session, note = harness.client(), harness.note("One")
    await session.subscribed(note, README)
    harness.network.instead = lambda request: httpx2.Response(404) if "/notes/" in request.url.path else None

    harness.sandbox.state.users["alice"].files.put("/Readme.md", b"new")
    await harness.look()

    assert session.heard() == [README]


@pytest.mark.parametrize("app", ["/notes/", "/dav/files/"])
async def test_what_a_failed_look_saw_is_told_by_the_next_one(harness: UpdatesServer, app: str) -> None:
    session, note, other = harness.client(), harness.note("One"), harness.note("Other")
    await session.subscribed(note, README)
    harness.network.instead = lambda request: httpx2.Response(503) if app in request.url.path else None
    harness.change(note)
    harness.sandbox.state.users["alice"].files.put("/Readme.md", b"new")
    await session.subscribe(other)
    harness.write(other)
    await harness.look()
    failed = session.heard()

    harness.network.instead = lambda _: None
    await harness.look_again()

    assert failed == []
    assert session.heard() == [README, note, other]


async def test_a_surprise_is_logged_and_the_person_looked_after_later(
    harness: UpdatesServer, caplog: pytest.LogCaptureFixture
) -> None:
    session = harness.client()
    await session.subscribed(README)

    def surprise(_: httpx2.Request) -> httpx2.Response:
        raise RuntimeError("surprise")

    harness.network.instead = surprise
    await harness.look()

    assert "a look for changes failed" in caplog.text
    assert harness.kept == 1


async def test_what_a_nextcloud_has_is_watched_as_well(harness: UpdatesServer) -> None:
    session = harness.client()
    await session.subscribed("nc://capabilities")
    harness.sandbox.state.users["alice"].denied_apps = frozenset({"deck"})

    await harness.look()

    assert session.heard() == ["nc://capabilities"]


async def test_what_a_client_changes_itself_is_heard_at_once_by_all_clients_of_its_person(
    harness: UpdatesServer, group: TaskGroup
) -> None:
    note = harness.note("One")
    session, stream = harness.client(), harness.client(modern=True, program="b")
    session.attend()
    await session.subscribed(note)
    group.start_soon(stream.listen, note)
    await settled()
    stream.heard()

    with anyio.fail_after(60):
        harness.write(note)
        await settled()

    # The next look of its own would come in an hour.
    assert session.heard() == stream.heard() == [note]


async def test_a_change_before_the_first_look_at_what_was_subscribed_to_is_heard(
    harness: UpdatesServer,
) -> None:
    note, other, client = harness.note("One"), harness.note("Other"), harness.client()
    client.attend()
    await client.subscribe(note)
    harness.write(note)
    await settled()
    first = client.heard()
    await client.subscribe(other)
    harness.write(other)
    await settled()

    assert first == [note]
    assert client.heard() == [other]


async def test_a_change_that_the_first_look_sees_before_its_call_has_ended_is_heard_once(
    harness: UpdatesServer,
) -> None:
    note, other, client = harness.note("One"), harness.note("Other"), harness.client()
    client.attend()
    began = anyio.current_time()
    harness.change(note)
    # The first look comes between the change at Nextcloud and the end of the call.
    await client.subscribed(note)
    before = client.heard()
    harness.state.availability.on_write(ALICE, began)
    await settled()
    first = client.heard()
    harness.write(other)
    await settled()

    assert before == []
    assert first == [note]
    assert client.heard() == []


async def test_a_call_of_another_person_or_for_those_who_hear_nothing_brings_no_look(
    harness: UpdatesServer,
) -> None:
    note, client = harness.note("One"), harness.client()
    client.attend()
    await client.subscribed(note)
    harness.network.seen.clear()
    harness.write(note, Principal("test", "bob"))
    await settled()
    of_another = list(harness.network.seen)
    client.turn_away()
    harness.write(note)
    await settled()
    unheard = list(harness.network.seen)
    client.attend()
    await harness.look()

    assert of_another == unheard == []
    assert client.heard() == [note]


async def test_a_refusal_does_not_repeat_a_consent_link(harness: UpdatesServer) -> None:
    link = "http://a.test/oauth/provision?elicitationId=1"

    refused = await harness.client().refusal(link)

    assert "/oauth/provision" not in refused
    assert "[link removed" in refused
