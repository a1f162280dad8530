"""What programs may send to `/token`, `/register`, `/revoke` and the well-known places, and what they get."""

import base64
import logging
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote_plus

import httpx2
import pytest

from tests.integration.builtin_app import CALLBACK, BuiltinApp, code_in, open_builtin_app
from tests.tokens_fixtures import VERIFIER

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
async def builtin_app(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path_factory.mktemp("builtin")) as opened:
        yield opened


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield client


@pytest.fixture
async def code(builtin_app: BuiltinApp, http: httpx2.AsyncClient) -> tuple[str, str]:
    """Let Alice allow a client; its id and the code it was sent."""
    client_id = str((await builtin_app.register(http))["client_id"])
    async with builtin_app.person("alice") as alice:
        back = await alice.sign_in(builtin_app.authorize_url(client_id), until=CALLBACK, only=["notes:read"])
    return client_id, code_in(back)


async def refresh(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, token: str, **fields: str
) -> httpx2.Response:
    form = {"grant_type": "refresh_token", "refresh_token": token, **fields}
    return await http.post(f"{builtin_app.url}/token", data=form)


async def alive(builtin_app: BuiltinApp, http: httpx2.AsyncClient, token: str) -> bool:
    answer = await http.post(
        f"{builtin_app.url}/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "ping"},
        headers={"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"},
    )
    return answer.status_code != 401


def basic(client_id: str, secret: str) -> dict[str, str]:
    joined = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return {"Authorization": f"Basic {base64.b64encode(joined.encode()).decode()}"}


async def test_a_code_is_exchanged_once_and_a_second_time_ends_everything_it_gave(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, code: tuple[str, str]
) -> None:
    first = (await builtin_app.exchange_code(http, *code)).json()
    assert await alive(builtin_app, http, first["access_token"])

    again = await builtin_app.exchange_code(http, *code)

    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    assert not await alive(builtin_app, http, first["access_token"])
    renewed = await refresh(builtin_app, http, first["refresh_token"], client_id=code[0])
    assert renewed.json()["error"] == "invalid_grant"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"redirect_uri": "http://127.0.0.1:9/other"}, "invalid_grant"),
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"code": ""}, "invalid_request"),
        ({"code": "ncc_nonsense"}, "invalid_grant"),
        ({"grant_type": ""}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"resource": "https://evil.example/mcp"}, "invalid_target"),
        ({"client_id": "mcp-of-somebody-else"}, "invalid_client"),
        ({"client_id": ""}, "invalid_client"),
        ({"client_id": "https://never.read.example/client.json"}, "invalid_client"),
    ],
)
async def test_what_does_not_fit_gets_nothing(
    builtin_app: BuiltinApp,
    http: httpx2.AsyncClient,
    code: tuple[str, str],
    fields: dict[str, str],
    error: str,
) -> None:
    answer = await builtin_app.exchange_code(http, *code, **fields)

    assert answer.json()["error"] == error
    assert answer.status_code == (401 if error == "invalid_client" else 400)
    assert answer.headers["Cache-Control"] == "no-store"
    assert "WWW-Authenticate" not in answer.headers


async def test_a_wrong_resource_spends_nothing(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, code: tuple[str, str]
) -> None:
    await builtin_app.exchange_code(http, *code, resource="https://evil.example/mcp")

    assert (
        await builtin_app.exchange_code(http, *code, resource=f"{builtin_app.url}/mcp/")
    ).status_code == 200


async def test_a_refresh_keeps_the_resource_and_another_one_spends_nothing(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, code: tuple[str, str]
) -> None:
    """N05: clients name the resource at `/authorize` and for the code, and leave it out from then on."""
    given = (await builtin_app.exchange_code(http, *code, resource=f"{builtin_app.url}/mcp")).json()

    bare = await refresh(builtin_app, http, given["refresh_token"], client_id=code[0])
    foreign = await refresh(
        builtin_app,
        http,
        bare.json()["refresh_token"],
        client_id=code[0],
        resource="https://other.example.test",
    )
    again = await refresh(builtin_app, http, bare.json()["refresh_token"], client_id=code[0])

    assert [one.status_code for one in (bare, foreign, again)] == [200, 400, 200]
    assert foreign.json()["error"] == "invalid_target"
    assert await alive(builtin_app, http, bare.json()["access_token"])
    assert await alive(builtin_app, http, again.json()["access_token"])


