"""Who may knock at the HTTP server, and what it does with what comes in."""

import json

import httpx2

from tests.integration.personal_app import PersonalApp

ROUTES = [
    ("GET", "/"),
    ("GET", "/oauth/provision"),
    ("POST", "/oauth/provision"),
    ("GET", "/oauth/waiting"),
    ("POST", "/oauth/cancel"),
    ("GET", "/static/style.css"),
    ("GET", "/healthz"),
    ("GET", "/nothing-here"),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
]
MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}


async def statuses(personal_app: PersonalApp, headers: dict[str, str]) -> dict[tuple[str, str], int]:
    """Knock at every route."""
    authorized = {"Authorization": f"Bearer {personal_app.secret}"} | headers
    async with httpx2.AsyncClient(base_url=personal_app.url, headers=authorized) as http:
        return {(method, path): (await http.request(method, path)).status_code for method, path in ROUTES}


#: A health check of a container names it by its address, not by its name.
PROBE = ("/healthz", {"Host": "127.0.0.1"})


async def test_every_route_refuses_strange_hosts_origins_and_proxies(personal_app: PersonalApp) -> None:
    port = personal_app.url.rpartition(":")[2]
    refusals = {
        421: [
            {"Host": name} for name in ("evil.example", f"evil.example:{port}", "127.0.0.1", "localhost:1")
        ],
        403: [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": f"http://127.0.0.1.evil.example:{port}"},
            {"Origin": f"{personal_app.url}.evil.example"},
            {"X-Forwarded-For": "10.0.0.1"},
            {"X-Forwarded-Host": "evil.example"},
            {"Forwarded": "for=10.0.0.1"},
            {"Via": "1.1 tunnel"},
        ],
    }
    wrong = {
        (route, str(headers)): status
        for expected, cases in refusals.items()
        for headers in cases
        for route, status in (await statuses(personal_app, headers)).items()
        if status != expected and (route[1], headers) != PROBE
    }

    assert wrong == {}


async def test_mcp_wants_its_secret(personal_app: PersonalApp) -> None:
    headers: list[dict[str, str]] = [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {personal_app.secret[:-1]}"},
        {"Authorization": f"Bearer {personal_app.secret}x"},
        {"Authorization": f"Bearer {personal_app.secret.upper()}"},
        {"Authorization": f"Basic {personal_app.secret}"},
        {"Authorization": personal_app.secret},
        {"Cookie": f"secret={personal_app.secret}"},
    ]
    twice = [("Authorization", f"Bearer {personal_app.secret}"), ("Authorization", "Bearer other")]
    inside = f"/mcp?secret={personal_app.secret}&access_token={personal_app.secret}"
    refused: list[httpx2.Response] = []
    async with httpx2.AsyncClient(base_url=personal_app.url) as http:
        for method in ("POST", "GET", "DELETE"):
            refused += [await http.request(method, "/mcp", headers=MCP | one) for one in headers]
            refused += [await http.request(method, "/mcp", headers=twice), await http.request(method, inside)]

    assert {answer.status_code for answer in refused} == {401}
    assert all("www-authenticate" in answer.headers for answer in refused)
    assert all(personal_app.secret not in answer.text for answer in refused)


async def test_a_body_over_the_cap_is_refused_and_the_server_lives_on(personal_app: PersonalApp) -> None:
    headers = MCP | {"Authorization": f"Bearer {personal_app.secret}"}
    huge = b'{"jsonrpc":"2.0","id":1,"method":"' + b"a" * 5_000_000 + b'"}'

    async def chunks():  # noqa: ANN202 - a body of unknown length
        for start in range(0, len(huge), 100_000):
            yield huge[start : start + 100_000]

    async with httpx2.AsyncClient(base_url=personal_app.url, headers=headers, timeout=60) as http:
        whole = await http.post("/mcp", content=huge)
        in_chunks = await http.post("/mcp", content=chunks())
        form = await http.post("/oauth/provision", content=b"answer=" + b"a" * 5_000_000)
        alive = await http.post("/mcp", json=INITIALIZE)

    assert [whole.status_code, in_chunks.status_code, form.status_code] == [413, 413, 413]
    assert alive.status_code == 200


CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}'
HOSTILE = {
    "no JSON": b"{",
    "empty": b"",
    "not UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}',
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep arguments": (
        CALL % ('{"name":"nc_notes_list_notes","arguments":{"a":' + "[" * 5_000 + "]" * 5_000 + "}}")
    ).encode(),
    "NaN": (CALL % '{"name":"nc_notes_get_note","arguments":{"note_id":NaN}}').encode(),
    "infinity": (CALL % '{"name":"nc_notes_get_note","arguments":{"note_id":1e999}}').encode(),
    "huge number": (
        CALL % ('{"name":"nc_notes_get_note","arguments":{"note_id":' + "9" * 10_000 + "}}")
    ).encode(),
    "duplicate keys": (
        CALL % '{"name":"nc_notes_list_notes","name":"nc_notes_get_note","arguments":{"note_id":"x"}}'
    ).encode(),
    "lone surrogate": (CALL % '{"name":"nc_notes_search_notes","arguments":{"query":"\\ud800"}}').encode(),
    "lone surrogate in a title": (
        CALL % '{"name":"nc_notes_create_note","arguments":{"title":"\\udfff","content":""}}'
    ).encode(),
    "NUL": (CALL % '{"name":"nc_notes_search_notes","arguments":{"query":"a\\u0000b"}}').encode(),
    "a list of calls": json.dumps([INITIALIZE, INITIALIZE]).encode(),
    "null": b"null",
}


async def test_hostile_json_gets_a_clear_answer_and_the_server_lives_on(personal_app: PersonalApp) -> None:
    headers = MCP | {"Authorization": f"Bearer {personal_app.secret}", "MCP-Protocol-Version": "2025-11-25"}
    answers: dict[str, httpx2.Response] = {}
    async with httpx2.AsyncClient(base_url=personal_app.url, headers=headers, timeout=60) as http:
        opened = await http.post("/mcp", json=INITIALIZE)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        for name, body in HOSTILE.items():
            answers[name] = await http.post("/mcp", content=body, headers=session)
        alive = await http.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}, headers=session
        )

    failed = {name: answer.status_code for name, answer in answers.items() if answer.status_code >= 500}
    silent = [name for name, answer in answers.items() if "error" not in answer.text.lower()]
    assert failed == {}
    assert silent == []
    assert all("Traceback" not in answer.text for answer in answers.values())
    assert "nc_notes_list_notes" in alive.text
