from collections.abc import AsyncIterator

import httpx2
import pytest
from anyio.lowlevel import checkpoint
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.web.middleware import guard
from tests.single_user_pages import HOST, ORIGIN, SECRET, SingleUserPages, application, config

PAGE = {"Accept": "text/html"}
BEARER = {"Authorization": f"Bearer {SECRET}"}


def client(**changes: object) -> httpx2.AsyncClient:
    app = application(settings=config(**changes))
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app, raise_app_exceptions=False), base_url=ORIGIN
    )


async def test_a_program_with_the_secret_reaches_the_mcp_path() -> None:
    async with client() as program:
        response = await program.post("/mcp", content=b"1234", headers=BEARER)

    assert (response.status_code, response.text) == (200, "4")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", SECRET)],
        [("Authorization", f"Basic {SECRET}")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer wrong")],
        [("Authorization", f"Bearer {SECRET}x")],
        [("Authorization", f"Bearer {SECRET}".upper())],
        [("Authorization", "Bearer ü")],
        [("Authorization", f"Bearer {SECRET}"), ("Authorization", "Bearer other")],
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/broken"])
async def test_without_the_secret_the_answer_says_how_to_get_it(
    path: str, headers: list[tuple[str, str]]
) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers]

    async with client() as program:
        response = await program.post(path, headers=raw)

    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer ")
    assert "nextcloud-mcp-server config" in response.json()["message"]
    assert SECRET not in response.text


async def test_the_scheme_may_be_written_in_any_case() -> None:
    async with client() as program:
        response = await program.post("/mcp", headers={"Authorization": f"bearer {SECRET}"})

    assert response.status_code == 200


async def test_without_a_configured_secret_the_mcp_path_is_open() -> None:
    async with client(bearer_secret=None) as program:
        response = await program.post("/mcp")

    assert response.status_code == 200


async def test_a_path_that_only_begins_like_the_mcp_path_is_a_page() -> None:
    async with client() as program:
        response = await program.get("/mcpx")

    assert response.status_code == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1:8000.evil.example", "evil@127.0.0.1:8000", "[::1", "127.0.0.1/", ""]
)
@pytest.mark.parametrize("path", ["/healthz", "/account"])
async def test_an_unknown_host_is_misdirected(path: str, host: str) -> None:
    async with client() as program:
        response = await program.get(path, headers={"Host": host})

    assert (response.status_code, response.json()["error"]) == (421, "unknown_host")


@pytest.mark.parametrize("host", ["10.1.2.3:8000", "10.1.2.3", "[fd00::7]:8000", "127.0.0.1"])
async def test_a_health_check_may_name_the_pod_by_its_address(host: str) -> None:
    """Kubernetes and load balancers do, and know no name to send."""
    async with client() as program:
        healthy = await program.get("/healthz", headers={"Host": host})
        page = await program.get("/account", headers={"Host": host})
        posted = await program.post("/healthz", headers={"Host": host})
        browsed = await program.get("/healthz", headers={"Host": host, "Sec-Fetch-Site": "cross-site"})

    assert healthy.status_code == 200
    assert {page.status_code, posted.status_code, browsed.status_code} == {421}


async def test_two_host_headers_are_one_too_many() -> None:
    headers = [(b"host", HOST.encode()), (b"host", b"evil.example")]

    async with client() as program:
        response = await program.get("/healthz", headers=headers)

    assert response.status_code == 421


async def test_a_host_is_known_in_any_case() -> None:
    async with client(allowed_hosts=frozenset({"localhost:8000"})) as program:
        response = await program.get("/healthz", headers={"Host": "LocalHost:8000"})

    assert response.status_code == 200


@pytest.mark.parametrize(
    ("origin", "site", "status"),
    [
        (ORIGIN, None, 200),
        ("http://localhost:9", None, 403),
        ("https://evil.example", "cross-site", 403),
        (f"https://{HOST}", None, 403),
        ("null", None, 403),
        ("null", "cross-site", 403),
        ("null", "same-origin", 200),
    ],
)
async def test_only_our_own_pages_and_programs_may_ask(origin: str, site: str | None, status: int) -> None:
    headers = {"Origin": origin} | ({"Sec-Fetch-Site": site} if site else {})

    async with client() as program:
        response = await program.get("/healthz", headers=headers)

    assert response.status_code == status


async def test_another_origin_can_be_allowed() -> None:
    async with client(allowed_origins=frozenset({"https://app.example"})) as program:
        response = await program.get("/healthz", headers={"Origin": "https://app.example"})

    assert response.status_code == 200


@pytest.mark.parametrize(
    "header", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "x-forwarded-anything"]
)
async def test_a_forwarded_request_is_refused_with_the_reason(header: str) -> None:
    async with client() as program:
        refused = await program.get("/healthz", headers={header: "1.1 proxy"})
    async with client(refuse_forwarded=False) as program:
        taken = await program.get("/healthz", headers={header: "1.1 proxy"})

    assert refused.status_code == 403
    assert "proxy" in refused.json()["message"]
    assert taken.status_code == 200


