import json
import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import anyio
import httpx2
import pytest
from pydantic import SecretStr
from starlette.types import Message

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.clients import Clients
from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import file_url
from nextcloud_mcp_server.web.limits import Rates
from tests.clients_fixtures import MemoryClients
from tests.oauth_api_fixtures import PUBLIC, OAuthApiFixture, basic, open_api, refresh_form
from tests.tokens_fixtures import CALLBACK, ISSUER, NOTES, RESOURCE

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SERVER, OPENID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[OAuthApiFixture]:
    keys = KeyRing.parse([SecretStr(new_key())])
    async with open_api(file_url(tmp_path / "api.db"), keys, rates=Rates(client=3)) as harness:
        yield harness


@pytest.fixture
async def http(api: OAuthApiFixture) -> AsyncGenerator[httpx2.AsyncClient]:
    async with api.http() as client:
        yield client


async def test_a_code_becomes_tokens(api: OAuthApiFixture, http: httpx2.AsyncClient) -> None:
    client_id = (await api.registered(http))["client_id"]

    answer = await http.post("/token", data=await api.code_form(client_id))

    tokens = answer.json()
    assert answer.status_code == 200
    assert (tokens["token_type"], tokens["expires_in"]) == ("Bearer", 3600)
    assert tokens["scope"] == " ".join(sorted(NOTES))
    assert answer.headers["Cache-Control"] == "no-store"
    assert (await api.desk.tokens.verify(tokens["access_token"])).client_id == client_id


async def test_a_refresh_token_becomes_its_successor(api: OAuthApiFixture, http: httpx2.AsyncClient) -> None:
    tokens = await api.connected(http)

    answer = await http.post("/token", data=refresh_form(tokens, scope="notes:read"))

    renewed = answer.json()
    assert renewed["scope"] == "notes:read"
    assert renewed["refresh_token"] != tokens["refresh_token"]
    assert (await http.post("/token", data=refresh_form(tokens))).json()["refresh_token"] == renewed[
        "refresh_token"
    ]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"grant_type": ""}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"refresh_token": ""}, "invalid_request"),
        ({"refresh_token": "ncr_"}, "invalid_grant"),
        ({"resource": "https://other.example"}, "invalid_target"),
        ({"scope": "files:read"}, "invalid_scope"),
        ({"client_id": "mcp-other"}, "invalid_client"),
    ],
)
async def test_what_does_not_fit_is_named(
    api: OAuthApiFixture, http: httpx2.AsyncClient, fields: dict[str, str], error: str
) -> None:
    tokens = await api.connected(http)

    answer = await http.post("/token", data=refresh_form(tokens, **fields))

    assert answer.json()["error"] == error
    assert answer.json()["error_description"]
    assert answer.status_code == (401 if error == "invalid_client" else 400)


