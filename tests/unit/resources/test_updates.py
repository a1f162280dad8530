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
from tests.updates_fixtures import ALICE, UpdatesServer, open_stage, settled

README = "nc://files/Readme.md"


@pytest.fixture
async def stage() -> AsyncGenerator[UpdatesServer]:
    async with open_stage() as made:
        yield made


@pytest.fixture
async def group() -> AsyncGenerator[TaskGroup]:
    async with anyio.create_task_group() as running:
        yield running
        running.cancel_scope.cancel()


async def test_a_session_hears_of_the_note_it_named_and_of_no_other(stage: UpdatesServer) -> None:
    one, other = stage.note("One"), stage.note("Other")
    client = stage.client()
    await client.subscribed(one, f"{one} with a title")
    stage.change(other)
    await stage.look()
    quiet = client.heard()

    stage.change(one)
    await stage.look()

    assert quiet == []
    assert sorted(client.heard()) == [one, f"{one} with a title"]


async def test_a_stream_is_promised_what_it_may_hear_of_and_hears_it(
    stage: UpdatesServer, group: TaskGroup
) -> None:
    note, client = stage.note("One"), stage.client(modern=True)
    group.start_soon(client.listen, note, README, "nc://talk/1")
    await settled()
    honored = client.honored()
    client.heard()

    stage.sandbox.state.users["alice"].files.put("/Readme.md", b"new")
    await stage.look()

    assert honored == [note, README]
    assert client.heard() == [README]


async def test_what_is_deleted_or_made_is_told_as_well(stage: UpdatesServer) -> None:
    note, client = stage.note("One"), stage.client().listed()
    await client.subscribed(note, "nc://files/Later/new.txt")
    stage.notes.delete(stage.notes.find(int(note.rpartition("/")[2])))
    stage.sandbox.state.users["alice"].files.make_folder("/Later")
    stage.sandbox.state.users["alice"].files.put("/Later/new.txt", b"1")

    await stage.look()

    assert sorted(client.heard()) == ["nc://files/Later/new.txt", note, "resources/list_changed"]


async def test_all_clients_of_a_person_cost_one_look_that_asks_for_etags_alone(
    stage: UpdatesServer, group: TaskGroup
) -> None:
    note = stage.note("One")
    for number in range(5):
        await stage.client().subscribe(note, README)
        group.start_soon(stage.client(modern=True, program=f"b{number}").listen, note, README)
    await settled()

    unchanged = await stage.look()
    stage.change(note)
    changed = await stage.look()

    home = "PROPFIND /remote.php/dav/files/alice"
    notes = "GET /index.php/apps/notes/api/v1/notes"
    assert unchanged == [notes, home]
    assert changed == [notes, home, f"{home}/Readme.md", home]


async def test_nextcloud_is_asked_only_while_a_client_is_subscribed(stage: UpdatesServer) -> None:
    note, one, other = stage.note("One"), stage.client(), stage.client()
    before = await stage.look()
    await one.subscribed(note)
    await other.subscribed(note)
    await one.leave()
    during = await stage.look()

    await other.unsubscribe(note)
    await other.unsubscribe("nc://notes/never")
    await stage.client().unsubscribe(note)
    after = await stage.look()

    assert before == after == []
    assert during
    assert stage.kept == 0


async def test_while_its_stream_is_closed_a_session_costs_nothing_and_then_it_hears_what_it_missed(
    stage: UpdatesServer,
) -> None:
    note, client = stage.note("One"), stage.client()
    await client.subscribed(note)
    client.attend()
    await settled()
    stage.network.seen.clear()
    client.turn_away()
    client.attend()
    await settled()
    still_there = list(stage.network.seen)
    client.turn_away()
    await stage.look()
    stage.change(note)
    before = client.heard()
    client.attend()
    await settled()

    assert still_there == before == []
    assert client.heard() == [note]


