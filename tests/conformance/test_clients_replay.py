"""Each client of the table goes its whole way against the running server, step by step as it was seen to."""

import base64
import re
import secrets
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import anyio
import httpx2
import pytest

from tests.clients_fixtures import IN_ORDER
from tests.conformance.clients_table import ALL, CHALLENGED, CLIENTS, Refresh, Row, ScopeAtRefresh
from tests.integration.builtin_app import BuiltinApp, code_in, open_builtin_app, query_of
from tests.tokens_fixtures import VERIFIER, challenge_of

every_client = pytest.mark.parametrize("row", CLIENTS, ids=lambda row: row.name)
PLAIN_HOSTS = ",".join(sorted({host for row in CLIENTS for host in row.plain_hosts}))


@pytest.fixture(scope="module")
async def builtin_app(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path_factory.mktemp("builtin"), plain_hosts=PLAIN_HOSTS) as opened:
        yield opened


class Replay:
    """One client, and what it has learned so far."""

    def __init__(self, builtin_app: BuiltinApp, http: httpx2.AsyncClient, row: Row) -> None:
        self.builtin_app = builtin_app
        self.http = http
        self.row = row
        self.challenged = ""
        self.metadata: dict[str, Any] = {}
        self.registered: dict[str, Any] = {}
        self.granted = ""

    async def discover(self) -> None:
        """Ask without a token, and look for the authorization server in this client's order."""
        refused = await self.http.post(
            f"{self.builtin_app.url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}
        )
        assert refused.status_code == 401
        named = dict(re.findall(r'(\w+)="([^"]*)"', refused.headers["WWW-Authenticate"]))
        self.challenged = named["scope"]
        url = named["resource_metadata"]
        if not self.row.follows_resource_metadata:
            url = f"{self.builtin_app.url}/.well-known/oauth-protected-resource/mcp"
        resource = (await self.http.get(url)).raise_for_status().json()
        assert resource["resource"] == f"{self.builtin_app.url}/mcp"
        issuer = resource["authorization_servers"][0]
        for place in self.row.discovery:
            # Our issuer has no path; clients that put the resource's there must find the same.
            for path in ("", "/mcp"):
                found = await self.http.get(f"{self.builtin_app.url}{place.format(path=path)}")
                assert found.status_code == 200, place
                self.metadata = found.json()
                assert self.metadata["issuer"] == issuer

    async def introduce(self) -> None:
        """Become a client, as often as this one does."""
        if self.row.document is not None:
            self.builtin_app.documents[self.row.document["client_id"]] = dict(self.row.document)
            self.registered = {"client_id": self.row.document["client_id"]}
            return
        for _ in range(self.row.registers):
            answer = await self.http.post(self.metadata["registration_endpoint"], json=self.row.registration)
            assert answer.status_code == 201, answer.text
            self.registered = answer.json()

    def authorize_url(self, redirect_uri: str, state: str = "") -> str:
        """Make the address that it opens."""
        asked = {
            "response_type": "code",
            "client_id": self.registered["client_id"],
            "redirect_uri": redirect_uri,
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
            "state": state or secrets.token_urlsafe(16),
        }
        asked["scope"] = self.asked()
        if self.row.sends_resource:
            asked["resource"] = f"{self.builtin_app.url}/mcp"
        return f"{self.metadata['authorization_endpoint']}?{urlencode(asked)}"

    def asked(self) -> str:
        """Name the scopes that it asks for."""
        match self.row.scope:
            case "challenged":
                return self.challenged
            case "all":
                return " ".join(self.metadata["scopes_supported"])
            case other:
                return other

    def possible(self) -> set[str]:
        """List what it may be allowed: what it asks for and registered for, or everything."""
        asked = set(self.asked().split())
        registered = set(str(self.registered.get("scope") or " ".join(IN_ORDER)).split())
        return asked & registered & set(IN_ORDER) or registered & set(IN_ORDER)

    async def sign_in(self, redirect_uri: str, name: str = "alice") -> dict[str, Any]:
        """Have its user sign in, and take the tokens."""
        state = secrets.token_urlsafe(16)
        async with self.builtin_app.person(name) as person:
            back = await person.sign_in(self.authorize_url(redirect_uri, state), until=redirect_uri)
        told = query_of(back)
        assert told["state"] == [state]
        assert told["iss"] == [self.metadata["issuer"]]
        answer = await self.token(
            {
                "grant_type": "authorization_code",
                "code": code_in(back),
                "redirect_uri": redirect_uri,
                "code_verifier": VERIFIER,
            }
        )
        assert answer.status_code == 200, answer.text
        tokens: dict[str, Any] = answer.json()
        self.granted = tokens["scope"]
        return tokens

    async def token(self, fields: dict[str, str]) -> httpx2.Response:
        """Send a token request, and prove who it is as it registered."""
        return await self._post(self.metadata["token_endpoint"], fields)

    async def revoke(self, token: str) -> httpx2.Response:
        """Sign out."""
        return await self._post(self.metadata["revocation_endpoint"], {"token": token})

    async def refresh(self, token: str, **how: str) -> httpx2.Response:
        """Renew the access, and name what it names then."""
        fields = {"grant_type": "refresh_token", "refresh_token": token}
        scope = {ScopeAtRefresh.GRANTED: self.granted, ScopeAtRefresh.ASKED: self.asked()}
        if self.row.scope_at_refresh in scope:
            fields["scope"] = scope[self.row.scope_at_refresh]
        return await self._post(self.metadata["token_endpoint"], fields, **how)

    async def _post(
        self, url: str, fields: dict[str, str], *, method: str = "", server: str = ""
    ) -> httpx2.Response:
        """Send a form; `method` is another way to prove who it is, `server` another place of ours."""
        client_id, secret = self.registered["client_id"], self.registered.get("client_secret")
        headers: dict[str, str] = {"Origin": self.row.origin} if self.row.origin else {}
        if server:
            headers["Host"] = urlsplit(self.builtin_app.url).netloc
            url = url.replace(self.builtin_app.url, server)
        sent, method = dict(fields), method or self.row.auth_method
        if self.row.sends_resource and (self.row.resource_at_refresh or "code" in fields):
            sent["resource"] = f"{self.builtin_app.url}/mcp"
        if method == "client_secret_basic":
            joined = f"{quote_plus(client_id)}:{quote_plus(secret or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(joined.encode()).decode()}"
        else:
            sent["client_id"] = client_id
        if method == "client_secret_post":
            sent["client_secret"] = secret or ""
        return await self.http.post(url, data=sent, headers=headers)

    async def works(self, token: str) -> bool:
        """Tell whether the MCP endpoint takes a token."""
        answer = await self.http.post(
            f"{self.builtin_app.url}/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "ping"},
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"},
        )
        return answer.status_code != 401