async def test_a_refusal_is_a_page_for_people_and_json_for_programs() -> None:
    async with client() as either:
        page = await either.get("/", headers={**PAGE, "Via": "1.1 proxy"})
        program = await either.get("/mcp", headers={**PAGE, "Via": "1.1 proxy"})

    assert "This server is for one computer" in page.text
    assert program.json()["error"] == "forwarded"


@pytest.mark.parametrize("length", ["101", "9" * 30, "9" * 5_000])
async def test_a_body_that_announces_too_much_is_refused(length: str) -> None:
    async with client(max_body_bytes=100) as program:
        response = await program.post("/mcp", headers={**BEARER, "Content-Length": length}, content=b"x")

    assert (response.status_code, response.json()["error"]) == (413, "too_large")


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_a_body_that_grows_too_large_is_cut_off() -> None:
    async with client(max_body_bytes=100) as program:
        within = await program.post("/mcp", headers=BEARER, content=in_pieces(b"x" * 50, b"x" * 50))
        beyond = await program.post("/mcp", headers=BEARER, content=in_pieces(b"x" * 50, b"x" * 51))

    assert (within.status_code, within.text) == (200, "100")
    assert beyond.status_code == 413


async def sent_by(app: ASGIApp, scope: Scope, *received: Message) -> list[Message]:
    """Run an application and collect what it sends."""
    waiting = list(received)
    sent: list[Message] = []

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def http_scope() -> Scope:
    return {
        "type": "http",
        "method": "POST",
        "path": "/x",
        "scheme": "http",
        "headers": [(b"host", HOST.encode())],
    }


async def test_an_answer_that_has_begun_ends_when_the_body_grows_too_large() -> None:
    heard: list[str] = []

    async def talks_first(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        heard.extend([(await receive())["type"], (await receive())["type"]])
        await send({"type": "http.response.body", "body": b"late"})

    big: Message = {"type": "http.request", "body": b"x" * 101, "more_body": True}
    sent = await sent_by(guard(talks_first, config(max_body_bytes=100)), http_scope(), big)

    assert heard == ["http.disconnect", "http.disconnect"]
    assert [message["type"] for message in sent] == ["http.response.start"]


async def test_an_error_of_the_application_is_not_swallowed() -> None:
    async with client() as program:
        response = await program.get("/mcp/broken", headers=BEARER)

    assert response.status_code == 500


async def test_a_websocket_is_turned_away() -> None:
    async def never(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise NotImplementedError

    sent = await sent_by(guard(never, config()), {"type": "websocket"})

    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_the_lifespan_passes_through() -> None:
    seen: list[str] = []

    async def starts(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    await sent_by(guard(starts, config()), {"type": "lifespan"})

    assert seen == ["lifespan"]


async def test_cookies_are_bound_to_https_where_browsers_see_https(consent: SingleUserPages) -> None:
    app = application(consent, config(secure_cookies=True))

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=ORIGIN) as browser:
        response = await browser.get(f"/oauth/provision?elicitationId={await consent.open()}")

    cookie = response.headers["set-cookie"]
    assert cookie.startswith("__Host-browser=")
    assert all(part in cookie for part in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"))


@pytest.mark.parametrize("secure", [True, False])
async def test_browsers_are_told_to_keep_to_https_where_they_see_https_and_nowhere_else(secure: bool) -> None:  # noqa: FBT001 - a row of the table
    async def refuses(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    sent = await sent_by(guard(refuses, config(secure_cookies=secure)), http_scope())

    told = dict(sent[0]["headers"]).get(b"strict-transport-security")
    assert told == (b"max-age=31536000" if secure else None)


async def test_an_event_stream_keeps_its_own_word_on_caches() -> None:
    async def streams(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"cache-control", b"no-cache, no-transform")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    sent = await sent_by(guard(streams, config()), http_scope())

    assert dict(sent[0]["headers"])[b"cache-control"] == b"no-cache, no-transform"


async def test_a_body_that_is_not_whole_in_time_is_refused_however_little_comes() -> None:
    async def trickles() -> Message:
        await checkpoint()
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def reads(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await guard(reads, config(max_body_bytes=100, body_seconds=0))(http_scope(), trickles, send)

    assert sent[0]["status"] == 408


async def test_every_answer_says_what_browsers_may_do_with_it() -> None:
    async def answers(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    sent = await sent_by(guard(answers, config()), http_scope())

    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    policy = dict(one.strip().split(" ", 1) for one in headers.pop("content-security-policy").split(";"))
    assert policy == {
        "default-src": "'none'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    assert headers == {
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-store",
    }
