"""Who gets in with what: tokens that are not for us, or not what they seem, and sessions of others."""

import base64
import hashlib
import hmac
import logging
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx2
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from nextcloud_mcp_server.auth.jwt_check import LEEWAY_SECONDS
from nextcloud_mcp_server.demo.wire_client import Message
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.server import mcp_server
from tests.auth_fixtures import Process, ProcessHost
from tests.bearer_fixtures import INITIALIZE, LIST, ORIGIN, SECOND, Served, second_key, serving, token
from tests.issuer_fixtures import (
    ISSUER,
    NOW,
    RESOURCE,
    Handler,
    answering,
    claims,
    private_key,
    public_jwk,
    raw_token,
    rsa_key,
    signed,
    silent,
)

READ: Message = {"name": "nc_notes_get_note", "arguments": {"note_id": 1}}
WRITE: Message = {"name": "nc_notes_create_note", "arguments": {"title": "a", "content": "b"}}
METADATA = "https://mcp.test/.well-known/oauth-protected-resource/mcp"


@pytest.fixture
async def served(harness: ProcessHost, process: Process) -> AsyncGenerator[Served]:
    async with serving(harness, process) as made:
        yield made


async def status(served: Served, given: str | None) -> int:
    async with served.http(given) as http:
        return (await http.post("/mcp", json=INITIALIZE)).status_code


HEADER = {"alg": "RS256", "kid": "one", "typ": "at+jwt"}
PEM = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
DER = rsa_key().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def with_hmac(secret: bytes) -> str:
    """Sign with what every user can know: the issuer's public key."""
    unsigned = raw_token(HEADER | {"alg": "HS256"}, claims(), "").rstrip(".")
    signature = hmac.digest(secret, unsigned.encode(), hashlib.sha256)
    return f"{unsigned}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


REFUSED = {
    "alg none": raw_token(HEADER | {"alg": "none"}, claims(), ""),
    "alg None": raw_token(HEADER | {"alg": "nOnE"}, claims(), ""),
    "alg unknown": raw_token(HEADER | {"alg": "XX256"}, claims()),
    "alg missing": raw_token({"kid": "one", "typ": "at+jwt"}, claims()),
    "HS256 with the public key as PEM": with_hmac(PEM),
    "HS256 with the public key as DER": with_hmac(DER),
    "HS256 with nothing": with_hmac(b"\0"),
    "kid unknown": token(header={"kid": "two"}),
    "kid a path": token(header={"kid": "../../dev/null"}),
    "kid a query": token(header={"kid": "' UNION SELECT 'x"}),
    "kid huge": token(header={"kid": "k" * 5000}),
    "kid of another key": token(key=rsa_key("stranger")),
    "jku": token(key=rsa_key("stranger"), header={"jku": "https://evil.test/jwks"}),
    "x5u": token(key=rsa_key("stranger"), header={"x5u": "https://evil.test/cert"}),
    "jwk": token(key=rsa_key("stranger"), header={"jwk": public_jwk(rsa_key("stranger"))}),
    "jku, signed rightly": token(header={"jku": "https://evil.test/jwks"}),
    "crit": token(header={"crit": ["urn:x"], "urn:x": 1}),
    "crit b64": raw_token(HEADER | {"crit": ["b64"], "b64": False}, claims()),
    "zip": token(header={"zip": "DEF"}),
    "JWE": "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkExMjhHQ00ifQ.YQ.YQ.YQ.YQ",
    "ID token": signed(claims(aud="claude", nonce="n", scope=None), header={"typ": "JWT"}),
    "ID token for us": signed(claims(nonce="n"), header={"typ": "JWT"}),
    "ID token without type": signed(claims(), header={"typ": None}),
    "refresh token": signed(claims(typ="Refresh"), header={"typ": "JWT"}),
    "refresh token that is opaque": "refresh-token",
    "logout token": signed(claims(events={}), header={"typ": "logout+jwt"}),
    "aud other": token(aud="https://other.test/mcp"),
    "aud missing": token(aud=None),
    "aud empty": token(aud=""),
    "aud the origin": token(aud=ORIGIN),
    "aud a prefix": token(aud=RESOURCE[:-1]),
    "aud longer": token(aud=f"{RESOURCE}-evil"),
    "aud in other case": token(aud=RESOURCE.upper()),
    "aud with another port": token(aud="https://mcp.test:8443/mcp"),
    "aud list without us": token(aud=["https://cloud.test", "account"]),
    "aud list, nested": token(aud=[[RESOURCE]]),
    "aud a text with us inside": token(aud=f"https://cloud.test {RESOURCE}"),
    "iss with slash": token(iss=f"{ISSUER}/"),
    "iss in other case": token(iss="https://ID.test"),
    "iss http": token(iss="http://id.test"),
    "iss with port": token(iss="https://id.test:443"),
    "iss stranger": token(iss="https://evil.test", key=rsa_key("stranger")),
    "iss missing": token(iss=None),
    "iss of one, key of the other": token(iss=SECOND),
    "iss of the other, key of one": token(key=second_key()),
    "exp past": token(exp=NOW - 31),
    "exp missing": token(exp=None),
    "exp text": token(exp="2099-01-01"),
    "exp list": token(exp=[NOW + 300]),
    "nbf in the future": token(nbf=NOW + 31),
    "iat in the future": token(iat=NOW + 31),
    "sub missing": token(sub=None),
    "sub empty": token(sub=""),
    "sub a number": token(sub=1),
    "client missing": token(client_id=None),
    "claims twice": raw_token(HEADER, b'{"aud":"x","aud":"https://mcp.test/mcp"}'),
    "made up": "abc",
    "dots": "...",
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED.keys())
async def test_a_token_that_is_not_for_us_or_not_what_it_seems_is_refused(served: Served, given: str) -> None:
    async with served.http(given) as http:
        answers = [await http.request(method, "/mcp") for method in ("GET", "DELETE")]
        answers.append(await http.post("/mcp", json=INITIALIZE))

    assert [answer.status_code for answer in answers] == [401, 401, 401]
    for answer in answers:
        challenge = answer.headers["WWW-Authenticate"]
        assert 'error="invalid_token"' in challenge
        assert f'resource_metadata="{METADATA}"' in challenge
        assert "offline_access" not in challenge
        assert given not in answer.text + challenge
    assert {request.url.host for request in served.provider.asked} <= {"id.test"}