@pytest.fixture
async def replay(builtin_app: BuiltinApp, row: Row) -> AsyncGenerator[Replay]:
    headers = {"User-Agent": row.user_agent} if row.user_agent else {}
    async with httpx2.AsyncClient(timeout=60, headers=headers) as http:
        replay = Replay(builtin_app, http, row)
        await replay.discover()
        await replay.introduce()
        yield replay


@every_client
async def test_a_client_gets_from_our_address_to_tokens_that_work(replay: Replay, row: Row) -> None:
    tokens = await replay.sign_in(row.arrives[0])

    assert tokens["token_type"] == "Bearer"
    assert await replay.works(tokens["access_token"])
    # What this user ticks where nothing is ticked for them: reading, as far as it is asked for.
    wanted = replay.possible()
    assert set(tokens["scope"].split()) == {scope for scope in wanted if scope.endswith(":read")}


@every_client
async def test_its_person_is_asked_at_each_of_its_addresses_and_at_none_that_is_near(
    replay: Replay, row: Row
) -> None:
    headers = {"Accept": "text/html"}

    asked = [
        (await replay.http.get(replay.authorize_url(uri), headers=headers)).status_code for uri in row.arrives
    ]
    refused = [
        (await replay.http.get(replay.authorize_url(uri), headers=headers)).status_code for uri in row.strays
    ]

    assert set(asked) == {200}
    assert set(refused) <= {400}