async def test_another_clients_refresh_token_is_unknown_and_stays_good(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, code: tuple[str, str]
) -> None:
    given = (await builtin_app.exchange_code(http, *code)).json()
    other = str((await builtin_app.register(http, client_name="Other"))["client_id"])

    foreign = await refresh(builtin_app, http, given["refresh_token"], client_id=other)

    assert foreign.json()["error"] == "invalid_grant"
    own = await refresh(builtin_app, http, given["refresh_token"], client_id=code[0])
    assert own.status_code == 200


async def test_a_client_with_a_secret_proves_itself_in_either_way_and_in_no_other(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    registered = await builtin_app.register(http, token_endpoint_auth_method="client_secret_basic")
    client_id, secret = str(registered["client_id"]), str(registered["client_secret"])
    async with builtin_app.person("alice") as alice:
        codes = [
            code_in(
                await alice.sign_in(builtin_app.authorize_url(client_id), until=CALLBACK, only=["notes:read"])
            )
            for _ in range(2)
        ]
    form = {
        "grant_type": "authorization_code",
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
        "code": codes[0],
    }
    url = f"{builtin_app.url}/token"

    refused = [
        await http.post(url, data={**form, "client_id": client_id}),
        await http.post(url, data={**form, "client_id": client_id, "client_secret": "wrong"}),
        await http.post(url, data=form, headers=basic(client_id, "wrong")),
        await http.post(url, data={**form, "client_secret": secret}, headers=basic(client_id, secret)),
        await http.post(url, data={**form, "client_id": "another"}, headers=basic(client_id, secret)),
        await http.post(url, data=form, headers={"Authorization": "Basic !!!"}),
        await http.post(url, data=form, headers={"Authorization": f"Bearer {secret}"}),
        await http.post(
            url, data=form, headers=[("Authorization", basic(client_id, secret)["Authorization"])] * 2
        ),
    ]
    taken = [
        await http.post(url, data=form, headers=basic(client_id, secret)),
        await http.post(
            url, data={**form, "code": codes[1], "client_id": client_id, "client_secret": secret}
        ),
    ]

    assert [answer.status_code for answer in refused] == [401, 401, 401, 400, 400, 401, 401, 401]
    assert "Basic" in refused[2].headers["WWW-Authenticate"]
    assert "WWW-Authenticate" not in refused[1].headers
    assert [answer.status_code for answer in taken] == [200, 200]


@pytest.mark.parametrize("path", ["/token", "/revoke"])
@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (FORM, b"a=" + b"x" * 70_000, 413),
        (JSON, b"{}", 400),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x--", 400),
        ({}, b"", 400),
        (FORM, b"client_id=a&client_id=b", 400),
        (FORM, b"client_id=\xff\xfe", 400),
        (FORM, b"client_id=%FF%FE", 400),
        (FORM, b"&".join(b"p%d=1" % number for number in range(100)), 400),
    ],
)
async def test_a_body_that_two_readers_could_read_differently_is_not_read(
    *,
    builtin_app: BuiltinApp,
    http: httpx2.AsyncClient,
    path: str,
    headers: dict[str, str],
    body: bytes,
    status: int,
) -> None:
    answer = await http.post(f"{builtin_app.url}{path}", content=body, headers=headers)

    assert answer.status_code == status
    assert answer.json()["error"] == "invalid_request"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 5_000, 400),
        (b'{"redirect_uris": NaN}', 400),
        (b'{"client_name": "a", "client_name": "b"}', 400),
        (b'{"client_name": "\\ud800"}', 400),
        (b"[]", 400),
        (b"null", 400),
        (b"\xff", 400),
        (b'{"client_name": "' + b"x" * 70_000 + b'"}', 413),
        (b'{"redirect_uris": ["javascript:alert(1)"]}', 400),
        (b'{"redirect_uris": ["http://evil.example/"]}', 400),
        (b"{}", 400),
    ],
)
async def test_a_registration_that_cannot_be_trusted_is_refused(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, body: bytes, status: int
) -> None:
    answer = await http.post(f"{builtin_app.url}/register", content=body, headers=JSON)

    assert answer.status_code == status
    assert answer.json()["error"] in {"invalid_client_metadata", "invalid_redirect_uri"}


