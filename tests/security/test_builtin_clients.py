"""Strangers who register, or have us read their documents: what they may not get out of it."""

import json
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.auth.builtin import redirects
from nextcloud_mcp_server.auth.builtin.documents import ClientDocuments
from nextcloud_mcp_server.auth.builtin.pinned import open_outside
from nextcloud_mcp_server.errors import OAuthRefusal
from tests.clients_fixtures import (
    APP,
    DOCUMENT,
    PUBLIC,
    RULES,
    ClientsFixture,
    Clock,
    MemoryClients,
    Said,
    json_said,
)

DANGEROUS = [
    "javascript:alert(document.domain)//",
    "JaVaScRiPt:alert(1)",
    "data:text/html;base64,PHNjcmlwdD4=",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "blob:https://app.example.org/1",
    "intent://scan/#Intent;scheme=zxing;end",
    "ms-officecmd:%7B%7D",
    "http://evil.test/callback",
    "http://169.254.169.254/latest",
    "https://app.example.org@evil.test/",
    "https://evil.test\\@app.example.org/",
    "https://app.example.org/#@evil.test",
    "https://app.example.org/\r\nSet-Cookie: a=b",
    "https://app.example.org\t/",
    "//evil.test/callback",
    "\\\\evil.test\\share",
    "https://evil.test%2f@app.example.org/",
    "http://localhost:80:80/callback",
    "http://[::ffff:127.0.0.1]/callback",
    "http://0x7f000001/callback",
    "http://127.1/callback",
    "http://localhost。evil.test/callback",
    "com.evil.app:/callback",
]


async def refusal_of(made: ClientsFixture, url: str = APP) -> OAuthRefusal:
    with pytest.raises(OAuthRefusal) as caught:
        await made.documents.get(url)
    return caught.value


# Where our requests go.


@pytest.mark.parametrize(
    "addresses",
    [
        ["169.254.169.254"],
        ["127.0.0.1"],
        ["0.0.0.0"],
        ["10.1.2.3"],
        ["100.100.100.200"],
        ["168.63.129.16"],
        ["::1"],
        ["fd00:ec2::254"],
        ["fe80::1%eth0"],
        ["::ffff:169.254.169.254"],
        ["64:ff9b::a9fe:a9fe"],
        ["2002:a9fe:a9fe::1"],
        ["224.0.0.251"],
        [PUBLIC, "127.0.0.1"],
        [PUBLIC, "2606:2800:220:1::1", "fc00::1"],
    ],
)
async def test_a_name_that_leads_into_a_network_of_ours_makes_no_connection(addresses: Sequence[str]) -> None:
    made = ClientsFixture()
    made.internet.names["app.example.org"] = addresses
    made.internet.put(APP, DOCUMENT)

    refusal = await refusal_of(made)

    assert made.internet.asked == []
    assert made.records.rows == {}
    assert not any(address in str(refusal) for address in addresses)


@pytest.mark.parametrize(
    "url",
    [
        "https://169.254.169.254/latest/meta-data/",
        "https://2852039166/latest",
        "https://0xa9fea9fe/latest",
        "https://0251.0376.0251.0376/latest",
        "https://[::ffff:a9fe:a9fe]/latest",
        "https://localhost/client.json",
        "https://app.example.org:22/client.json",
        "https://app.example.org:6379/client.json",
        "http://app.example.org/client.json",
        "file:///etc/passwd",
        "gopher://app.example.org/client.json",
        "https://user:password@app.example.org/client.json",
        "https://app.example.org\\@169.254.169.254/client.json",
        "https://app.example.org#@169.254.169.254/client.json",
        "https://169.254.169.254%23.app.example.org/client.json",
        "https://①②⑦.0.0.1/client.json",
    ],
)
async def test_an_id_that_is_no_plain_address_of_a_name_is_not_even_looked_up(url: str) -> None:
    looked_up: list[str] = []

    async def resolve(host: str) -> list[str]:
        looked_up.append(host)
        return [PUBLIC]

    made = ClientsFixture()
    overrides = open_outside(
        user_agent="test", inner=httpx2.MockTransport(made.internet.answer), resolve=resolve
    )
    documents = ClientDocuments(made.records, RULES, overrides, clock=Clock().now)

    with pytest.raises(OAuthRefusal):
        await documents.get(url)

    assert looked_up == []


