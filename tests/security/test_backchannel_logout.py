"""Attack: go on after the identity provider said that the person logged out, or log somebody out with a forged word.

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
from tests.integration.crowd import Crowd, open_crowd

EVENT = "http://schemas.openid.net/event/backchannel-logout"
PING: tuple[str, dict[str, Any]] = ("tools/call", {"name": "check_provisioning_status", "arguments": {}})


@pytest.fixture
async def crowd(tmp_path: Path) -> AsyncGenerator[Crowd]:
    async with open_crowd(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=30) as client:
        yield client


def claims(crowd: Crowd, **changes: object) -> dict[str, Any]:
    now = int(time.time())
    said: dict[str, Any] = {
        "iss": crowd.issuer.url,
        "sub": crowd.issuer.state.accounts["alice"].subject,
        "aud": "us",
        "iat": now + 1,
        "exp": now + 120,
        "jti": secrets.token_hex(8),
        "events": {EVENT: {}},
        **changes,
    }
    return {name: value for name, value in said.items() if value is not None}


def logout_token(crowd: Crowd, *, typ: str = "logout+jwt", published: bool = True, **changes: object) -> str:
    return crowd.issuer.keys.sign(claims(crowd, **changes), typ=typ, published=published)


async def post(crowd: Crowd, http: httpx2.AsyncClient, token: str) -> httpx2.Response:
    return await http.post(f"{crowd.url}/oauth/backchannel-logout", data={"logout_token": token})


async def statuses(*clients: HandshakeClient) -> list[int]:
    return [(await client.refused(*PING))[0] for client in clients]


async def test_a_logout_ends_browser_sessions_streams_and_older_tokens_of_that_person_alone(
    crowd: Crowd, http: httpx2.AsyncClient
) -> None:
    old, said_at = crowd.token("alice"), int(time.time()) + 1
    later = crowd.issuer.keys.sign({**claims_of(old), "iat": said_at + 10}, typ="at+jwt")
    async with (
        crowd.person("alice") as alice,
        crowd.raw(old) as hers,
        crowd.raw(crowd.token("bob")) as his,
        anyio.create_task_group() as group,
    ):
        signed_in = await alice.consent(f"{crowd.url}/account")
        ended = anyio.Event()

        async def hear(*, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401 - the library's
            await hers.listen(task_status=task_status)
            ended.set()

        await group.start(hear)
        answer = await post(crowd, http, logout_token(crowd, iat=said_at))
        with anyio.fail_after(60):
            await ended.wait()
        after = await statuses(hers, his)
        http.headers["Authorization"] = f"Bearer {later}"
        again = await http.post(f"{crowd.url}/mcp", json={}, headers={"Accept": "application/json"})
        page = await alice.follow(f"{crowd.url}/account")

        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        assert "Sign in to see" not in signed_in.text
        assert after == [401, 200]
        assert again.status_code != 401, "who can sign in again gets a newer token"
        assert "Sign in to see" in page.text


async def test_a_logout_ends_the_sessions_of_the_protocol_too(crowd: Crowd, http: httpx2.AsyncClient) -> None:
    """A newer token of the same person and client does not find what the older one had opened."""
    old, said_at = crowd.token("alice"), int(time.time()) + 1
    later = crowd.issuer.keys.sign({**claims_of(old), "iat": said_at + 10}, typ="at+jwt")
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {old}"}, timeout=30) as line,
        crowd.raw(crowd.token("bob")) as his,
    ):
        hers = HandshakeClient(line, f"{crowd.url}/mcp", capabilities={})
        await hers.open()
        await post(crowd, http, logout_token(crowd, iat=said_at))
        line.headers["Authorization"] = f"Bearer {later}"

        assert await statuses(hers, his) == [404, 200]


async def test_a_logout_of_one_session_ends_that_session(crowd: Crowd, http: httpx2.AsyncClient) -> None:
    said = claims_of(crowd.token("alice"))
    here, there = (crowd.issuer.keys.sign({**said, "sid": sid}, typ="at+jwt") for sid in ("one", "two"))
    async with crowd.raw(here) as first, crowd.raw(there) as second, crowd.raw(crowd.token("alice")) as none:
        answers = [await post(crowd, http, logout_token(crowd, sub=None, sid="one"))]
        by_session = await statuses(first, second, none)
        answers.append(await post(crowd, http, logout_token(crowd, sid="three")))
        by_both = await statuses(first, second, none)

    assert [answer.status_code for answer in answers] == [200, 200]
    assert by_session == [401, 200, 200]
    assert by_both == [401, 200, 401], "a token that names no session is its person's"


async def test_a_logout_counts_after_a_restart_too(crowd: Crowd, http: httpx2.AsyncClient) -> None:
    token = crowd.token("alice")
    await post(crowd, http, logout_token(crowd))

    await crowd.restart()

    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    assert (await http.post(f"{crowd.url}/mcp", json={}, headers=headers)).status_code == 401


async def test_what_is_no_logout_token_for_us_ends_nothing(crowd: Crowd, http: httpx2.AsyncClient) -> None:
    used = logout_token(crowd, sub="somebody else")
    await post(crowd, http, used)
    refused = {
        "no event": logout_token(crowd, events=None),
        "another event": logout_token(crowd, events={"http://example.org/event": {}}),
        "an event that is no object": logout_token(crowd, events={EVENT: "yes"}),
        "events that are a list": logout_token(crowd, events=[EVENT]),
        "a nonce": logout_token(crowd, nonce="n"),
        "another audience": logout_token(crowd, aud="another client"),
        "another issuer": logout_token(crowd, iss="https://evil.example"),
        "no time": logout_token(crowd, iat=None),
        "from the future": logout_token(crowd, iat=int(time.time()) + 3600),
        "no end": logout_token(crowd, exp=None),
        "too old": logout_token(crowd, exp=int(time.time()) - 60),
        "nobody": logout_token(crowd, sub=None),
        "a person that is no text": logout_token(crowd, sub=7),
        "no id": logout_token(crowd, jti=None),
        "an access token's type": logout_token(crowd, typ="at+jwt"),
        "a key of nobody": logout_token(crowd, published=False),
        "no signature": jwt.encode(claims(crowd), "", algorithm="none"),
        "an access token": crowd.token("alice"),
        "used before": used,
        "nonsense": "x",
        "nothing": "",
    }
    async with crowd.raw(crowd.token("alice")) as hers:
        answers = {name: await post(crowd, http, token) for name, token in refused.items()}
        after = await statuses(hers)

    assert {name: answer.status_code for name, answer in answers.items() if answer.status_code != 400} == {}
    assert after == [200]