async def test_several_resources_may_be_named_when_all_are_ours(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    form = refresh_form(await api.connected(http))

    ours = await http.post("/token", data={**form, "resource": [RESOURCE, f"{RESOURCE}/"]})
    mixed = await http.post("/token", data={**form, "resource": [RESOURCE, "https://other.example"]})

    assert ours.status_code == 200
    assert mixed.json()["error"] == "invalid_target"


async def test_unknown_parameters_are_ignored_and_empty_ones_not_there(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    form = refresh_form(await api.connected(http))

    answer = await http.post("/token", data={**form, "audience": "x", "scope": "", "client_secret": ""})

    assert answer.status_code == 200
    assert answer.json()["scope"] == " ".join(sorted(NOTES))


async def test_scopes_of_others_that_a_client_repeats_have_no_meaning_here(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    form = refresh_form(await api.connected(http))

    answers = [
        await http.post("/token", data={**form, "scope": scope})
        for scope in ("openid profile email offline_access", "openid notes:read", "read")
    ]

    assert [answer.json()["scope"] for answer in answers] == [" ".join(sorted(NOTES)), *["notes:read"] * 2]


@pytest.mark.parametrize("scope", ["mail:read", "mail", "talk mail:read", "files:read", "openid mail"])
async def test_a_refresh_for_scopes_that_were_not_granted_gives_nothing_and_spends_nothing(
    api: OAuthApiFixture, http: httpx2.AsyncClient, scope: str
) -> None:
    """Mail is known, and not offered here; files are offered, and were not granted (RFC 6749 §6)."""
    form = refresh_form(await api.connected(http))

    refused = await http.post("/token", data={**form, "scope": scope})
    partly = await http.post("/token", data={**form, "scope": f"{scope} notes:read"})

    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_scope")
    assert partly.json()["scope"] == "notes:read"


async def test_a_client_with_a_secret_may_send_it_either_way(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    registered = await api.registered(http, token_endpoint_auth_method="client_secret_post")
    client_id, secret = registered["client_id"], registered["client_secret"]
    form = await api.code_form(client_id)
    without_id = {**await api.code_form(client_id), "client_id": ""}

    none = await http.post("/token", data=form)
    wrong = await http.post("/token", data=form, headers=basic(client_id, "wrong"))
    posted = await http.post("/token", data={**form, "client_secret": secret})
    in_header = await http.post("/token", data=without_id, headers=basic(client_id, secret))

    assert [none.status_code, wrong.status_code] == [401, 401]
    assert "WWW-Authenticate" not in none.headers
    assert wrong.headers["WWW-Authenticate"] == 'Basic realm="Nextcloud MCP server"'
    assert [posted.status_code, in_header.status_code] == [200, 200]


async def test_a_token_ends_as_often_as_it_is_revoked(api: OAuthApiFixture, http: httpx2.AsyncClient) -> None:
    tokens = await api.connected(http)
    form = {"client_id": tokens["client_id"], "token": tokens["refresh_token"], "token_type_hint": "no_such"}

    answers = [await http.post("/revoke", data=form) for _ in range(2)]
    missing = await http.post("/revoke", data={"client_id": tokens["client_id"]})

    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, {}), (200, {})]
    assert missing.json()["error"] == "invalid_request"
    assert (await http.post("/token", data=refresh_form(tokens))).json()["error"] == "invalid_grant"


async def test_a_client_that_the_operator_barred_can_do_nothing_more_than_sign_out(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    tokens = await api.connected(http)
    barred = AllowedClients(denied=frozenset({"localhost"}))
    api.services = replace(
        api.services, clients=Clients(api.desk.database.clients, clock=api.desk.moment, allowed=barred)
    )

    renewed = await http.post("/token", data=refresh_form(tokens))
    form = {"client_id": tokens["client_id"], "token": tokens["refresh_token"]}
    ended = await http.post("/revoke", data=form)

    assert (renewed.status_code, renewed.json()["error"]) == (400, "unauthorized_client")
    assert ended.status_code == 200
    assert await api.desk.database.oauth_tokens.find(tokens["access_token"]) is None


async def test_every_caller_can_register_a_client(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/register", json=PUBLIC)

    assert answer.status_code == 201
    assert answer.json()["redirect_uris"] == [CALLBACK]
    assert "client_secret" not in answer.json()


@pytest.mark.parametrize(
    ("content", "status"), [(b"{", 400), (b"[]", 400), (b"\xff", 400), (b'"' + b"x" * 65_537 + b'"', 413)]
)
async def test_what_describes_no_client_is_refused(
    http: httpx2.AsyncClient, content: bytes, status: int
) -> None:
    answer = await http.post("/register", content=content, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["error"]) == (status, "invalid_client_metadata")


async def test_where_registration_is_off_it_is_neither_offered_nor_there(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    api.services = replace(api.services, registration=None)
    late = await http.post("/register", json=PUBLIC)
    api.serve(registers=False)

    async with api.http() as program:
        answer = await program.post("/register", json=PUBLIC)
        described = [(await program.get(path)).json() for path in (SERVER, OPENID)]

    assert (late.status_code, late.json()["error"]) == (403, "access_denied")
    assert answer.status_code == 404
    assert all("registration_endpoint" not in document for document in described)


@pytest.mark.parametrize("path", [SERVER, OPENID])
async def test_the_metadata_is_the_same_wherever_it_is_looked_for(
    http: httpx2.AsyncClient, path: str
) -> None:
    places = [path, f"{path}/mcp", f"/mcp{path}"]

    documents = [(await http.get(place)).json() for place in places]

    assert documents[0] == documents[1] == documents[2]
    assert documents[0]["issuer"] == ISSUER
    assert documents[0]["scopes_supported"] == ["read", "write"]
    assert (await http.head(path)).status_code == 200
    assert (await http.get("/.well-known/jwks.json")).json() == {"keys": []}


@pytest.mark.parametrize("path", ["/.well-known/other", "/mcp/.well-known/other", f"{SERVER}/other"])
async def test_other_well_known_places_are_not_there(http: httpx2.AsyncClient, path: str) -> None:
    answers = [await http.request(method, path) for method in ("GET", "POST", "DELETE")]

    assert [(answer.status_code, answer.json()) for answer in answers] == [(404, {"error": "not_found"})] * 3
    assert answers[0].headers["Access-Control-Allow-Origin"] == "*"
    assert (await http.options(path)).status_code == 204


@pytest.mark.parametrize(
    ("path", "allowed"), [("/token", "POST"), ("/revoke", "POST"), ("/register", "POST"), (SERVER, "GET")]
)
async def test_a_page_of_another_origin_may_ask_beforehand_which_method_works(
    http: httpx2.AsyncClient, path: str, allowed: str
) -> None:
    before = await http.options(path, headers={"Origin": "https://inspector.example"})
    other = await http.put(path, headers={"Origin": "https://inspector.example"})

    assert before.status_code == 204
    assert before.headers["Access-Control-Allow-Methods"] == f"{allowed}, OPTIONS"
    assert before.headers["Access-Control-Allow-Origin"] == "*"
    assert (other.status_code, other.headers["Allow"]) == (405, f"{allowed}, OPTIONS")
    assert other.headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("error", [StorageError("The database is busy."), RuntimeError("a fault of ours")])
async def test_our_own_trouble_is_no_refusal(
    api: OAuthApiFixture, http: httpx2.AsyncClient, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = await api.connected(http)
    api.broken = error

    answers = [
        await http.post("/token", data=refresh_form(tokens)),
        await http.post("/revoke", data={"client_id": tokens["client_id"], "token": "x"}),
        await http.post("/register", json=PUBLIC),
    ]

    for answer in answers:
        assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
        assert answer.headers["Retry-After"] == "5"
        assert str(error) not in answer.text
    assert str(error) in caplog.text
    api.broken = None
    assert (await http.post("/token", data=refresh_form(tokens))).status_code == 200


class Busy(MemoryClients):
    """A repository whose database takes no writes now."""

    async def used(self, client_id: str, *, at: datetime) -> None:
        raise StorageError(f"{client_id} was used at {at}, which cannot be written down.")


async def test_tokens_that_are_given_reach_the_client_even_when_its_use_is_not_noted(
    api: OAuthApiFixture, http: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    client_id = str((await api.registered(http))["client_id"])
    known = await api.services.clients.find(client_id)
    assert known is not None
    api.services = replace(api.services, clients=Clients(Busy({client_id: known}), clock=api.desk.moment))

    answer = await http.post("/token", data=await api.code_form(client_id))

    assert answer.status_code == 200
    assert "the last use of a client could not be stored" in caplog.text


async def test_a_client_that_leaves_in_the_middle_of_its_form_is_nothing_to_report(
    api: OAuthApiFixture, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[Message] = []
    parts: list[Message] = [
        {"type": "http.request", "body": b"grant_type=", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return parts.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/token",
        "raw_path": b"/token",
        "query_string": b"",
        "scheme": "https",
        "headers": [(b"host", b"mcp.example.org"), (b"content-type", FORM["Content-Type"].encode())],
        "client": ("203.0.113.9", 1),
    }
    with caplog.at_level(logging.INFO), anyio.fail_after(60):
        await api.app(scope, receive, send)

    assert sent[0]["status"] == 400
    assert caplog.records == []


async def test_a_client_that_is_refused_too_often_is_told_in_json_when_to_retry(
    http: httpx2.AsyncClient,
) -> None:
    form = {"grant_type": "refresh_token", "client_id": "mcp-nobody", "refresh_token": "x"}

    answers = [await http.post("/token", data=form) for _ in range(4)]
    also = await http.post("/register", json=PUBLIC)

    assert [answer.status_code for answer in answers] == [401, 401, 401, 429]
    assert answers[-1].json()["error"] == "temporarily_unavailable"
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 60
    assert answers[-1].headers["Access-Control-Allow-Origin"] == "*"
    assert also.status_code == 429


async def test_tokens_cannot_be_guessed_where_every_guess_is_answered_with_a_yes(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    client_id = (await api.connected(http))["client_id"]

    answers = [
        await http.post("/revoke", data={"client_id": client_id, "token": f"ncr_guess-{number}"})
        for number in range(4)
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]


async def test_a_client_that_works_is_not_turned_away_for_others_at_its_address(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    tokens = await api.connected(http)
    form = {"grant_type": "refresh_token", "client_id": "mcp-nobody", "refresh_token": "x"}
    for _ in range(4):
        await http.post("/token", data=form)

    renewed = await http.post("/token", data=refresh_form(tokens))

    assert renewed.status_code == 200
    async with api.http("203.0.113.10") as elsewhere:
        assert (await elsewhere.post("/register", json=PUBLIC)).status_code == 201


async def test_nothing_is_read_but_json_for_a_registration(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/register", content=json.dumps(PUBLIC), headers=FORM)

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata")