async def test_only_who_can_hear_is_looked_after_again_and_again() -> None:
    async with open_stage(seconds=0.01) as stage:
        looks, enough = Counter[str](), anyio.Event()

        def count(request: httpx2.Request) -> None:
            looks["notes" if request.url.path.endswith("/notes") else request.method] += 1
            if looks["PROPFIND"] > 5:
                enough.set()

        stage.network.instead = count
        gone, there = stage.client(), stage.client("bob")
        there.attend()
        await gone.subscribe(stage.note("One"))
        await there.subscribe(README)
        with anyio.fail_after(60):
            await enough.wait()

    assert looks["notes"] == 1


async def test_of_two_subscriptions_one_can_be_ended(stage: UpdatesServer) -> None:
    note, client = stage.note("One"), stage.client()
    await client.subscribed(note, README)
    await client.unsubscribe(note)
    stage.change(note)
    stage.sandbox.state.users["alice"].files.put("/Readme.md", b"new")

    await stage.look()

    assert client.heard() == [README]


async def test_a_stream_that_its_client_closes_leaves_nothing_behind(stage: UpdatesServer) -> None:
    client = stage.client(modern=True)
    async with anyio.create_task_group() as group:
        group.start_soon(client.listen, stage.note("One"))
        group.start_soon(client.listen, README)
        await settled()
        group.cancel_scope.cancel()

    assert await stage.look() == []
    assert stage.kept == 0


async def test_a_list_that_changes_is_told_to_those_who_asked_for_that(
    stage: UpdatesServer, group: TaskGroup
) -> None:
    wants, tools = stage.client(modern=True), stage.client(modern=True)
    session, unlisted = stage.client().listed(), stage.client()
    group.start_soon(lambda: wants.listen(resources=True))
    group.start_soon(lambda: tools.listen(tools=True))
    await session.subscribed(README)
    await unlisted.subscribed(README)
    for client in (wants, tools):
        client.heard()

    stage.note("New")
    await stage.look()
    with_note = [client.heard() for client in (wants, tools, session, unlisted)]
    stage.sandbox.state.users["alice"].files.put("/new.txt", b"1")
    await stage.look()
    with_file = [client.heard() for client in (wants, tools)]

    assert with_note == [["resources/list_changed"], [], ["resources/list_changed"], []]
    assert with_file == [["resources/list_changed"], []]


async def test_for_a_stream_that_named_nothing_no_database_is_opened_before_a_call(group: TaskGroup) -> None:
    async def apps(_: object) -> Apps:
        return Apps(AppList(frozenset({"notes"})))

    async with open_stage(known=False) as stage:
        client = stage.client(modern=True)
        group.start_soon(lambda: client.listen(resources=True))
        await settled()
        unopened = list(stage.opened)
        stage.state.availability.learn(ALICE, apps)
        await settled()

    assert unopened == []
    assert stage.opened
    assert "GET /index.php/apps/notes/api/v1/notes" in stage.network.seen


async def test_a_client_that_subscribes_while_the_server_starts_is_notified_too(group: TaskGroup) -> None:
    async with open_stage(running=False) as stage:
        await stage.client().subscribed(README)
        before = list(stage.network.seen)
        group.start_soon(stage.poller.run)
        await settled()

    assert not any(one.startswith("PROPFIND") for one in before)
    assert any(one.startswith("PROPFIND") for one in stage.network.seen)


@pytest.mark.parametrize("uri", ["nc://talk/1", "file:///etc/passwd"])
async def test_what_is_no_resource_cannot_be_subscribed_to(stage: UpdatesServer, uri: str) -> None:
    assert (await stage.client().refusal(uri)).startswith("There is no resource")


async def test_the_refusal_of_a_subscription_repeats_no_consent_link(stage: UpdatesServer) -> None:
    sentence = await stage.client().refusal("https://mcp.example.org/oauth/provision?elicitationId=1")

    assert "[link removed" in sentence
    assert "/oauth/provision" not in sentence


async def test_without_access_a_session_is_told_to_read_first_and_a_stream_is_promised_nothing(
    group: TaskGroup,
) -> None:
    async with open_stage(scopes=frozenset({"notes:read"})) as stage:
        session, stream = stage.client(), stage.client(modern=True)
        refused = await session.refusal(README)
        group.start_soon(stream.listen, README)
        await settled()

        assert refused.startswith("There is no access to this resource yet: read it")
        assert stream.honored() == []


