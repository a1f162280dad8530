"""What an operator does from the command line to a server that gives clients their tokens."""

import json
import re
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio import to_thread

from nextcloud_mcp_server.commands import accounts, audit, clients, grants, post_restore
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server.services import now, open_database
from nextcloud_mcp_server.settings.environment import Settings, load
from nextcloud_mcp_server.storage.records import AuditEntry, Grant, Principal
from tests.integration.builtin_app import CALLBACK, BuiltinApp, open_builtin_app
from tests.integration.personal_app import until

Capture = pytest.CaptureFixture[str]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
DOCUMENT = "https://app.example.org/oauth/client.json"


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield client


def settings_of(builtin_app: BuiltinApp) -> Settings:
    assert builtin_app.config
    return builtin_app.config


async def run(command: Callable[..., object], *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - the command's own
    await to_thread.run_sync(partial(command, *arguments, **options))


async def revoke(settings: Settings, **options: Any) -> None:  # noqa: ANN401 - the command's own
    await run(
        grants.revoke_grants,
        settings,
        **{"person": None, "client": None, "every": False, "yes": True} | options,
    )


async def grants_of(builtin_app: BuiltinApp) -> list[Grant]:
    async with open_database(settings_of(builtin_app)) as database:
        return await database.grants.all()


async def many(builtin_app: BuiltinApp, http: httpx2.AsyncClient, number: int) -> None:
    """Sign so many users in, each with a client."""
    for name in [f"person{one}" for one in range(number)]:
        builtin_app.sandbox.state.add_user(
            builtin_app.sandbox.state.users["alice"].__class__(name, name, name)
        )
        async with builtin_app.person(name) as person:
            await builtin_app.sign_in(person, http)


async def works(builtin_app: BuiltinApp, http: httpx2.AsyncClient, tokens: dict[str, Any]) -> bool:
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    return (await http.post(f"{builtin_app.url}/mcp", json=PING, headers=headers)).status_code != 401


async def test_clients_are_listed_with_where_they_come_from_and_whom_they_serve(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    await run(clients.list_clients, settings_of(builtin_app))
    nobody = capsys.readouterr()
    builtin_app.documents[DOCUMENT] = {"client_id": DOCUMENT, "redirect_uris": [CALLBACK, "cursor://app/cb"]}
    async with builtin_app.person("alice") as alice, builtin_app.person("bob") as bob:
        hers, his = await builtin_app.sign_in(alice, http), await builtin_app.sign_in(bob, http)
    await http.get(builtin_app.authorize_url(DOCUMENT), headers={"Accept": "text/html"})

    await run(clients.list_clients, settings_of(builtin_app))

    header, *listed = capsys.readouterr().out.splitlines()
    await run(clients.list_clients, settings_of(builtin_app), as_json=True)
    as_json = json.loads(capsys.readouterr().out)
    assert f"Each user adds {builtin_app.url}/mcp to a chat client." in nobody.err
    assert re.split(" {2,}", header) == [
        *("CLIENT ID", "CLIENT", "KNOWN BY", "RETURNS TO", "LAST USED", "USERS SIGNED IN")
    ]
    assert len(listed) == 3
    for tokens in (hers, his):
        (line,) = [one for one in listed if one.startswith(tokens["client_id"])]
        assert re.search(r" Claude +registered itself +127\.0\.0\.1 +\d{4}-\d\d-\d\d  1$", line)
    assert re.split(" {2,}", listed[-1]) == [
        *(DOCUMENT, "(no name)", "described by app.example.org", "127.0.0.1, cursor:", "not yet", "0")
    ]
    assert {line.index("registered") for line in listed[:2]} == {listed[-1].index("described")}
    assert as_json[-1] == {
        "id": DOCUMENT,
        "name": "",
        "described_by": "app.example.org",
        "leads_to": ["127.0.0.1", "cursor:"],
        "created_at": as_json[-1]["created_at"],
        "last_used_at": None,
        "users": 0,
    }


async def test_a_client_is_ended_for_all_users_and_asks_for_consent_again(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice:
        tokens = await builtin_app.sign_in(alice, http)

        await run(clients.revoke_client, settings_of(builtin_app), tokens["client_id"])

        assert "signed out for all users" in capsys.readouterr().out
        assert not await works(builtin_app, http, tokens)
        assert builtin_app.connected() == ["alice"]
        again = await builtin_app.sign_in(alice, http, only=("files:read",))
    await run(grants.list_grants, settings_of(builtin_app), as_json=False)
    # It registers anew, so it inherits nothing.
    assert again["client_id"] != tokens["client_id"]
    assert re.search(rf"Claude +{again['client_id']} +files:read ", capsys.readouterr().out)
    await run(clients.revoke_client, settings_of(builtin_app), again["client_id"])
    with pytest.raises(ConfigurationError, match="No client has the id"):
        await run(clients.revoke_client, settings_of(builtin_app), tokens["client_id"])


async def test_clients_belong_to_this_mode() -> None:
    with pytest.raises(ConfigurationError, match="with MODE=personal this server registers no clients"):
        await run(clients.list_clients, load(nextcloud_host="https://cloud.example.org"))


async def test_one_person_is_disconnected_and_the_other_stays(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice, builtin_app.person("bob") as bob:
        hers, his = await builtin_app.sign_in(alice, http), await builtin_app.sign_in(bob, http)

    await revoke(settings_of(builtin_app), person="alice")

    assert "alice is disconnected and signed out" in capsys.readouterr().out
    assert not await works(builtin_app, http, hers)
    assert await works(builtin_app, http, his)
    await builtin_app.restart()
    await until(lambda: builtin_app.connected() == ["bob"])
    with pytest.raises(ConfigurationError, match="No user is connected as 'alice'"):
        await revoke(settings_of(builtin_app), person="alice")
    with pytest.raises(ConfigurationError, match="No user is connected as 'nobody'"):
        await revoke(settings_of(builtin_app), person="nobody")
    with pytest.raises(ConfigurationError, match="needs to know whose: --person"):
        await revoke(settings_of(builtin_app), person=None)
    with pytest.raises(ConfigurationError, match="leave it out"):
        await revoke(load(nextcloud_host="https://cloud.example.org"), person="alice")


async def test_clients_of_a_user_without_access_to_nextcloud_are_signed_out_too(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice:
        tokens = await builtin_app.sign_in(alice, http)
    async with open_database(settings_of(builtin_app)) as database:
        ended = AuditEntry(now(), Principal(builtin_app.url, "alice"), "", "disconnect", "done")
        await database.grants.disconnect(ended.principal, audit=ended)
    assert await works(builtin_app, http, tokens)

    await revoke(settings_of(builtin_app), person="alice")

    assert "alice is disconnected and signed out" in capsys.readouterr().out
    assert not await works(builtin_app, http, tokens)


async def test_after_a_backup_all_users_sign_in_again_and_working_grants_are_kept(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice, builtin_app.person("bob") as bob:
        hers, his = await builtin_app.sign_in(alice, http), await builtin_app.sign_in(bob, http)
        await alice.consent(f"{builtin_app.url}/account")
        await builtin_app.stop()
        state = builtin_app.sandbox.state
        ended = {one.grant_id for one in state.app_passwords.values() if one.uid == "bob"}
        state.oauth_grants[:] = [grant for grant in state.oauth_grants if grant.id not in ended]
        paused: list[float] = []

        async def sleep(seconds: float) -> None:
            paused.append(seconds)

        await run(post_restore.restored, settings_of(builtin_app), allow_listed=False, sleep=sleep)
        await builtin_app.start()
        page = await alice.consent(f"{builtin_app.url}/account")

    told = capsys.readouterr()
    assert "Sign-ins that were ended: 2 of apps, 1 of browsers." in told.out
    assert "Accesses that work and were kept: 1 of 2. Users who are asked again: 1.\n" in told.out
    assert not await works(builtin_app, http, hers)
    assert not await works(builtin_app, http, his)
    assert "notes:read" in [choice.name for choice in page.choices if choice.ticked]
    assert paused == []


async def test_dead_accesses_are_looked_at_so_slowly_that_nextcloud_goes_on_answering(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    await many(builtin_app, http, 6)
    await builtin_app.stop()
    builtin_app.sandbox.state.oauth_grants.clear()
    paused: list[float] = []

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    await run(post_restore.restored, settings_of(builtin_app), allow_listed=False, sleep=sleep)

    assert "Users who are asked again: 6." in capsys.readouterr().out
    assert paused == [1_800]


async def test_a_nextcloud_that_is_down_ends_nothing(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice:
        await builtin_app.sign_in(alice, http)
    await builtin_app.stop()
    builtin_app.sandbox.faults.status(503, area="oauth2")

    await run(post_restore.restored, settings_of(builtin_app), allow_listed=True)

    told = capsys.readouterr()
    assert "kept: 0 of 1. Users who are asked again: 0. Looked at only when they are used" in told.out
    assert "alice: " in told.err
    assert [grant.credential.needs_reauth for grant in await grants_of(builtin_app)] == [False]


async def test_a_nextcloud_that_is_down_is_not_asked_about_all_users(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    await many(builtin_app, http, 5)
    await builtin_app.stop()
    builtin_app.sandbox.faults.status(503, area="oauth2")

    await run(post_restore.restored, settings_of(builtin_app), allow_listed=True)

    told = capsys.readouterr()
    assert "Looked at only when they are used, because that was not possible now: 5." in told.out
    assert told.err.count("person") == 3


async def test_an_access_that_was_refused_before_is_not_sent_again(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice:
        await builtin_app.sign_in(alice, http)
    await builtin_app.stop()
    builtin_app.sandbox.state.oauth_grants.clear()
    await run(post_restore.restored, settings_of(builtin_app), allow_listed=True)
    failures = builtin_app.sandbox.token_throttle.delay_ms("127.0.0.1")

    await run(post_restore.restored, settings_of(builtin_app), allow_listed=True)

    assert capsys.readouterr().out.count("Users who are asked again") == 1
    assert builtin_app.sandbox.token_throttle.delay_ms("127.0.0.1") == failures > 0


async def test_one_persons_server_has_nothing_to_renew_and_says_so_to_an_operator_of_another(
    tmp_path: Path, capsys: Capture
) -> None:
    settings = load(nextcloud_host="https://cloud.example.org", data_dir=tmp_path / "one")

    await run(post_restore.restored, settings, allow_listed=False)

    told = capsys.readouterr()
    assert "Sign-ins that were ended: 0 of apps, 0 of browsers." in told.out
    assert "run this again with the environment that it has" in told.err


async def test_the_holders_of_accounts_are_listed_as_a_table_and_for_programs(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    await run(accounts.list_accounts, settings_of(builtin_app), as_json=False)
    nobody = capsys.readouterr()
    async with builtin_app.person("alice") as alice, builtin_app.person("bob") as bob:
        await builtin_app.sign_in(alice, http)
        await builtin_app.sign_in(bob, http)
    async with open_database(settings_of(builtin_app)) as database:
        ended = AuditEntry(now(), Principal(builtin_app.url, "bob"), "", "disconnect", "done")
        await database.grants.disconnect(Principal(builtin_app.url, "bob"), audit=ended)

    await run(accounts.list_accounts, settings_of(builtin_app), as_json=False)
    table = capsys.readouterr().out.splitlines()
    await run(accounts.list_accounts, settings_of(builtin_app), as_json=True)
    read = json.loads(capsys.readouterr().out)

    assert "No user has connected" in nobody.err
    header, hers, his = table
    assert header.split() == ["ACCOUNT", "NEXTCLOUD", "HELD", "BY", "AT", "NAMED", "BY", "STATE", "SINCE"]
    state = header.index("STATE")
    assert [hers[state:].split()[0], his[state:].split()[0]] == ["connected", "disconnected"]
    assert [hers.split()[0], his.split()[0]] == ["alice", "bob"]
    assert [(each["uid"], each["subject"], each["connected"], each["named_by"]) for each in read] == [
        ("alice", "alice", True, "mapping"),
        ("bob", "bob", False, "mapping"),
    ]
    assert all(each["configured_issuer"] for each in read)


async def test_an_account_is_released_with_everything_that_its_holder_had(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice:
        tokens = await builtin_app.sign_in(alice, http)

    with pytest.raises(ConfigurationError, match="--yes"):
        await run(accounts.release_account, settings_of(builtin_app), "alice", issuer=None, yes=False)
    assert await works(builtin_app, http, tokens)
    await run(accounts.release_account, settings_of(builtin_app), "alice", issuer=builtin_app.url, yes=True)

    assert "alice is released" in capsys.readouterr().out
    assert not await works(builtin_app, http, tokens)
    assert await grants_of(builtin_app) == []
    with pytest.raises(ConfigurationError, match="No user holds the account 'alice'"):
        await run(accounts.release_account, settings_of(builtin_app), "alice", issuer=None, yes=True)


async def test_all_people_are_disconnected_and_signed_out_at_once(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice, builtin_app.person("bob") as bob:
        hers, his = await builtin_app.sign_in(alice, http), await builtin_app.sign_in(bob, http)

    with pytest.raises(ConfigurationError, match="Confirm it with --yes"):
        await revoke(settings_of(builtin_app), every=True, yes=False)
    with pytest.raises(ConfigurationError, match="--all ends every connection"):
        await revoke(settings_of(builtin_app), every=True, person="alice")
    assert await works(builtin_app, http, hers)
    await revoke(settings_of(builtin_app), every=True)

    assert "Every user is disconnected (2), and signed out: clients 2" in capsys.readouterr().out
    assert not await works(builtin_app, http, hers)
    assert not await works(builtin_app, http, his)
    assert await grants_of(builtin_app) == []
    await builtin_app.restart()
    await until(lambda: builtin_app.connected() == [])


async def test_one_client_loses_what_people_allowed_it_and_others_keep_theirs(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice:
        lost, kept = await builtin_app.sign_in(alice, http), await builtin_app.sign_in(alice, http)

    with pytest.raises(ConfigurationError, match="'bob' is not one who allows the client"):
        await revoke(settings_of(builtin_app), client=lost["client_id"], person="bob")
    with pytest.raises(ConfigurationError, match="No user allows the client 'nobody'"):
        await revoke(settings_of(builtin_app), client="nobody")
    await revoke(settings_of(builtin_app), client=lost["client_id"])

    assert "may do nothing any more in the name of alice" in capsys.readouterr().out
    assert not await works(builtin_app, http, lost)
    assert await works(builtin_app, http, kept)
    assert [grant.permission and grant.permission.client_id for grant in await grants_of(builtin_app)] == [
        kept["client_id"]
    ]
    assert builtin_app.connected() == ["alice"]


async def test_grants_and_audit_are_printed_for_programs(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice, builtin_app.person("bob") as bob:
        hers = await builtin_app.sign_in(alice, http, only=("files:read",))
        await builtin_app.sign_in(bob, http)
    settings = settings_of(builtin_app)

    await run(grants.list_grants, settings, as_json=True)
    (grant,) = [each for each in json.loads(capsys.readouterr().out) if each["person"] == "alice"]
    await run(audit.list_entries, settings, since="1h", person="alice", limit=50, as_json=True)
    listed = json.loads(capsys.readouterr().out)
    await run(audit.export_entries, settings, since=None, person=None)
    exported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert grant["client"] == {
        "id": hers["client_id"],
        "name": "Claude",
        "scopes": ["files:read"],
        "granted_at": grant["client"]["granted_at"],
        "last_used_at": None,
    }
    assert (grant["nextcloud_url"], grant["state"]) == (builtin_app.nextcloud_url, "works")
    assert {each["person"] for each in listed} == {"alice"}
    assert "granted" in {each["result"] for each in listed}
    assert {each["person"] for each in exported} == {"alice", "bob"}
    assert listed == [each for each in exported[::-1] if each["person"] == "alice"]


async def test_a_name_that_only_the_result_knew_is_kept_for_its_user_and_not_printed_for_the_operator(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, capsys: Capture
) -> None:
    async with builtin_app.person("alice") as alice:
        tokens = await builtin_app.sign_in(alice, http)
    async with builtin_app.client(tokens["access_token"]) as client:
        notes = (await client.call_tool("nc_notes_list_notes", {})).structured_content["notes"]
        [shopping] = [note for note in notes if note["title"] == "Shopping list"]
        await client.call_tool("nc_notes_get_note", {"note_id": shopping["id"]})
    # What was read is written down a little later, at the end at the latest.
    await builtin_app.stop()
    settings = settings_of(builtin_app)
    await run(audit.export_entries, settings, since=None, person=None)
    exported = capsys.readouterr().out

    async with open_database(settings) as database:
        kept = await database.audit.recent(Principal(builtin_app.url, "alice"), 10)

    assert [line.object_name for line in kept if line.action == "nc_notes_get_note"] == ["Shopping list"]
    assert f"note_id={shopping['id']}" in exported
    assert "Shopping list" not in exported
