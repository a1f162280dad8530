"""A tool call whose access token Nextcloud refuses is made once more with a renewed one, where that is safe."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult

from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.auth.accounts import GrantedAccounts
from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.auth.token_refresh import RETRY
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.protocol.availability import Availability
from nextcloud_mcp_server.protocol.change_notifier import ChangeNotifier
from nextcloud_mcp_server.protocol.completion_notifier import CompletionNotifier
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.tools.boundary import GuardedTool
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.state import State
from nextcloud_mcp_server.tools.toolset import Toolset, ToolSpec, require_provisioning
from tests.auth_fixtures import READ, WRITE, make_template, open_harness
from tests.oauth_fixtures import Office, Replica, caller, is_refresh, office_of

LIST, CREATE = "nc_notes_list_notes", "nc_notes_create_note"
BOTH = READ | WRITE


@dataclass(frozen=True)
class Parts:
    accounts: GrantedAccounts
    provisioning: Provisioning | None
    audit: AuditLog
    bound: frozenset[str] = frozenset(SCOPES)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncGenerator[Office]:
    async with open_harness(tmp_path, await make_template(tmp_path)) as harness:
        yield office_of(harness)


@pytest.fixture
async def replica(office: Office) -> Replica:
    made = await office.replica()
    await office.connect(made, scopes=BOTH)
    return made


def specs() -> list[ToolSpec]:
    return [*mcp_server.select(("notes",), exclude=(), read_only=False), *extra.tools]


def state_of(office: Office, replica: Replica) -> State:
    parts = Parts(replica.accounts, None, AuditLog(replica.database, clock=office.harness.clock))

    async def services() -> Parts:
        return parts

    async def finished(elicitation_ids: object) -> list[str]:
        return []

    pending = Pending(finished)
    facts = mcp_server.facts(specs())
    availability = Availability(facts, ChangeNotifier(lambda _: caller().principal))
    return State(
        services=services,
        caller=lambda _: caller(),
        pending=pending,
        notifier=CompletionNotifier(pending),
        availability=availability,
        dialect="text",
        hold_seconds=0.01,
    )


async def call(office: Office, replica: Replica, name: str, arguments: dict[str, Any]) -> CallToolResult:
    state = state_of(office, replica)
    tools: list[Any] = [GuardedTool.build(spec, state) for spec in specs()]
    async with Client(MCPServer("test", tools=tools)) as client:
        return await client.call_tool(name, arguments)


def notes_of(office: Office, method: str) -> list[httpx2.Request]:
    asked = office.harness.network.asked
    return [one for one in asked if "/apps/notes/" in one.url.path and one.method == method]


extra = Toolset("notes")


@extra.tool("Make a note and look at it")
@require_provisioning("notes:write")
async def nc_notes_make_and_look(nc: Account) -> Result:
    """Make a note, and then look at it in a second request."""
    made = await nc.client(NotesClient).create(title="Made", content="", category="", favorite=False)
    await nc.client(NotesClient).get(made.id)
    raise AssertionError("the second request was to be refused")


def kill_the_access_token(office: Office) -> None:
    state = office.harness.sandbox.state
    for grant in state.oauth_grants:
        grant_tokens = [one for one in state.app_passwords.values() if one.grant_id == grant.id]
        for one in grant_tokens:
            state.app_passwords["refused"] = state.app_passwords.pop(one.secret)
        grant.access_token = "refused"


@pytest.mark.parametrize(
    ("name", "arguments", "method"), [(LIST, {}, "GET"), (CREATE, {"title": "Made once"}, "POST")]
)
async def test_a_call_that_is_refused_at_its_first_request_is_made_again(
    office: Office, replica: Replica, name: str, arguments: dict[str, Any], method: str
) -> None:
    kill_the_access_token(office)

    result = await call(office, replica, name, arguments)

    assert not result.is_error, result.content
    assert office.refreshes() == 1
    assert len(notes_of(office, method)) == 2


async def test_a_call_that_has_changed_something_is_not_made_again(office: Office, replica: Replica) -> None:
    async def refuse_the_look(request: httpx2.Request) -> httpx2.Response | None:
        # The question that confirms a refusal is refused too.
        look = request.method == "GET" and (
            "/apps/notes/" in request.url.path or "cloud/user" in request.url.path
        )
        return httpx2.Response(401, request=request) if look else None

    office.harness.network.before = refuse_the_look
    result = await call(office, replica, "nc_notes_make_and_look", {})

    assert result.is_error
    assert "Read again what was changed" in str(result.content)
    assert len(notes_of(office, "POST")) == 1
    assert not (await replica.grant()).credential.needs_reauth


async def test_a_call_that_has_changed_something_asks_for_no_access_that_would_repeat_it(
    office: Office, replica: Replica
) -> None:
    """Clients, and tasks, repeat a call by themselves as soon as its question is answered."""

    async def refuse(request: httpx2.Request) -> httpx2.Response | None:
        if is_refresh(request):
            return httpx2.Response(400, json={"error": "invalid_grant"}, request=request)
        look = request.method == "GET" and (
            "/apps/notes/" in request.url.path or "cloud/user" in request.url.path
        )
        return httpx2.Response(401, request=request) if look else None

    office.harness.network.before = refuse
    result = await call(office, replica, "nc_notes_make_and_look", {})
    then = await call(office, replica, LIST, {})

    assert "Read again what was changed before" in str(result.content)
    assert "https://mcp.test/oauth/provision" not in str(result.content)
    assert "https://mcp.test/oauth/provision" in str(then.content)
    assert len(notes_of(office, "POST")) == 1


async def test_a_renewed_token_that_is_refused_too_ends_in_the_question_for_access(
    office: Office, replica: Replica
) -> None:
    async def refuse(request: httpx2.Request) -> httpx2.Response | None:
        return None if is_refresh(request) else httpx2.Response(401, request=request)

    office.harness.network.before = refuse
    first = await call(office, replica, LIST, {})
    second = await call(office, replica, LIST, {})

    assert "https://mcp.test/oauth/provision" in str(first.content)
    assert "https://mcp.test/oauth/provision" in str(second.content)
    assert office.refreshes() == 1
    assert len(notes_of(office, "GET")) == 2


async def test_a_grant_that_was_revoked_at_nextcloud_is_asked_about_once(
    office: Office, replica: Replica
) -> None:
    office.harness.sandbox.state.app_passwords.clear()
    office.harness.sandbox.state.oauth_grants.clear()

    for _ in range(3):
        result = await call(office, replica, LIST, {})
        assert "https://mcp.test/oauth/provision" in str(result.content)

    assert office.refreshes() == 1
    assert len(notes_of(office, "GET")) == 1


async def test_a_permission_that_is_taken_back_meanwhile_is_not_used_for_the_second_try(
    office: Office, replica: Replica
) -> None:
    kill_the_access_token(office)

    async def untick(request: httpx2.Request) -> None:
        if is_refresh(request):
            person = caller()
            await replica.database.grants.set_scopes(person.principal, person.client_id, READ)

    office.harness.network.after = untick
    result = await call(office, replica, CREATE, {"title": "Never made"})

    assert "https://mcp.test/oauth/provision" in str(result.content)
    assert len(notes_of(office, "POST")) == 1


async def test_a_refusal_of_what_was_replaced_meanwhile_is_followed_by_a_try_with_the_new_one(
    office: Office, replica: Replica
) -> None:
    refused: set[str] = set()

    async def replace_and_refuse(request: httpx2.Request) -> httpx2.Response | None:
        if request.headers.get("Authorization") in refused:
            return httpx2.Response(401, request=request)
        if "/apps/notes/" not in request.url.path or len(notes_of(office, "GET")) > 1:
            return None
        refused.add(request.headers["Authorization"])
        office.harness.clock.forward(1)
        await office.connect(replica, scopes=BOTH)
        return httpx2.Response(401, request=request)

    office.harness.network.before = replace_and_refuse
    result = await call(office, replica, LIST, {})

    assert not result.is_error, result.content
    assert office.refreshes() == 0
    assert len({one.headers["Authorization"] for one in notes_of(office, "GET")}) == 2
    assert not (await replica.grant()).credential.needs_reauth


async def test_one_call_meets_two_refusals_at_most(office: Office, replica: Replica) -> None:
    refused: set[str] = set()

    async def replace_and_refuse(request: httpx2.Request) -> httpx2.Response | None:
        if request.headers.get("Authorization") in refused:
            return httpx2.Response(401, request=request)
        if "/apps/notes/" not in request.url.path:
            return None
        refused.add(request.headers["Authorization"])
        office.harness.clock.forward(1)
        await office.connect(replica, scopes=BOTH)
        return httpx2.Response(401, request=request)

    office.harness.network.before = replace_and_refuse
    result = await call(office, replica, LIST, {})

    assert result.is_error
    assert "granted anew meanwhile" in str(result.content)
    assert len(notes_of(office, "GET")) == 2
    assert not (await replica.grant()).credential.needs_reauth


async def test_a_refused_token_that_cannot_be_renewed_yet_is_not_shown_to_nextcloud_again(
    office: Office, replica: Replica
) -> None:
    kill_the_access_token(office)

    async def no_tokens_now(request: httpx2.Request) -> httpx2.Response | None:
        return await office.harness.network.cut(request) if is_refresh(request) else None

    office.harness.network.before = no_tokens_now
    refused = [await call(office, replica, LIST, {}) for _ in range(3)]
    shown = len(notes_of(office, "GET"))
    office.harness.network.before = None
    office.harness.clock.forward(RETRY.total_seconds())
    works = await call(office, replica, LIST, {})

    assert all(result.is_error for result in refused)
    assert shown == 1
    assert not works.is_error, works.content