async def test_a_name_that_changes_its_address_after_the_check_is_asked_where_it_was_checked() -> None:
    answers = iter([[PUBLIC], ["169.254.169.254"], ["169.254.169.254"]])
    clock, records = Clock(), MemoryClients()
    made = ClientsFixture()
    made.internet.put(APP, DOCUMENT)

    async def rebinding(_: str) -> list[str]:
        return next(answers)

    overrides = open_outside(
        user_agent="test", inner=httpx2.MockTransport(made.internet.answer), resolve=rebinding
    )
    documents = ClientDocuments(records, RULES, overrides, clock=clock.now, monotonic=clock.monotonic)
    await documents.get(APP)
    assert [request.url.host for request in made.internet.asked] == [PUBLIC]
    clock.go(hours=2)

    with pytest.raises(OAuthRefusal):
        await documents.get(APP)

    assert len(made.internet.asked) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", ["https://169.254.169.254/", "http://localhost/", "/other.json", APP])
async def test_a_redirect_is_followed_nowhere(status: int, target: str) -> None:
    made = ClientsFixture()
    made.internet.answers[APP] = Said(status, headers={"Location": target})

    await refusal_of(made)

    assert len(made.internet.asked) == 1
    assert made.records.rows == {}


async def test_nothing_a_document_names_is_loaded() -> None:
    made = ClientsFixture()
    links = dict.fromkeys(
        ("logo_uri", "client_uri", "jwks_uri", "tos_uri", "policy_uri"), "https://evil.test/a.svg"
    )
    made.internet.put(APP, DOCUMENT | links | {"sector_identifier_uri": "https://evil.test/"})

    await made.documents.get(APP)

    assert [request.headers["Host"] for request in made.internet.asked] == ["app.example.org"]


async def test_the_request_carries_nothing_of_ours() -> None:
    made = ClientsFixture()
    made.internet.put(APP, DOCUMENT, {"Set-Cookie": "a=b; Secure"})
    await made.documents.get(APP)
    made.clock.go(hours=2)
    await made.documents.get(APP)

    for request in made.internet.asked:
        assert {"authorization", "cookie", "referer", "origin"}.isdisjoint(request.headers)
        assert request.method == "GET"
        assert request.content == b""


# What comes back.


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 512


async def drop_by_drop() -> AsyncIterator[bytes]:
    yield b"{"
    await anyio.sleep_forever()


def twice(key: str, value: object) -> bytes:
    return json.dumps(DOCUMENT).encode()[:-1] + f', "{key}": {json.dumps(value)}}}'.encode()


@pytest.mark.parametrize(
    "answer",
    [
        json_said(body=endless),
        json_said(body=drop_by_drop),
        json_said(json.dumps(DOCUMENT | {"padding": "x" * 5120}).encode()),
        json_said(json.dumps(DOCUMENT).encode(), {"Content-Encoding": "gzip"}),
        json_said(b"\x1f\x8b\x08" + bytes(100), {"Content-Encoding": "gzip"}),
        Said(content=json.dumps(DOCUMENT).encode(), headers={"Content-Type": "text/html"}),
        Said(content=json.dumps(DOCUMENT).encode(), headers={"Content-Type": "application/json-patch"}),
        Said(content=json.dumps(DOCUMENT).encode()),
        Said(206, content=json.dumps(DOCUMENT).encode(), headers={"Content-Type": "application/json"}),
        json_said(twice("client_id", APP)),
        json_said(twice("redirect_uris", ["https://evil.test/"])),
        json_said(twice("x", 0)[:-2] + b"NaN}"),
        json_said(b'{"a":' * 200 + b"1" + b"}" * 200),
        json_said(b"\xff\xfe{}"),
        json_said(b'{"client_name": "\\ud800"}'),
        json_said(json.dumps([DOCUMENT]).encode()),
        json_said(b"null"),
        json_said(b""),
    ],
)
async def test_an_answer_that_is_no_small_plain_json_object_makes_no_client(answer: Said) -> None:
    made = ClientsFixture(seconds=0.05)
    made.internet.answers[APP] = answer

    refusal = await refusal_of(made)

    assert refusal.status == 503
    assert made.records.rows == {}


@pytest.mark.parametrize(
    "client_id",
    [
        "https://app.example.org/oauth/client.JSON",
        "https://APP.example.org/oauth/client.json",
        "https://app.example.org:443/oauth/client.json",
        f"{APP}/",
        f"{APP}?",
        "https://claude.ai/oauth/claude-code-client-metadata",
        "",
        None,
        [APP],
    ],
)
async def test_a_document_speaks_for_its_own_address_alone(client_id: object) -> None:
    made = ClientsFixture()
    made.internet.put(APP, DOCUMENT | {"client_id": client_id})

    assert "another client_id" in str(await refusal_of(made))
    assert made.records.rows == {}


@pytest.mark.parametrize("uri", DANGEROUS)
async def test_a_dangerous_redirect_uri_is_kept_of_no_client(uri: str) -> None:
    made = ClientsFixture()
    made.internet.put(APP, DOCUMENT | {"redirect_uris": [uri, "https://app.example.org/callback"]})

    client = await made.documents.get(APP)
    answer = await made.register(redirect_uris=[uri, "http://localhost/callback"])

    assert client.redirect_uris == ("https://app.example.org/callback",)
    assert answer["redirect_uris"] == ["http://localhost/callback"]
    assert not redirects.any_matches([*client.redirect_uris, *answer["redirect_uris"]], uri)
    with pytest.raises(OAuthRefusal):
        await made.register(redirect_uris=[uri])