ACCEPTED = {
    "for us": token(),
    "for us with a slash behind it (RFC 3986 §6.2.4)": token(aud=f"{RESOURCE}/"),
    "for us with the default port (RFC 3986 §6.2.3)": token(aud="https://mcp.test:443/mcp"),
    "for us and Nextcloud": token(aud=[RESOURCE, "https://cloud.test"]),
    "for Nextcloud and us": token(aud=["https://cloud.test", RESOURCE]),
    "without kid, with one key": token(header={"kid": None}),
    "type in full": token(header={"typ": "application/at+jwt"}),
    "exp within the leeway": token(exp=NOW - 29),
    "nbf within the leeway": token(nbf=NOW + 30),
    "iat within the leeway": token(iat=NOW + 30),
    "client in azp": token(client_id=None, azp="claude"),
    "of the second issuer": token(iss=SECOND, key=second_key()),
}


@pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED.keys())
async def test_a_token_for_us_is_accepted(served: Served, given: str) -> None:
    assert await status(served, given) == 200


@pytest.mark.parametrize("alg", ["RS384", "PS256", "ES256", "EdDSA"])
async def test_every_key_an_issuer_may_have_works(served: Served, alg: str) -> None:
    private = private_key({"ES256": "P-256", "EdDSA": "Ed25519"}.get(alg, "RSA"))
    served.provider.keys = [public_jwk(private, kid="one")]

    assert await status(served, signed(claims(), private, alg=alg)) == 200


async def test_without_kid_and_with_two_keys_nothing_is_guessed(served: Served) -> None:
    served.provider.keys.append(public_jwk(rsa_key("next"), kid="two"))

    assert await status(served, token(header={"kid": None})) == 401