async def test_a_request_on_no_session_cannot_subscribe(stage: UpdatesServer) -> None:
    assert await stage.client(modern=True).refusal(README) == "Subscribing needs a session."


async def test_a_nextcloud_that_cannot_be_asked_is_said_so(stage: UpdatesServer) -> None:
    stage.sandbox.faults.status(503, area="all")

    assert "Nextcloud" in await stage.client().refusal(README)


async def test_one_person_has_so_many_subscriptions_and_no_more(
    stage: UpdatesServer, group: TaskGroup
) -> None:
    client, other, bob = stage.client(), stage.client(), stage.client("bob")
    await client.subscribe(*(f"nc://files/{number}" for number in range(MAX_ADDRESSES)))
    stream = stage.client(modern=True)
    group.start_soon(lambda: stream.listen(README, resources=True))
    await settled()

    assert (await other.refusal(README)).startswith("There are too many subscriptions")
    assert (await client.refusal(README)).startswith("There are too many subscriptions")
    assert stream.honored() == []
    await client.subscribe("nc://files/1")
    await bob.subscribe(README)


async def test_one_person_has_so_many_sessions_and_streams_and_no_more(
    stage: UpdatesServer, group: TaskGroup
) -> None:
    for _ in range(MAX_INTERESTS):
        await stage.client().subscribe(README)
    for _ in range(updates.MAX_STREAMS):
        group.start_soon(stage.client(modern=True).listen)
    await settled()

    assert (await stage.client().refusal(README)).startswith("There are too many")
    assert await stage.client(modern=True).listen(README) is False


async def test_so_many_people_are_looked_after_and_no_more() -> None:
    async with open_stage(max_people=1) as stage:
        alice = stage.client()
        await alice.subscribe(README)
        refused = await stage.client("bob").refusal(README)
        await alice.leave()
        await stage.client("bob").subscribe(README)

    assert refused.startswith("There are too many")


async def test_a_refused_credential_ends_the_subscriptions_after_one_probe(
    stage: UpdatesServer, group: TaskGroup
) -> None:
    session, stream = stage.client().listed(), stage.client(modern=True)
    await session.subscribed(README)
    ended: list[bool] = []

    async def listen() -> None:
        ended.append(await stream.listen(README))

    group.start_soon(listen)
    await settled()
    stage.network.instead = lambda _: httpx2.Response(401, json={})

    asked = await stage.look()
    again = await stage.look()

    assert asked == ["PROPFIND /remote.php/dav/files/alice", "GET /ocs/v2.php/cloud/user"]
    assert again == []
    assert session.heard() == [README, "resources/list_changed"]
    assert ended == [True]
    assert stage.kept == 0


async def test_an_answer_for_another_user_ends_the_subscriptions_and_is_recorded(
    stage: UpdatesServer,
) -> None:
    session = stage.client()
    await session.subscribed(README)
    stage.network.instead = lambda _: httpx2.Response(207, headers={"X-User-Id": "bob"}, text="")

    await stage.look()

    assert session.heard() == [README]
    assert stage.audit.results == ["WrongAccount"]
    assert await stage.look() == []


@pytest.mark.parametrize(
    ("status", "headers"), [(503, {}), (429, {"Retry-After": "7200"}), (500, {})], ids=["503", "429", "500"]
)
async def test_a_nextcloud_in_trouble_is_left_in_peace_whatever_is_subscribed_meanwhile(
    stage: UpdatesServer, status: int, headers: dict[str, str]
) -> None:
    session = stage.client()
    await session.subscribed(README)
    stage.network.instead = lambda _: httpx2.Response(status, headers=headers)
    troubled = await stage.look()

    stage.network.instead = lambda _: None
    await session.subscribed("nc://files/other.txt")
    looked = await stage.look()

    assert set(troubled) == {"PROPFIND /remote.php/dav/files/alice"}
    assert bool(looked) == (status == 500)
    assert session.heard() == []


async def test_an_app_that_fails_hides_no_change_in_another(stage: UpdatesServer) -> None:
    session, note = stage.client(), stage.note("One")
    await session.subscribed(note, README)
    stage.network.instead = lambda request: httpx2.Response(404) if "/notes/" in request.url.path else None

    stage.sandbox.state.users["alice"].files.put("/Readme.md", b"new")
    await stage.look()

    assert session.heard() == [README]


