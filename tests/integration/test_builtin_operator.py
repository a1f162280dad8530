"""What an operator does from the command line to a server that gives clients their tokens."""

from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread

from nextcloud_mcp_server.commands import clients, connection, restored
from nextcloud_mcp_server.doctor import Verdict
from nextcloud_mcp_server.doctor_builtin import look_at_discovery
from nextcloud_mcp_server.doctor_sign_in import look_at_grants
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings import Settings, load
from tests.integration.house import CALLBACK, House, open_house
from tests.integration.world import until

Capture = pytest.CaptureFixture[str]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
DOCUMENT = "https://app.example.org/oauth/client.json"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncGenerator[House]:
    async with open_house(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=30) as client:
        yield client


def settings_of(house: House) -> Settings:
    assert house.config
    return house.config


async def run(command: Callable[..., object], *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - the command's own
    await to_thread.run_sync(partial(command, *arguments, **options))


async def works(house: House, http: httpx2.AsyncClient, tokens: dict[str, Any]) -> bool:
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    return (await http.post(f"{house.url}/mcp", json=PING, headers=headers)).status_code != 401


async def test_clients_are_listed_with_where_they_come_from_and_whom_they_serve(
    house: House, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    await run(clients.list_clients, settings_of(house))
    nobody = capsys.readouterr()
    house.documents[DOCUMENT] = {"client_id": DOCUMENT, "redirect_uris": [CALLBACK, "cursor://app/cb"]}
    async with house.person("alice") as alice, house.person("bob") as bob:
        tokens = await house.sign_in(alice, http)
        await house.sign_in(bob, http)
    await http.get(house.authorize_url(DOCUMENT), headers={"Accept": "text/html"})

    await run(clients.list_clients, settings_of(house))

    listed = capsys.readouterr().out.splitlines()
    assert f"People add {house.url}/mcp to theirs." in nobody.err
    assert len(listed) == 2
    assert listed[0].startswith(
        f"{tokens['client_id']} · Claude · registered itself · to 127.0.0.1 · last used 2"
    )
    assert listed[0].endswith("· 2 signed in")
    assert listed[1] == (
        f"{DOCUMENT} · (no name) · described by app.example.org · to 127.0.0.1, cursor: · last used never · "
        "nobody is signed in"
    )


async def test_a_client_is_ended_for_everybody_and_what_it_may_do_stays(
    house: House, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with house.person("alice") as alice:
        tokens = await house.sign_in(alice, http)

    await run(clients.revoke_client, settings_of(house), tokens["client_id"])

    assert "signed out for everybody" in capsys.readouterr().out
    assert not await works(house, http, tokens)
    assert house.connected() == ["alice"]
    with pytest.raises(ConfigurationError, match="No client has the id"):
        await run(clients.revoke_client, settings_of(house), tokens["client_id"])


async def test_clients_belong_to_this_mode() -> None:
    with pytest.raises(ConfigurationError, match="with MODE=personal this server registers no clients"):
        await run(clients.list_clients, load(nextcloud_host="https://cloud.example.org"))


async def test_one_person_is_disconnected_and_the_other_stays(
    house: House, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with house.person("alice") as alice, house.person("bob") as bob:
        hers, his = await house.sign_in(alice, http), await house.sign_in(bob, http)

    await run(connection.revoke_grants, settings_of(house), "alice")

    assert "alice is disconnected and signed out" in capsys.readouterr().out
    assert not await works(house, http, hers)
    assert await works(house, http, his)
    await house.restart()
    await until(lambda: house.connected() == ["bob"], seconds=20)
    with pytest.raises(ConfigurationError, match="Nobody is connected as 'alice'"):
        await run(connection.revoke_grants, settings_of(house), "alice")
    with pytest.raises(ConfigurationError, match="add --person"):
        await run(connection.revoke_grants, settings_of(house), None)
    with pytest.raises(ConfigurationError, match="leave it out"):
        await run(connection.revoke_grants, load(nextcloud_host="https://cloud.example.org"), "alice")


async def test_after_a_backup_everybody_signs_in_again_and_what_still_works_is_kept(
    house: House, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with house.person("alice") as alice, house.person("bob") as bob:
        hers, his = await house.sign_in(alice, http), await house.sign_in(bob, http)
        await alice.consent(f"{house.url}/account")
        await house.stop()
        state = house.sandbox.state
        ended = {one.grant_id for one in state.app_passwords.values() if one.uid == "bob"}
        state.oauth_grants[:] = [grant for grant in state.oauth_grants if grant.id not in ended]
        paused: list[float] = []

        async def sleep(seconds: float) -> None:
            paused.append(seconds)

        await run(restored.restored, settings_of(house), allow_listed=False, sleep=sleep)
        await house.start()
        page = await alice.consent(f"{house.url}/account")

    told = capsys.readouterr()
    assert "Ended 2 sign-ins of apps and 1 of browsers" in told.out
    assert "1 of 2 accesses were looked at and kept; 1 people are asked again." in told.out
    assert not await works(house, http, hers)
    assert not await works(house, http, his)
    assert "Read your notes" in page.text
    assert paused == []


async def test_dead_accesses_are_looked_at_so_slowly_that_nextcloud_goes_on_answering(
    house: House, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    people = [f"person{number}" for number in range(6)]
    for name in people:
        house.sandbox.state.add_user(house.sandbox.state.users["alice"].__class__(name, name, name))
        async with house.person(name) as person:
            await house.sign_in(person, http)
    await house.stop()
    house.sandbox.state.oauth_grants.clear()
    paused: list[float] = []

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    await run(restored.restored, settings_of(house), allow_listed=False, sleep=sleep)

    assert "6 people are asked again" in capsys.readouterr().out
    assert paused == [1_800]


async def test_a_nextcloud_that_is_down_ends_nothing(
    house: House, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with house.person("alice") as alice:
        await house.sign_in(alice, http)
    await house.stop()
    house.sandbox.faults.status(503, area="oauth2")

    await run(restored.restored, settings_of(house), allow_listed=True)

    told = capsys.readouterr()
    assert "1 of 1 accesses were looked at and kept" in told.out
    assert "alice: " in told.err


async def test_one_persons_server_has_nothing_to_renew(tmp_path: Path, capsys: Capture) -> None:
    settings = load(nextcloud_host="https://cloud.example.org", data_dir=tmp_path / "one")

    await run(restored.restored, settings, allow_listed=False)

    assert "Ended 0 sign-ins of apps and 0 of browsers" in capsys.readouterr().out


async def test_the_doctor_finds_the_client_and_what_clients_find(house: House) -> None:
    settings = settings_of(house)
    async with httpx2.AsyncClient() as pool:
        (client,) = await look_at_grants(settings, pool)
        hosted, discovery = await look_at_discovery(settings, pool)
        await house.stop()
        other = settings.model_copy(update={"nextcloud_mcp_server_url": "https://localhost"})
        with anyio.fail_after(20):
            private, silent = await look_at_discovery(other, pool)
            unknown, _ = await look_at_discovery(
                settings.model_copy(update={"nextcloud_mcp_server_url": "https://nowhere.invalid"}), pool
            )

    assert (client.verdict, hosted.verdict, discovery.verdict) == (Verdict.OK, Verdict.WARN, Verdict.OK)
    assert "not https on port 443" in hosted.text
    assert (private.verdict, silent.verdict, unknown.verdict) == (Verdict.WARN, Verdict.WARN, Verdict.FAIL)
    assert "private network" in private.text


async def test_the_doctor_tells_another_name_and_a_public_address() -> None:
    settings = load(
        mode="builtin",
        nextcloud_host="https://cloud.example.org",
        nextcloud_mcp_server_url="https://1.1.1.1",
        token_encryption_keys="a-key",
        nextcloud_oauth_client_id="a",
        nextcloud_oauth_client_secret="b",
    )
    answers = {"issuer": "https://other.example.org"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=answers))
    async with httpx2.AsyncClient(transport=transport) as pool:
        hosted, discovery = await look_at_discovery(settings, pool)
        six, _ = await look_at_discovery(
            settings.model_copy(update={"nextcloud_mcp_server_url": "https://[2606:4700:4700::1111]"}), pool
        )

    assert (hosted.verdict, discovery.verdict, six.verdict) == (Verdict.OK, Verdict.FAIL, Verdict.WARN)
    assert "calls itself https://other.example.org" in discovery.text
    assert "no IPv4 address" in six.text