@pytest.mark.parametrize("path", ["/token", "/register", "/revoke"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
async def test_other_methods_are_answered_with_the_one_that_works(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, path: str, method: str
) -> None:
    answer = await http.request(method, f"{builtin_app.url}{path}")

    assert answer.status_code == 405
    assert answer.headers["Allow"] == "POST, OPTIONS"


WELL_KNOWN = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/mcp",
    "/mcp/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/mcp",
    "/mcp/.well-known/openid-configuration",
]


@pytest.mark.parametrize("path", WELL_KNOWN)
async def test_every_client_finds_the_same_words_wherever_it_looks(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, path: str
) -> None:
    document = (await http.get(f"{builtin_app.url}{path}")).raise_for_status().json()

    assert document["issuer"] == builtin_app.url
    assert document["authorization_endpoint"] == f"{builtin_app.url}/authorize"
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["client_id_metadata_document_supported"] is True
    assert "none" in document["token_endpoint_auth_methods_supported"]
    assert document["authorization_response_iss_parameter_supported"] is True
    assert ("jwks_uri" in document) == ("openid" in path)


async def test_the_resource_names_this_server_as_the_one_that_gives_tokens(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    for path in ("", "/mcp"):
        found = (await http.get(f"{builtin_app.url}/.well-known/oauth-protected-resource{path}")).json()
        assert found["resource"] == f"{builtin_app.url}/mcp"
        assert found["authorization_servers"] == [builtin_app.url]
    keys = await http.get(f"{builtin_app.url}/.well-known/jwks.json")
    assert keys.json() == {"keys": []}


@pytest.mark.parametrize(
    "path",
    ["/.well-known/nothing", "/mcp/.well-known/nothing", "/.well-known/oauth-authorization-server/other"],
)
async def test_an_unknown_well_known_place_is_not_there_and_asks_for_no_token(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, path: str
) -> None:
    answer = await http.get(f"{builtin_app.url}{path}")

    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/json"
    assert "WWW-Authenticate" not in answer.headers


@pytest.mark.parametrize(
    "path", ["/token", "/register", "/revoke", "/mcp", *WELL_KNOWN, "/.well-known/nothing"]
)
async def test_pages_of_every_origin_may_ask_and_are_answered_before_any_token(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, path: str
) -> None:
    asks = {"Origin": "https://inspector.example", "Access-Control-Request-Method": "POST"}

    before = await http.options(f"{builtin_app.url}{path}", headers=asks)
    after = await http.get(f"{builtin_app.url}{path}", headers={"Origin": "https://inspector.example"})

    assert before.status_code == 204
    assert before.headers["Access-Control-Allow-Origin"] == "*"
    assert "Authorization" in before.headers["Access-Control-Allow-Headers"]
    assert after.headers["Access-Control-Allow-Origin"] == "*"
    assert after.headers["Access-Control-Expose-Headers"] == (
        "WWW-Authenticate, Mcp-Session-Id, MCP-Protocol-Version"
    )


@pytest.mark.parametrize("path", ["/authorize", "/authorize/confirm", "/account", "/oauth/consent"])
async def test_no_page_for_people_is_shown_to_another_origin(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, path: str
) -> None:
    answer = await http.get(f"{builtin_app.url}{path}", headers={"Origin": "https://evil.example"})

    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("path", ["/token", "/register", "/revoke", *WELL_KNOWN, "/authorize"])
async def test_every_answer_carries_what_protects_it_and_no_cookie(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, path: str
) -> None:
    answer = await http.get(f"{builtin_app.url}{path}", headers={"Accept": "text/html"})

    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in answer.headers


async def test_no_endpoint_answers_under_a_foreign_name(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    for path in ("/token", "/register", *WELL_KNOWN):
        answer = await http.post(f"{builtin_app.url}{path}", headers={"Host": "evil.example"})
        assert answer.status_code == 421


async def test_signing_out_works_twice_and_for_tokens_that_never_were(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, code: tuple[str, str]
) -> None:
    given = (await builtin_app.exchange_code(http, *code)).json()
    url = f"{builtin_app.url}/revoke"

    statuses = [
        (await http.post(url, data={"client_id": code[0], "token": token})).status_code
        for token in (given["refresh_token"], given["refresh_token"], given["access_token"], "nonsense")
    ]
    missing = await http.post(url, data={"client_id": code[0]})
    stranger = await http.post(url, data={"client_id": "nobody", "token": given["refresh_token"]})

    assert statuses == [200, 200, 200, 200]
    assert missing.json()["error"] == "invalid_request"
    assert stranger.json()["error"] == "invalid_client"
    assert not await alive(builtin_app, http, given["access_token"])


async def test_narrower_scopes_are_given_and_wider_ones_never(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, code: tuple[str, str]
) -> None:
    given = (await builtin_app.exchange_code(http, *code)).json()

    wide = await refresh(
        builtin_app, http, given["refresh_token"], client_id=code[0], scope="notes:read files:write openid"
    )
    none = await refresh(
        builtin_app, http, wide.json()["refresh_token"], client_id=code[0], scope="files:write"
    )

    assert wide.json()["scope"] == "notes:read"
    assert none.json()["error"] == "invalid_scope"


async def test_a_token_says_who_and_lists_what_its_scopes_allow_or_a_later_sign_in_may(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, code: tuple[str, str]
) -> None:
    given = (await builtin_app.exchange_code(http, *code)).json()
    async with builtin_app.client(given["access_token"]) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}

        asked = await client.call_tool("request_nextcloud_access", {})

    assert "nc_notes_get_note" in tools
    assert "nc_files_list_folder" not in tools, (
        "reading is asked for at the sign-in, and was not allowed there"
    )
    assert "nc_notes_create_note" in tools, "writing is asked for by its first call"
    assert "files:read, files:write, notes:write the app has to sign in again" in str(asked.content)


async def test_a_database_that_is_busy_is_said_in_json_and_loses_nothing(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, code: tuple[str, str]
) -> None:
    given = (await builtin_app.exchange_code(http, *code)).json()
    state = builtin_app.data_dir / "state.db"
    state.rename(builtin_app.data_dir / "away.db")
    try:
        # A folder can be opened as a file by no one.
        await builtin_app.restart(database_url=f"sqlite:///{builtin_app.data_dir}")
        answers = [
            await refresh(builtin_app, http, given["refresh_token"], client_id=code[0]),
            await http.post(f"{builtin_app.url}/register", json={"redirect_uris": [CALLBACK]}),
        ]
        refused = await http.post(
            f"{builtin_app.url}/mcp", headers={"Authorization": f"Bearer {given['access_token']}"}, json={}
        )
    finally:
        (builtin_app.data_dir / "away.db").rename(state)
        builtin_app.overrides.pop("database_url")
        await builtin_app.restart()

    assert [answer.status_code for answer in (*answers, refused)] == [503, 503, 503]
    assert answers[0].json()["error"] == "temporarily_unavailable"
    assert answers[0].headers["Retry-After"]
    again = await refresh(builtin_app, http, given["refresh_token"], client_id=code[0])
    assert again.status_code == 200


async def test_registration_can_be_switched_off_and_is_then_not_offered(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    await builtin_app.restart(client_registration=False)
    try:
        document = (await http.get(f"{builtin_app.url}{WELL_KNOWN[0]}")).json()
        answer = await http.post(f"{builtin_app.url}/register", json={"redirect_uris": [CALLBACK]})
    finally:
        await builtin_app.restart(client_registration=True)

    assert "registration_endpoint" not in document
    assert answer.status_code == 404


async def test_documents_can_be_switched_off_and_are_then_not_offered(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    await builtin_app.restart(client_metadata_documents=False)
    try:
        offered = [(await http.get(f"{builtin_app.url}{path}")).json() for path in WELL_KNOWN]
        page = await http.get(
            builtin_app.authorize_url("https://claude.ai/oauth/claude-code-client-metadata"),
            headers={"Accept": "text/html"},
        )
        registered = await builtin_app.register(http)
    finally:
        await builtin_app.restart(client_metadata_documents=True)

    assert not any(one["client_id_metadata_document_supported"] for one in offered)
    assert all("registration_endpoint" in one for one in offered)
    assert (page.status_code, registered["client_name"]) == (400, "Claude")
    assert "has to register itself" in page.text


async def test_no_log_holds_a_code_a_token_or_a_secret(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, code: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    registered = await builtin_app.register(http, token_endpoint_auth_method="client_secret_post")
    given = (await builtin_app.exchange_code(http, *code)).json()
    renewed = (await refresh(builtin_app, http, given["refresh_token"], client_id=code[0])).json()
    await builtin_app.exchange_code(http, *code)
    await refresh(
        builtin_app, http, "ncr_" + "x" * 65, client_id=registered["client_id"], client_secret="wrong"
    )

    secrets: list[Any] = [code[1], registered["client_secret"], VERIFIER, *given.values(), *renewed.values()]
    ours = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith("nextcloud_mcp_server")
    )
    assert [text for text in secrets if len(str(text)) > 20 and str(text) in ours] == []