async def test_no_token_gets_a_challenge_without_an_error(served: Served) -> None:
    async with served.http() as http:
        answers = [await http.request(method, "/mcp") for method in ("GET", "POST", "DELETE")]
        in_cookie = await http.get("/mcp", headers={"Cookie": f"access_token={token()}"})
        metadata = await http.get(METADATA)

    for answer in [*answers, in_cookie]:
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == (
            f'Bearer scope="files:read files:write notes:read notes:write", resource_metadata="{METADATA}"'
        )
    assert metadata.json()["resource"] == RESOURCE


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/mcp", ["Bearer {}", "Bearer {}"]),
        ("/mcp", ["Bearer {}", "Basic YTpi"]),
        ("/mcp?access_token={}", []),
        ("/mcp?access_token={}", ["Bearer {}"]),
        ("/mcp?a=1&access_token=x", ["Bearer {}"]),
    ],
)
async def test_two_tokens_or_one_in_the_address_are_refused(
    served: Served, path: str, headers: list[str]
) -> None:
    given = token()
    async with served.http() as http:
        answer = await http.post(
            path.format(given),
            json=INITIALIZE,
            headers=[("Authorization", value.format(given)) for value in headers],
        )

    assert answer.status_code == 400
    assert 'error="invalid_request"' in answer.headers["WWW-Authenticate"]


async def test_a_browser_s_page_may_ask_first_and_read_the_challenge(served: Served) -> None:
    page, stranger = {"Origin": "https://inspector.test"}, {"Origin": "https://evil.test"}
    async with served.http() as http:
        asked = [await http.options(path, headers=page) for path in ("/mcp", METADATA)]
        refused = await http.post("/mcp", json=INITIALIZE, headers=page)
        evil = [await http.options(path, headers=stranger) for path in ("/mcp", METADATA)]

    assert [answer.status_code for answer in asked] == [204, 204]
    assert all("Authorization" in answer.headers["Access-Control-Allow-Headers"] for answer in asked)
    assert refused.status_code == 401
    assert refused.headers["Access-Control-Allow-Origin"] == "*"
    exposed = set(refused.headers["Access-Control-Expose-Headers"].split(", "))
    assert exposed == {"WWW-Authenticate", "Mcp-Session-Id", "MCP-Protocol-Version"}
    assert [answer.status_code for answer in evil] == [403, 403]


async def test_a_flood_of_unknown_keys_asks_the_issuer_once_in_thirty_seconds(served: Served) -> None:
    await status(served, token())
    before = served.provider.count("/jwks")
    floods: list[int] = []
    for _ in range(3):
        statuses = {await status(served, token(header={"kid": f"made-up-{n}"})) for n in range(30)}
        assert statuses == {401}
        floods.append(served.provider.count("/jwks") - before)
        served.time.now += 30

    assert floods == [1, 2, 3]


async def test_a_rotated_key_is_taken_up_and_the_old_one_dropped(served: Served) -> None:
    before = await status(served, token())
    served.provider.keys = [public_jwk(rsa_key("next"), kid="two")]

    after = await status(served, token(key=rsa_key("next"), header={"kid": "two"}))
    old = await status(served, token())

    assert (before, after, old) == (200, 200, 401)


