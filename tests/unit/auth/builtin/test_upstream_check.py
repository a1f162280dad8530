from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.broker import Broker
from nextcloud_mcp_server.auth.builtin import upstream_check as module
from nextcloud_mcp_server.auth.builtin.upstream_check import (
    ASK_SECONDS,
    KEEP_SECONDS,
    PAUSE_SECONDS,
    UpstreamCheck,
)
from nextcloud_mcp_server.auth.consent.nextcloud_oauth2 import NextcloudOAuth2
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.storage.records import Principal
from tests.auth_fixtures import NEXTCLOUD
from tests.authorization_fixtures import ALICE, CALLBACK, ISSUER, AuthorizationFixture, open_authorization

Answer = Callable[[], httpx2.Response]


def user(uid: str = "alice", *groups: str, header: str | None = None) -> httpx2.Response:
    data = {"id": uid, "displayname": uid.title(), "groups": list(groups), "enabled": True}
    meta = {"status": "ok", "statuscode": 200, "message": "OK"}
    return httpx2.Response(
        200, json={"ocs": {"meta": meta, "data": data}}, headers={"X-User-Id": header or uid}
    )


def refusal(status: int, message: str = "") -> httpx2.Response:
    return httpx2.Response(status, json={"message": message})


class Upstream:
    """A Nextcloud that answers as it is told to, and a watch."""

    def __init__(
        self, authorization: AuthorizationFixture, *groups: str, ask_seconds: float = ASK_SECONDS
    ) -> None:
        self.answers: list[Answer] = []
        self.asked = 0
        self.seconds = 0.0
        self.is_silent = False
        pool = open_pool(ca_bundle=None, user_agent="test", transport=httpx2.MockTransport(self._answer))
        nextcloud = Nextcloud(NextcloudUrl.parse(NEXTCLOUD), pool)
        provider = NextcloudOAuth2(
            nextcloud,
            client_id="us",
            client_secret=SecretStr("secret"),
            redirect_uri=CALLBACK,
            clock=authorization.clock,
        )
        self.check = UpstreamCheck(
            authorization.database,
            nextcloud,
            Broker(authorization.database, {provider.name: provider}, clock=authorization.clock),
            groups=frozenset(groups),
            monotonic=lambda: self.seconds,
            ask_seconds=ask_seconds,
        )

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/token"):
            tokens = {"access_token": "new", "refresh_token": "newer", "expires_in": 3600, "user_id": "alice"}
            return httpx2.Response(200, json={**tokens, "token_type": "Bearer"})
        self.asked += 1
        if self.is_silent:
            await anyio.sleep_forever()
        return (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])()

    async def says(self, *answers: Answer) -> str | None:
        self.answers = list(answers)
        return await self.check.still_allowed(ALICE)


@pytest.fixture
async def authorization(tmp_path: Path, template: Path) -> AsyncGenerator[AuthorizationFixture]:
    async with open_authorization(tmp_path, template) as made:
        await made.register()
        await made.connect("alice")
        yield made


async def test_a_yes_counts_for_five_minutes(authorization: AuthorizationFixture) -> None:
    upstream = Upstream(authorization)

    told = [await upstream.says(user) for _ in range(2)]
    upstream.seconds += KEEP_SECONDS
    late = await upstream.says(lambda: refusal(401, "Account disabled"))

    assert told == [None, None]
    assert late == "the Nextcloud account is disabled"
    assert upstream.asked == 2


async def test_a_nextcloud_that_does_not_answer_is_not_waited_for(
    authorization: AuthorizationFixture,
) -> None:
    upstream = Upstream(authorization, ask_seconds=0.05)
    upstream.is_silent = True

    # The client for Nextcloud gives up by itself, but only after half a minute.
    with anyio.fail_after(20):
        assert await upstream.says(user) is None


async def test_of_too_many_people_the_first_are_forgotten(
    authorization: AuthorizationFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_KEPT", 0)
    upstream = Upstream(authorization)

    told = [await upstream.says(user) for _ in range(2)]

    assert told == [None, None]
    assert upstream.asked == 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda: refusal(401, "Account disabled"), "the Nextcloud account is disabled"),
        (lambda: refusal(401), "Nextcloud no longer accepts the access given earlier"),
        (lambda: refusal(403), "Nextcloud no longer accepts the access given earlier"),
        (lambda: user("bob", "staff"), "Nextcloud answered for another account"),
        (lambda: user("bob", "staff", header="alice"), "Nextcloud answered for another account"),
        (lambda: user("alice", "guests"), "not in a group that may use this server"),
    ],
)
async def test_a_clear_no_refuses_and_is_asked_for_again_each_time(
    authorization: AuthorizationFixture, answer: Answer, why: str
) -> None:
    upstream = Upstream(authorization, "staff")

    refused = await upstream.says(answer)

    assert refused == why


async def test_a_member_is_let_in_again_at_once(authorization: AuthorizationFixture) -> None:
    upstream = Upstream(authorization, "staff")

    refused = await upstream.says(user)
    allowed = await upstream.says(lambda: user("alice", "guests", "staff"))

    assert refused == "not in a group that may use this server"
    assert allowed is None


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_an_unavailable_nextcloud_signs_no_user_out_and_is_not_asked_for_a_while(
    authorization: AuthorizationFixture, status: int
) -> None:
    upstream = Upstream(authorization)

    told = await upstream.says(lambda: refusal(status, "no"))
    asked = upstream.asked
    again = await upstream.says(lambda: refusal(401, "Account disabled"))
    upstream.seconds += PAUSE_SECONDS
    late = await upstream.says(lambda: refusal(401, "Account disabled"))

    assert (told, again) == (None, None)
    assert upstream.asked == asked + 1
    assert late == "the Nextcloud account is disabled"


async def test_an_access_token_that_ran_out_early_is_renewed_first(
    authorization: AuthorizationFixture,
) -> None:
    upstream = Upstream(authorization)

    told = await upstream.says(lambda: refusal(401), lambda: refusal(401), user)

    assert told is None
    assert upstream.asked == 3, "a refusal is confirmed by one probe"


async def test_an_account_of_which_webdav_alone_says_that_it_is_disabled_is_refused(
    authorization: AuthorizationFixture,
) -> None:
    """Recorded: OCS answers 401, and WebDAV 503 with the exception's name."""
    upstream = Upstream(authorization)
    disabled = httpx2.Response(503, text="<s:exception>OC\\User\\DisabledUserException</s:exception>")

    told = await upstream.says(lambda: refusal(401), lambda: disabled)

    assert told == "the Nextcloud account is disabled"


async def test_one_route_that_refuses_says_nothing_about_the_person(
    authorization: AuthorizationFixture,
) -> None:
    assert await Upstream(authorization).says(lambda: refusal(401), user) is None


async def test_an_access_that_is_refused_twice_is_not_used_again(authorization: AuthorizationFixture) -> None:
    upstream = Upstream(authorization)

    told = [await upstream.says(lambda: refusal(401)) for _ in range(3)]

    assert set(told) == {"Nextcloud no longer accepts the access given earlier"}
    assert upstream.asked == 4, "each refusal counts against all users of this server"


async def test_a_user_without_access_at_nextcloud_is_refused_without_a_request(
    authorization: AuthorizationFixture,
) -> None:
    upstream = Upstream(authorization)

    assert await upstream.check.still_allowed(Principal(ISSUER, "nobody")) is not None
    assert upstream.asked == 0
