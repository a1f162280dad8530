import base64
import logging
from typing import Any

import anyio
import httpx2
import pytest
from anyio import wait_all_tasks_blocked
from pydantic import SecretStr

from nextcloud_mcp_server.auth import introspection as module
from nextcloud_mcp_server.auth.introspection import Introspection
from nextcloud_mcp_server.errors import ConfigurationError, IssuerUnavailable, TokenRefused
from tests.issuer_fixtures import Handler, IdentityProvider, Time, answering, claims, silent

ACTIVE: dict[str, Any] = {"active": True, **claims()}


def introspection(provider: IdentityProvider, time: Time) -> Introspection:
    return Introspection(
        provider.discovery(time),
        provider.outgoing(),
        client=("mcp", SecretStr("secret")),
        monotonic=time,
    )


async def test_the_issuer_is_asked_as_our_client_and_the_answer_kept_for_a_minute() -> None:
    provider, time = IdentityProvider(tokens={"opaque": ACTIVE}), Time()
    asking = introspection(provider, time)

    found = [await asking.ask("opaque") for _ in range(3)]
    time.now += 59.9
    await asking.ask("opaque")
    before = provider.count("/introspect")
    time.now += 0.1
    await asking.ask("opaque")

    assert found == [ACTIVE] * 3
    assert before == 1
    assert provider.count("/introspect") == 2
    request = provider.asked[1]
    assert request.method == "POST"
    assert request.content == b"token=opaque&token_type_hint=access_token"
    assert request.headers["Authorization"] == f"Basic {base64.b64encode(b'mcp:secret').decode()}"


async def test_an_answer_that_began_before_a_logout_is_not_used_after_it() -> None:
    provider, time = IdentityProvider(tokens={"opaque": ACTIVE}), Time()
    asking = introspection(provider, time)
    asked, answered = anyio.Event(), anyio.Event()

    async def slowly(_: httpx2.Request) -> httpx2.Response:
        asked.set()
        await answered.wait()
        del provider.instead["/introspect"]
        return httpx2.Response(200, json=ACTIVE)

    provider.instead["/introspect"] = slowly
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            with pytest.raises(TokenRefused):
                await asking.ask("opaque")

        group.start_soon(ask)
        await asked.wait()
        provider.tokens.clear()
        asking.forget()
        answered.set()
    with pytest.raises(TokenRefused):
        await asking.ask("opaque")


@pytest.mark.parametrize(
    "said",
    [
        {"active": False},
        {"active": "true", **claims()},
        {"active": 1, **claims()},
        {"active": None},
        ACTIVE | {"token_type": "refresh_token"},
        ACTIVE | {"token_type": ["Bearer"]},
        ACTIVE | {"token_use": "refresh_token"},
        ACTIVE | {"token_use": "id"},
    ],
)
async def test_a_token_that_is_no_active_access_token_is_refused(said: dict[str, Any]) -> None:
    provider = IdentityProvider(tokens={"opaque": said})

    with pytest.raises(TokenRefused):
        await introspection(provider, Time()).ask("opaque")


@pytest.mark.parametrize(
    "kind", [{"token_type": "Bearer"}, {"token_use": "access_token"}, {"token_use": "access"}]
)
async def test_an_access_token_may_be_called_one(kind: dict[str, Any]) -> None:
    provider = IdentityProvider(tokens={"opaque": ACTIVE | kind})

    assert (await introspection(provider, Time()).ask("opaque"))["sub"] == "alice"


@pytest.mark.parametrize(
    "handler",
    [
        silent,
        answering(401, json={"error": "invalid_client"}),
        answering(400, json={"active": True}),
        answering(500, json=ACTIVE),
        answering(429, json=ACTIVE),
        answering(200, content=b"<html>"),
        answering(200, json=[ACTIVE]),
        answering(200, json={"sub": "alice"}),
        answering(200, content=b'{"active": false, "active": true}'),
        answering(200, content=b'{"active": true, "x": "' + b"x" * 300_000 + b'"}'),
        answering(302, headers={"Location": "https://elsewhere.test/introspect"}),
    ],
)
async def test_an_unreachable_issuer_lets_no_user_in(handler: Handler) -> None:
    provider = IdentityProvider(instead={"/introspect": handler})

    with pytest.raises(IssuerUnavailable):
        await introspection(provider, Time()).ask("opaque")


async def test_our_own_client_being_refused_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    provider = IdentityProvider(instead={"/introspect": answering(401, json={"error": "invalid_client"})})

    with pytest.raises(IssuerUnavailable), caplog.at_level(logging.ERROR):
        await introspection(provider, Time()).ask("opaque-secret")

    assert "INTROSPECTION_CLIENT_ID" in caplog.text
    assert "opaque-secret" not in caplog.text


async def test_an_issuer_without_introspection_is_a_matter_for_the_operator() -> None:
    provider = IdentityProvider(metadata={"introspection_endpoint": None})

    with pytest.raises(ConfigurationError, match="introspection_endpoint"):
        await introspection(provider, Time()).ask("opaque")


async def test_answers_kept_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_KEPT", 2)
    provider, time = IdentityProvider(tokens=dict.fromkeys("abc", ACTIVE)), Time()
    asking = introspection(provider, time)

    for token in "abcbc":
        await asking.ask(token)
    kept = provider.count("/introspect")
    await asking.ask("a")

    assert kept == 3
    assert provider.count("/introspect") == 4


async def test_a_flood_of_tokens_reaches_the_issuer_a_few_at_a_time() -> None:
    now, open_again = 0, anyio.Event()

    async def slow(_: httpx2.Request) -> httpx2.Response:
        nonlocal now
        now += 1
        await open_again.wait()
        return httpx2.Response(200, json={"active": False})

    asking = introspection(IdentityProvider(instead={"/introspect": slow}), Time())

    async def ask(number: int) -> None:
        with pytest.raises(TokenRefused):
            await asking.ask(f"made-up-{number}")

    at_once = 0
    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(ask, number)
        await wait_all_tasks_blocked()
        at_once = now
        open_again.set()

    assert (at_once, now) == (10, 100)
