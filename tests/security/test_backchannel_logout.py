"""Attack: go on after the identity provider said that the user logged out, or log a user out with a forged word.

OpenID Connect Back-Channel Logout 1.0, §2.4 to §2.6: the provider posts a signed logout token.
"""

import secrets
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jwt
import pytest

from nextcloud_mcp_server.demo.oauth_client import claims_of
from nextcloud_mcp_server.demo.wire_client import HandshakeClient
from tests.integration.oidc_app import OidcApp, open_oidc_app

EVENT = "http://schemas.openid.net/event/backchannel-logout"
PING: tuple[str, dict[str, Any]] = ("tools/call", {"name": "check_provisioning_status", "arguments": {}})


@pytest.fixture
async def oidc_app(tmp_path: Path) -> AsyncGenerator[OidcApp]:
    async with open_oidc_app(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield client


def claims(oidc_app: OidcApp, **changes: object) -> dict[str, Any]:
    now = int(time.time())
    said: dict[str, Any] = {
        "iss": oidc_app.issuer.url,
        "sub": oidc_app.issuer.state.accounts["alice"].subject,
        "aud": "us",
        "iat": now + 1,
        "exp": now + 120,
        "jti": secrets.token_hex(8),
        "events": {EVENT: {}},
        **changes,
    }
    return {name: value for name, value in said.items() if value is not None}


def logout_token(
    oidc_app: OidcApp, *, typ: str = "logout+jwt", published: bool = True, **changes: object
) -> str:
    return oidc_app.issuer.keys.sign(claims(oidc_app, **changes), typ=typ, published=published)


async def post(oidc_app: OidcApp, http: httpx2.AsyncClient, token: str) -> httpx2.Response:
    return await http.post(f"{oidc_app.url}/oauth/backchannel-logout", data={"logout_token": token})


async def statuses(*clients: HandshakeClient) -> list[int]:
    return [(await client.refused(*PING))[0] for client in clients]


async def test_a_logout_ends_browser_sessions_streams_and_older_tokens_of_that_person_alone(
    oidc_app: OidcApp, http: httpx2.AsyncClient
) -> None:
    old, said_at = oidc_app.token("alice"), int(time.time()) + 1
    later = oidc_app.issuer.keys.sign({**claims_of(old), "iat": said_at + 10}, typ="at+jwt")
    async with (
        oidc_app.person("alice") as alice,
        oidc_app.raw(old) as hers,
        oidc_app.raw(oidc_app.token("bob")) as his,
        anyio.create_task_group() as group,
    ):
        signed_in = await alice.consent(f"{oidc_app.url}/account")
        ended = anyio.Event()

        async def hear(*, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401 - the library's
            await hers.listen(task_status=task_status)
            ended.set()

        await group.start(hear)
        answer = await post(oidc_app, http, logout_token(oidc_app, iat=said_at))
        with anyio.fail_after(60):
            await ended.wait()
        after = await statuses(hers, his)
        http.headers["Authorization"] = f"Bearer {later}"
        again = await http.post(f"{oidc_app.url}/mcp", json={}, headers={"Accept": "application/json"})
        page = await alice.follow(f"{oidc_app.url}/account")

        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        assert "Sign in to see" not in signed_in.text
        assert after == [401, 200]
        assert again.status_code != 401, "who can sign in again gets a newer token"
        assert "Sign in to see" in page.text


async def test_a_logout_ends_the_sessions_of_the_protocol_too(
    oidc_app: OidcApp, http: httpx2.AsyncClient
) -> None:
    """A newer token of the same user and client does not find what the older one had opened."""
    old, said_at = oidc_app.token("alice"), int(time.time()) + 1
    later = oidc_app.issuer.keys.sign({**claims_of(old), "iat": said_at + 10}, typ="at+jwt")
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {old}"}, timeout=60) as line,
        oidc_app.raw(oidc_app.token("bob")) as his,
    ):
        hers = HandshakeClient(line, f"{oidc_app.url}/mcp", capabilities={})
        await hers.open()
        await post(oidc_app, http, logout_token(oidc_app, iat=said_at))
        line.headers["Authorization"] = f"Bearer {later}"

        assert await statuses(hers, his) == [404, 200]


async def test_a_logout_of_one_session_ends_that_session(oidc_app: OidcApp, http: httpx2.AsyncClient) -> None:
    said = claims_of(oidc_app.token("alice"))
    here, there = (oidc_app.issuer.keys.sign({**said, "sid": sid}, typ="at+jwt") for sid in ("one", "two"))
    async with (
        oidc_app.raw(here) as first,
        oidc_app.raw(there) as second,
        oidc_app.raw(oidc_app.token("alice")) as none,
    ):
        answers = [await post(oidc_app, http, logout_token(oidc_app, sub=None, sid="one"))]
        by_session = await statuses(first, second, none)
        answers.append(await post(oidc_app, http, logout_token(oidc_app, sid="three")))
        by_both = await statuses(first, second, none)

    assert [answer.status_code for answer in answers] == [200, 200]
    assert by_session == [401, 200, 200]
    assert by_both == [401, 200, 401], "a token that names no session is its person's"


async def test_a_logout_ends_a_signed_token_that_does_not_say_when_it_was_issued(
    oidc_app: OidcApp, http: httpx2.AsyncClient
) -> None:
    """RFC 9068 §2.2 requires `iat`; an issuer of plain JWTs may leave it out (RFC 7519 §4.1.6)."""

    def without_time(name: str) -> str:
        said = claims_of(oidc_app.token(name))
        del said["iat"]
        return oidc_app.issuer.keys.sign(said, typ="at+jwt")

    async with oidc_app.raw(without_time("alice")) as hers, oidc_app.raw(without_time("bob")) as his:
        before = await statuses(hers, his)
        await post(oidc_app, http, logout_token(oidc_app))
        after = await statuses(hers, his)

    assert (before, after) == ([200, 200], [401, 200])


async def test_a_logout_counts_after_a_restart_too(oidc_app: OidcApp, http: httpx2.AsyncClient) -> None:
    token = oidc_app.token("alice")
    await post(oidc_app, http, logout_token(oidc_app))

    await oidc_app.restart()

    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    assert (await http.post(f"{oidc_app.url}/mcp", json={}, headers=headers)).status_code == 401


async def test_what_is_no_logout_token_for_us_ends_nothing(
    oidc_app: OidcApp, http: httpx2.AsyncClient
) -> None:
    used = logout_token(oidc_app, sub="somebody else")
    await post(oidc_app, http, used)
    refused = {
        "no event": logout_token(oidc_app, events=None),
        "another event": logout_token(oidc_app, events={"http://example.org/event": {}}),
        "an event that is no object": logout_token(oidc_app, events={EVENT: "yes"}),
        "events that are a list": logout_token(oidc_app, events=[EVENT]),
        "a nonce": logout_token(oidc_app, nonce="n"),
        "another audience": logout_token(oidc_app, aud="another client"),
        "another issuer": logout_token(oidc_app, iss="https://evil.example"),
        "no time": logout_token(oidc_app, iat=None),
        "from before all calendars": logout_token(oidc_app, iat=-(10**12)),
        "from the future": logout_token(oidc_app, iat=int(time.time()) + 3600),
        "no end": logout_token(oidc_app, exp=None),
        "too old": logout_token(oidc_app, exp=int(time.time()) - 60),
        "nobody": logout_token(oidc_app, sub=None),
        "a person that is no text": logout_token(oidc_app, sub=7),
        "no id": logout_token(oidc_app, jti=None),
        "an access token's type": logout_token(oidc_app, typ="at+jwt"),
        "a key of nobody": logout_token(oidc_app, published=False),
        "no signature": jwt.encode(claims(oidc_app), "", algorithm="none"),
        "an access token": oidc_app.token("alice"),
        "used before": used,
        "nonsense": "x",
        "nothing": "",
    }
    async with oidc_app.raw(oidc_app.token("alice")) as hers:
        answers = {name: await post(oidc_app, http, token) for name, token in refused.items()}
        after = await statuses(hers)

    assert {name: answer.status_code for name, answer in answers.items() if answer.status_code != 400} == {}
    assert after == [200]