async def timing_out(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadTimeout("slow")


TROUBLES: dict[str, Handler] = {
    "down": silent,
    "broken": answering(500),
    "slow": timing_out,
    "huge": answering(200, content=b'{"keys": [' + b" " * 300_000 + b"]}"),
    "redirecting elsewhere": answering(302, headers={"Location": "https://evil.test/jwks"}),
    "redirecting inside": answering(302, headers={"Location": "http://169.254.169.254/"}),
    "HTML": answering(200, content=b"<html>"),
    "gone": answering(404),
}


@pytest.mark.parametrize("handler", TROUBLES.values(), ids=TROUBLES.keys())
async def test_no_token_is_accepted_while_the_keys_are_unknown_and_known_keys_stay_in_use(
    served: Served, handler: Handler
) -> None:
    served.provider.instead = {"/jwks": handler}
    unknown = await status(served, token())
    served.provider.instead = {}
    served.time.now += 2
    known = await status(served, token())
    served.provider.instead = {"/jwks": handler}
    served.time.now += 80_000
    stale = await status(served, token())
    served.time.now += 86_400
    too_old = await status(served, token())

    assert (unknown, known, stale, too_old) == (503, 200, 200, 503)
    assert {request.url.host for request in served.provider.asked} == {"id.test"}


INTROSPECTED: dict[str, tuple[dict[str, Any], int]] = {
    "active": ({}, 200),
    "not active": ({"active": False}, 401),
    "active as a text": ({"active": "true"}, 401),
    "for another": ({"aud": "https://other.test"}, 401),
    "for nobody": ({"aud": None}, 401),
    "for us and Nextcloud": ({"aud": ["https://cloud.test", RESOURCE]}, 200),
    "expired": ({"exp": NOW - 31}, 401),
    "of another issuer": ({"iss": "https://evil.test"}, 401),
    "without a person": ({"sub": None}, 401),
    "refresh token": ({"token_type": "refresh_token"}, 401),
    "refresh token of Keycloak": ({"typ": "Refresh"}, 401),
    "refresh token of Hydra": ({"token_use": "refresh_token"}, 401),
}


@pytest.mark.parametrize(("changes", "expected"), INTROSPECTED.values(), ids=INTROSPECTED.keys())
async def test_an_opaque_token_is_worth_what_its_issuer_says(
    served: Served, changes: dict[str, Any], expected: int
) -> None:
    said = {"active": True, **claims(scope="notes:read"), **changes}
    served.provider.tokens = {"opaque": {name: value for name, value in said.items() if value is not None}}

    assert await status(served, "opaque") == expected


@pytest.mark.parametrize(
    "handler",
    [
        silent,
        timing_out,
        answering(500),
        answering(401),
        answering(200, content=b"{}"),
        answering(200, json=[]),
    ],
)
async def test_introspection_fails_closed(served: Served, handler: Handler) -> None:
    served.provider.instead = {"/introspect": handler}

    assert await status(served, "opaque") == 503


async def test_what_introspection_said_is_not_used_past_a_minute_nor_past_the_end(served: Served) -> None:
    served.provider.tokens = {
        "short": {"active": True, **claims(exp=NOW + 5)},
        "long": {"active": True, **claims()},
    }
    first = [await status(served, name) for name in ("short", "long")]
    served.harness.clock.forward(40)
    expired = await status(served, "short")
    served.provider.tokens = {}
    kept = await status(served, "long")
    served.time.now += 60
    revoked = await status(served, "long")

    assert (first, expired, kept, revoked) == ([200, 200], 401, 200, 401)


SCOPES_OF_TOKENS: dict[str, tuple[object, bool, bool]] = {
    "reading": ("notes:read", True, False),
    "writing": ("notes:read notes:write", True, True),
    "writing alone": ("notes:write", False, True),
    "list": (["notes:read"], True, False),
    "empty list": ([], False, False),
    "empty": ("", False, False),
    "missing": (None, False, False),
    "the bundle of an app": ("notes", True, True),
    "the bundle of reading": ("openid read", True, False),
    "the bundle of writing": ("write", False, True),
    "the bundle of another app": ("files", False, False),
    "a prefix of a bundle": ("note rea", False, False),
    "the beginning of one": ("notes:rea", False, False),
    "a wildcard": ("notes:* *", False, False),
    "other case": ("NOTES:READ", False, False),
    "commas": ("notes:read,notes:write", False, False),
    "namespaced": ("api://x/notes:read", False, False),
    "of another app": ("files:read files:write", False, False),
}


@pytest.mark.parametrize(("scope", "reads", "writes"), SCOPES_OF_TOKENS.values(), ids=SCOPES_OF_TOKENS.keys())
async def test_the_list_and_the_call_follow_the_token_alike(
    served: Served, scope: object, *, reads: bool, writes: bool
) -> None:
    given = token(scope=scope)
    async with served.session(given) as session:
        listed = await session.tools()
        calls = {params["name"]: await session.call(params) for params in (READ, WRITE)}

    allowed = {READ["name"]: reads, WRITE["name"]: writes}
    assert {name: name in listed for name in allowed} == allowed
    assert {name: answer.status_code == 200 for name, answer in calls.items()} == allowed
    assert "request_nextcloud_access" in listed
    for name, answer in calls.items():
        if not allowed[name]:
            assert answer.status_code == 403
            assert 'error="insufficient_scope"' in answer.headers["WWW-Authenticate"]


async def test_a_refused_call_names_every_scope_it_needs_at_once(served: Served) -> None:
    needed = {
        tool.name: tool.scopes for tool in mcp_server.select(("notes", "files"), exclude=(), read_only=False)
    }
    async with served.http(token(scope="")) as http:
        for name, scopes in needed.items():
            call: Message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}
            answer = await http.post("/mcp", json=call)
            expected = f'scope="{" ".join(sorted(scopes))}"'
            assert not scopes or expected in answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    ("uri", "needed"), [("nc://files/a.md", "files:read"), ("nc://notes/1", "notes:read")]
)
async def test_a_resource_whose_scope_a_token_lacks_is_refused_with_the_scope_it_needs(
    served: Served, uri: str, needed: str
) -> None:
    read: Message = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}}
    async with served.http(token(scope="files:write")) as http:
        answer = await http.post("/mcp", json=read)

    assert answer.status_code == 403
    assert 'error="insufficient_scope"' in answer.headers["WWW-Authenticate"]
    assert needed in answer.headers["WWW-Authenticate"]