@pytest.mark.parametrize("app", ["/notes/", "/dav/files/"])
async def test_what_a_failed_look_saw_is_told_by_the_next_one(stage: UpdatesServer, app: str) -> None:
    session, note, other = stage.client(), stage.note("One"), stage.note("Other")
    await session.subscribed(note, README)
    stage.network.instead = lambda request: httpx2.Response(503) if app in request.url.path else None
    stage.change(note)
    stage.sandbox.state.users["alice"].files.put("/Readme.md", b"new")
    await session.subscribe(other)
    stage.write(other)
    await stage.look()
    failed = session.heard()

    stage.network.instead = lambda _: None
    await stage.look_again()

    assert failed == []
    assert session.heard() == [README, note, other]


async def test_a_surprise_is_logged_and_the_person_looked_after_later(
    stage: UpdatesServer, caplog: pytest.LogCaptureFixture
) -> None:
    session = stage.client()
    await session.subscribed(README)

    def surprise(_: httpx2.Request) -> httpx2.Response:
        raise RuntimeError("surprise")

    stage.network.instead = surprise
    await stage.look()

    assert "a look for changes failed" in caplog.text
    assert stage.kept == 1


async def test_what_a_nextcloud_has_is_watched_as_well(stage: UpdatesServer) -> None:
    session = stage.client()
    await session.subscribed("nc://capabilities")
    stage.sandbox.state.users["alice"].denied_apps = frozenset({"deck"})

    await stage.look()

    assert session.heard() == ["nc://capabilities"]


async def test_what_a_client_changes_itself_is_heard_at_once_by_all_clients_of_its_person(
    stage: UpdatesServer, group: TaskGroup
) -> None:
    note = stage.note("One")
    session, stream = stage.client(), stage.client(modern=True, program="b")
    session.attend()
    await session.subscribed(note)
    group.start_soon(stream.listen, note)
    await settled()
    stream.heard()

    with anyio.fail_after(60):
        stage.write(note)
        await settled()

    # The next look of its own would come in an hour.
    assert session.heard() == stream.heard() == [note]


async def test_a_change_before_the_first_look_at_what_was_subscribed_to_is_heard(
    stage: UpdatesServer,
) -> None:
    note, other, client = stage.note("One"), stage.note("Other"), stage.client()
    client.attend()
    await client.subscribe(note)
    stage.write(note)
    await settled()
    first = client.heard()
    await client.subscribe(other)
    stage.write(other)
    await settled()

    assert first == [note]
    assert client.heard() == [other]


async def test_a_change_that_the_first_look_sees_before_its_call_has_ended_is_heard_once(
    stage: UpdatesServer,
) -> None:
    note, other, client = stage.note("One"), stage.note("Other"), stage.client()
    client.attend()
    began = anyio.current_time()
    stage.change(note)
    # The first look comes between the change at Nextcloud and the end of the call.
    await client.subscribed(note)
    before = client.heard()
    stage.state.availability.on_write(ALICE, began)
    await settled()
    first = client.heard()
    stage.write(other)
    await settled()

    assert before == []
    assert first == [note]
    assert client.heard() == []


async def test_a_call_of_another_person_or_for_those_who_hear_nothing_brings_no_look(
    stage: UpdatesServer,
) -> None:
    note, client = stage.note("One"), stage.client()
    client.attend()
    await client.subscribed(note)
    stage.network.seen.clear()
    stage.write(note, Principal("test", "bob"))
    await settled()
    of_another = list(stage.network.seen)
    client.turn_away()
    stage.write(note)
    await settled()
    unheard = list(stage.network.seen)
    client.attend()
    await stage.look()

    assert of_another == unheard == []
    assert client.heard() == [note]


async def test_a_refusal_does_not_repeat_a_consent_link(stage: UpdatesServer) -> None:
    link = "http://a.test/oauth/provision?elicitationId=1"

    refused = await stage.client().refusal(link)

    assert "/oauth/provision" not in refused
    assert "[link removed" in refused