async def test_what_a_document_took_back_is_taken_back_and_what_it_adds_counts_for_it_alone() -> None:
    made = ClientsFixture()
    other = "https://other.example.org/client.json"
    made.internet.put(APP, DOCUMENT)
    made.internet.put(
        other, DOCUMENT | {"client_id": other, "redirect_uris": ["https://other.example.org/cb"]}
    )
    before, neighbour = await made.documents.get(APP), await made.documents.get(other)
    made.internet.put(APP, DOCUMENT | {"client_name": "Other", "redirect_uris": ["https://evil.test/cb"]})
    made.clock.go(hours=2)

    after = await made.documents.get(APP)

    assert not redirects.any_matches(after.redirect_uris, before.redirect_uris[0])
    assert (after.client_id, after.name) == (APP, "Other")
    assert await made.documents.get(other) == replace(neighbour, created_at=made.clock.now())


async def test_a_document_that_turned_into_a_client_with_a_secret_is_refused() -> None:
    made = ClientsFixture()
    made.internet.put(APP, DOCUMENT)
    await made.documents.get(APP)
    made.internet.put(
        APP, DOCUMENT | {"token_endpoint_auth_method": "client_secret_post", "client_secret": "x"}
    )
    made.clock.go(hours=2)

    assert (await refusal_of(made)).error == "invalid_client"


# What a registration may say.

ODD: list[Any] = [
    None,
    True,
    0,
    -1.5,
    10**400,
    "",
    "\x00",
    "\ud800",
    "x" * 60_000,
    [],
    [None],
    [[]],
    [{}],
    ["x"] * 10_000,
    {},
    {"a": {"b": []}},
]
FIELDS = (
    "redirect_uris",
    "client_name",
    "scope",
    "grant_types",
    "response_types",
    "token_endpoint_auth_method",
)


@pytest.mark.parametrize("field", FIELDS)
async def test_no_value_of_a_field_gets_more_than_an_answer_or_a_refusal(field: str) -> None:
    made, answers = ClientsFixture(), 0

    for value in ODD:
        try:
            answer = await made.register(**{"redirect_uris": ["https://app.example.org/cb"], field: value})
        except OAuthRefusal:
            continue
        answers += 1
        assert None not in answer.values()
        assert len(json.dumps(answer)) < 2000

    assert answers == (0 if field == "redirect_uris" else pytest.approx(len(ODD), abs=4))


async def test_no_client_chooses_its_id_or_secret() -> None:
    made = ClientsFixture()
    wanted = {"client_id": "mcp-mine", "client_secret": "mine", "client_secret_expires_at": 0}

    public = await made.register(
        **wanted, redirect_uris=["https://a.test/"], token_endpoint_auth_method="none"
    )
    secret = await made.register(**wanted, redirect_uris=["https://a.test/"])

    assert "mine" not in json.dumps([public, secret])
    assert "client_secret" not in public


async def test_a_name_like_that_of_another_client_is_another_client() -> None:
    made = ClientsFixture()
    names = ["Claude", "Claude\u200b", "\u0421laude", "claude", "Claude "]

    answers = [
        await made.register(
            client_name=name,
            redirect_uris=["https://claude.ai/api/mcp/auth_callback"],
            token_endpoint_auth_method="none",
        )
        for name in names
    ]
    stranger = await made.register(
        client_name="Claude", redirect_uris=["https://evil.test/"], token_endpoint_auth_method="none"
    )

    ids = [answer["client_id"] for answer in answers]
    assert len(set(ids)) == 5
    assert stranger["client_id"] not in ids


async def test_a_refusal_and_the_log_repeat_nothing_of_what_was_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    made = ClientsFixture()
    canary = "c4n4ry"
    made.internet.put(APP, DOCUMENT | {"client_id": canary})
    refusals = [await refusal_of(made), await refusal_of(made, f"https://{canary}")]
    for fields in (
        {"redirect_uris": [f"http://{canary}.test/"]},
        {"redirect_uris": ["https://a.test/"], "grant_types": [canary]},
    ):
        with pytest.raises(OAuthRefusal) as caught:
            await made.register(**fields)
        refusals.append(caught.value)
    secret = (await made.register(redirect_uris=["https://a.test/"]))["client_secret"]

    assert not any(canary in str(refusal) for refusal in refusals)
    assert canary not in caplog.text
    assert secret not in caplog.text
    assert secret not in repr(made.records.rows)