async def test_scopes_limit_nothing_where_the_operator_says_so(
    harness: ProcessHost, process: Process
) -> None:
    async with (
        serving(harness, process, token_scopes="ignore") as served,
        served.session(token(scope=None)) as session,
    ):
        listed = await session.tools()

    assert {READ["name"], WRITE["name"]} <= listed


OTHERS = {
    "another person": token(sub="bob"),
    "another client": token(client_id="cursor"),
    "the same name at another issuer": token(iss=SECOND, key=second_key()),
}


REACHING: list[tuple[str, dict[str, str]]] = [
    ("POST", {}),
    ("GET", {}),
    ("GET", {"Last-Event-ID": "1"}),
    ("DELETE", {}),
]


@pytest.mark.parametrize("stranger", OTHERS.values(), ids=OTHERS.keys())
async def test_a_foreign_session_is_no_session_and_stays_as_it_is(served: Served, stranger: str) -> None:
    pairs: list[tuple[httpx2.Response, httpx2.Response]] = []
    # A stream that opened for a stranger would never end.
    with anyio.fail_after(60):
        async with served.session(token()) as owner:
            for method, headers in REACHING:
                body = LIST if method == "POST" else None
                async with (
                    served.joining(stranger, owner.id) as other,
                    served.joining(stranger, "0" * 32) as none,
                ):
                    foreign = await other.send(method, json=body, headers=headers)
                    unknown = await none.send(method, json=body, headers=headers)
                    pairs.append((foreign, unknown))
            alive = await owner.tools()

    assert [(foreign.status_code, unknown.status_code) for foreign, unknown in pairs] == [(404, 404)] * 4
    assert all(foreign.text == unknown.text for foreign, unknown in pairs)
    assert READ["name"] in alive


async def test_a_session_is_no_way_in_without_a_token(served: Served) -> None:
    async with served.session(token()) as owner, served.http() as nobody:
        headers = {"Mcp-Session-Id": owner.id, "MCP-Protocol-Version": "2025-11-25"}
        answers = [
            await nobody.request(method, "/mcp", headers=headers) for method in ("POST", "GET", "DELETE")
        ]
        alive = await owner.tools()

    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert READ["name"] in alive


async def test_a_session_goes_on_with_the_next_token_of_the_same_person(served: Served) -> None:
    async with served.session(token()) as first, served.joining(token(jti="2"), first.id) as later:
        assert READ["name"] in await later.tools()


async def test_a_stream_lasts_no_longer_than_the_token_and_the_session_goes_on_with_the_next(
    served: Served,
) -> None:
    listen = {"notifications": {"toolsListChanged": True}}
    async with served.session(token()) as session, served.stateless(token()) as modern:
        served.harness.clock.forward(300 + LEEWAY_SECONDS - 0.2)
        with anyio.fail_after(60):
            first = await session.send("GET")
            again = await session.send("GET")
            with pytest.raises(NotAsPromised, match="status 200"):
                await modern.request("subscriptions/listen", listen)
        served.harness.clock.forward(1)
        refused = await session.send("GET")
        async with served.joining(token(exp=claims()["exp"] + 600), session.id) as later:
            listed = await later.tools()

    assert [each.status_code for each in (first, again, refused)] == [200, 200, 401]
    assert first.headers["content-type"].startswith("text/event-stream")
    assert [each["method"] for each in modern.notices] == ["notifications/subscriptions/acknowledged"]
    assert READ["name"] in listed


async def test_a_session_opened_with_a_wider_token_does_not_widen_the_next_one(served: Served) -> None:
    async with served.session(token()) as wide, served.joining(token(scope="notes:read"), wide.id) as narrow:
        listed = await narrow.tools()
        refused = await narrow.call(WRITE)

    assert READ["name"] in listed
    assert WRITE["name"] not in listed
    assert refused.status_code == 403