@every_client
async def test_it_stays_connected_in_its_way_of_renewing(replay: Replay, row: Row) -> None:
    builtin_app, first = replay.builtin_app, await replay.sign_in(row.arrives[0])
    token = str(first["refresh_token"])
    answers: list[httpx2.Response] = []

    async def again() -> None:
        answers.append(await replay.refresh(token))

    match row.refresh:
        case Refresh.ROTATES:
            await again()
            token = str(answers[-1].json()["refresh_token"])
            await again()
        case Refresh.DOUBLE:
            async with anyio.create_task_group() as group:
                group.start_soon(again)
                group.start_soon(again)
        case Refresh.SHARED:
            await again()
            # Another process of the client, within the grace of a minute.
            builtin_app.clock.ahead += timedelta(seconds=30)
            await again()
        case Refresh.STALE:
            await again()
            newer = answers[-1].json()["refresh_token"]
            answers.append(await replay.refresh(newer))
            stale = await replay.refresh(token)
            assert stale.json()["error"] == "invalid_grant"
            assert not await replay.works(answers[-1].json()["access_token"]), "two may hold it"
            answers[-1:] = []
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    if row.refresh in {Refresh.DOUBLE, Refresh.SHARED}:
        assert len({answer.json()["refresh_token"] for answer in answers}) == 1
    if row.refresh is not Refresh.STALE:
        assert await replay.works(answers[-1].json()["access_token"])
    assert {answer.json()["scope"] for answer in answers} == {first["scope"]}


TWICE = [row for row in CLIENTS if row.refresh in {Refresh.DOUBLE, Refresh.SHARED}]


@pytest.mark.parametrize("row", TWICE, ids=lambda row: row.name)
async def test_whichever_server_of_ours_it_asks_at_once_it_has_one_successor(
    replay: Replay, row: Row
) -> None:
    token = str((await replay.sign_in(row.arrives[0]))["refresh_token"])
    answers: list[httpx2.Response] = []

    async def renew(server: str) -> None:
        answers.append(await replay.refresh(token, server=server))

    async with replay.builtin_app.replica() as port, anyio.create_task_group() as group:
        for server in (replay.builtin_app.url, f"http://127.0.0.1:{port}") * 2:
            group.start_soon(renew, server)

    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({answer.json()["refresh_token"] for answer in answers}) == 1
    assert len({answer.json()["access_token"] for answer in answers}) == 4


@pytest.mark.parametrize(
    "row", [row for row in CLIENTS if row.auth_method != "none"], ids=lambda row: row.name
)
async def test_its_secret_counts_in_the_form_and_in_the_header(replay: Replay, row: Row) -> None:
    # Claude sends it in the form whatever it registered for, Codex in the header:
    # https://github.com/anthropics/claude-ai-mcp/issues/667, https://github.com/openai/codex/issues/40928
    token = str((await replay.sign_in(row.arrives[0]))["refresh_token"])

    answers: list[httpx2.Response] = []
    for method in ("client_secret_basic", "client_secret_post"):
        answers.append(await replay.refresh(token, method=method))
        token = str(answers[-1].json()["refresh_token"])

    assert [answer.status_code for answer in answers] == [200, 200]
    assert (await replay.refresh(token, method="none")).json()["error"] == "invalid_client"


@pytest.mark.parametrize("row", [row for row in CLIENTS if row.revokes], ids=lambda row: row.name)
async def test_it_signs_out_as_often_as_it_likes(replay: Replay, row: Row) -> None:
    tokens = await replay.sign_in(row.arrives[0])

    answers = [await replay.revoke(tokens["refresh_token"]) for _ in range(row.revokes)]

    assert {answer.status_code for answer in answers} == {200}
    assert not await replay.works(tokens["access_token"])


@pytest.mark.parametrize("row", [row for row in CLIENTS if row.origin], ids=lambda row: row.name)
async def test_a_client_in_a_browser_may_read_every_answer_it_needs(replay: Replay, row: Row) -> None:
    assert row.origin
    headers = {"Origin": row.origin, "Access-Control-Request-Method": "POST"}
    places = [
        f"{replay.builtin_app.url}/mcp",
        replay.metadata["token_endpoint"],
        replay.metadata["registration_endpoint"],
        replay.metadata["revocation_endpoint"],
    ]

    for place in places:
        before = await replay.http.options(place, headers=headers)
        assert before.headers["Access-Control-Allow-Origin"] in {"*", row.origin}
        assert before.status_code == 204


def test_every_way_to_ask_and_to_renew_is_played() -> None:
    assert {CHALLENGED, ALL} <= {row.scope for row in CLIENTS}
    assert {row.refresh for row in CLIENTS} == set(Refresh)
    assert {row.scope_at_refresh for row in CLIENTS} == set(ScopeAtRefresh)
    assert {(row.sends_resource, row.resource_at_refresh) for row in CLIENTS} == {
        (True, True),
        (True, False),
        (False, True),
    }