@pytest.mark.parametrize("stranger", OTHERS.values(), ids=OTHERS.keys())
async def test_a_request_state_belongs_to_the_person_and_the_client(served: Served, stranger: str) -> None:
    async with served.stateless(token()) as owner, served.stateless(stranger) as other:
        asked = (await owner.request("tools/call", READ))["result"]
        retry: Message = {
            **READ,
            "requestState": asked["requestState"],
            "inputResponses": {"provision": {"action": "decline"}},
        }
        stolen = await other.request("tools/call", retry)
        mine = await owner.request(
            "tools/call", {**retry, "inputResponses": {"provision": {"action": "accept"}}}
        )

    assert asked["resultType"] == "input_required"
    assert stolen["error"]["code"] == -32602
    assert mine["result"]["resultType"] == "input_required"


async def test_a_request_state_is_not_taken_for_other_arguments_or_changed(served: Served) -> None:
    async with served.stateless(token()) as owner:
        state = (await owner.request("tools/call", READ))["result"]["requestState"]
        other = await owner.request(
            "tools/call", {"name": READ["name"], "arguments": {"note_id": 2}, "requestState": state}
        )
        changed = await owner.request("tools/call", {**READ, "requestState": f"{state[:-2]}AA"})

    assert other["error"]["code"] == changed["error"]["code"] == -32602


@pytest.mark.parametrize("stranger", OTHERS.values(), ids=OTHERS.keys())
async def test_a_consent_request_cannot_be_tracked_by_another_person_or_another_client(
    served: Served, stranger: str
) -> None:
    async with served.stateless(token()) as owner, served.stateless(stranger) as other:
        asked = (await owner.request("tools/call", READ))["result"]
        url: str = asked["inputRequests"]["provision"]["params"]["url"]
        consent_request = {"elicitationId": url.partition("elicitationId=")[2]}
        stolen = await other.request("elicitation/track", consent_request)
        mine = await owner.request("elicitation/track", consent_request)

    assert stolen["error"]["code"] == -32602
    assert mine["error"]["code"] == -32000


HOSTILE = {
    "no JSON": b"{",
    "empty": b"",
    "not UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "rather deep": b'{"params":' + b"[" * 70 + b"]" * 70 + b"}",
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":NaN}}',
    "infinity": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":1e999}}',
    "huge number": b'{"id":' + b"9" * 10_000 + b"}",
    "duplicate keys": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        b'{"name":"nc_notes_get_note","name":"nc_notes_delete_note","arguments":{"note_id":1}}}'
    ),
    "duplicate method": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{}}',
    "lone surrogate": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":"\\ud800"}}',
    "lone surrogate as a key": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"\\udfff":1}}',
}


async def test_hostile_json_is_refused_and_the_server_lives_on(served: Served) -> None:
    async with served.session(token()) as session:
        headers = {"Mcp-Session-Id": session.id, "Content-Type": "application/json"}
        answers = {
            name: await session.http.post("/mcp", content=body, headers=headers)
            for name, body in HOSTILE.items()
        }
        too_large = await session.http.post("/mcp", content=b" " * 4_200_000, headers=headers)
        alive = await session.tools()

    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(HOSTILE, 400)
    assert all(answer.json()["error"]["code"] == -32700 for answer in answers.values())
    assert too_large.status_code == 413
    assert READ["name"] in alive


async def test_a_client_s_token_goes_nowhere(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    given = token(sub="canary")
    caplog.set_level(logging.DEBUG)
    async with served.stateless(given) as client:
        await client.request("tools/call", READ)
        await client.request("tools/call", {"name": "check_provisioning_status", "arguments": {}})
    await status(served, f"{given}x")

    sent = [*served.harness.network.asked, *served.provider.asked]
    signature = given.rpartition(".")[2]
    assert all(signature not in f"{request.url}{request.headers}" for request in sent)
    assert all(signature.encode() not in request.content for request in sent)
    assert signature not in caplog.text


async def test_the_same_request_ids_of_many_people_cross_no_answers(served: Served) -> None:
    people = [f"person-{n}" for n in range(20)]
    answers: dict[str, str] = {}

    async def ask(person: str) -> None:
        async with served.stateless(token(sub=person)) as client:
            asked = (await client.request("tools/call", READ))["result"]
            url: str = asked["inputRequests"]["provision"]["params"]["url"]
            answers[person] = url.partition("elicitationId=")[2]

    async with anyio.create_task_group() as group:
        for person in people:
            group.start_soon(ask, person)

    assert len(set(answers.values())) == len(people)
