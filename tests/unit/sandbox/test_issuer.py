import base64
import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import jwt
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.document import Document
from nextcloud_mcp_server.sandbox.faults import LostAnswer
from nextcloud_mcp_server.sandbox.issuer import Issuer
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.sandbox.state import Clock

URL = "https://id.example.test"
MCP = "https://mcp.example.org/mcp"
CALLBACK = "https://mcp.example.org/oauth/callback/sign-in"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
LOGIN = ("server", "server's secret")


@pytest.fixture
def issuer(clock: Clock) -> Issuer:
    made = Issuer(clock=clock, scopes=["notes:read"])
    made.add_client(LOGIN[0], secret=LOGIN[1], redirect_uris=[CALLBACK])
    made.add_client("assistant", redirect_uris=["http://127.0.0.1/callback"])
    return made


@pytest.fixture
async def person(issuer: Issuer) -> AsyncGenerator[httpx2.AsyncClient]:
    """A browser."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(issuer.app), base_url=URL) as client:
        yield client


@pytest.fixture
async def machine(issuer: Issuer) -> AsyncGenerator[httpx2.AsyncClient]:
    """A program without cookies."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(issuer.app), base_url=URL) as client:
        yield client


def wish(**changes: str | list[str] | None) -> dict[str, str | list[str]]:
    asked: dict[str, str | list[str] | None] = {
        "response_type": "code",
        "client_id": LOGIN[0],
        "redirect_uri": CALLBACK,
        "scope": "openid offline_access",
        "state": "s1",
        "nonce": "n1",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changes,
    }
    return {key: value for key, value in asked.items() if value is not None}


async def sign_in(
    person: httpx2.AsyncClient, asked: Mapping[str, str | list[str]], who: str = "alice"
) -> httpx2.Response:
    """Follow the authorization request to its end, through the login page where there is one."""
    answer = await person.get("/authorize", params=asked)
    if answer.status_code == 200:
        request = Document.read(answer.text).forms[0].fields[0].value
        form = {"request": request, "user": who, "password": who}
        answer = await person.post("/login", data=form)
        answer = await person.get(answer.headers["Location"])
    return answer


def sent_back(answer: httpx2.Response) -> dict[str, str]:
    query = parse_qs(urlsplit(answer.headers["Location"]).query)
    return {key: value for key, [value] in query.items()}


async def exchange_code(machine: httpx2.AsyncClient, code: str, **changes: str) -> httpx2.Response:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
    }
    return await machine.post("/token", data=form | changes, auth=LOGIN)


async def refresh(machine: httpx2.AsyncClient, token: str, **more: str) -> httpx2.Response:
    return await machine.post(
        "/token", data={"grant_type": "refresh_token", "refresh_token": token, **more}, auth=LOGIN
    )


async def tokens_of(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient, who: str = "alice", **changes: str | None
) -> dict[str, Any]:
    code = sent_back(await sign_in(person, wish(**changes), who))["code"]
    answer = await exchange_code(machine, code)
    return answer.json()


async def claims_of(machine: httpx2.AsyncClient, token: str, audience: str) -> dict[str, Any]:
    keys = jwt.PyJWKSet.from_dict((await machine.get("/jwks")).json())
    key = keys[jwt.get_unverified_header(token)["kid"]]
    # The issuer's clock is not the machine's.
    unchecked = {"verify_exp": False, "verify_iat": False}
    return jwt.decode(token, key, ["RS256"], audience=audience, issuer=URL, options=unchecked)  # pyright: ignore[reportArgumentType] - a part of the options


@pytest.mark.parametrize("path", ["openid-configuration", "oauth-authorization-server"])
async def test_the_metadata_names_the_issuer_its_endpoints_and_no_registration(
    path: str, machine: httpx2.AsyncClient
) -> None:
    document = (await machine.get(f"/.well-known/{path}")).json()

    assert document["issuer"] == URL
    assert document["token_endpoint"] == f"{URL}/token"
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["authorization_response_iss_parameter_supported"] is True
    assert "notes:read" in document["scopes_supported"]
    assert "registration_endpoint" not in document


async def test_a_person_signs_in_and_the_client_learns_who_they_are(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    answer = sent_back(await sign_in(person, wish()))
    tokens = (await exchange_code(machine, answer["code"])).json()

    told = await claims_of(machine, tokens["id_token"], "server")
    assert (answer["state"], answer["iss"]) == ("s1", URL)
    assert (told["sub"], told["preferred_username"], told["nonce"]) == ("u-7f3a", "alice", "n1")
    assert (tokens["token_type"], tokens["expires_in"]) == ("Bearer", 900)
    assert tokens["scope"] == "openid offline_access"


async def test_an_access_token_is_for_the_resource_that_was_asked_for(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    tokens = await tokens_of(person, machine, resource=MCP, scope="openid notes:read", nonce=None)

    claims = await claims_of(machine, tokens["access_token"], MCP)
    assert jwt.get_unverified_header(tokens["access_token"])["typ"] == "at+jwt"
    assert (claims["aud"], claims["client_id"], claims["scope"]) == (MCP, "server", "openid notes:read")
    assert "refresh_token" not in tokens
    assert "nonce" not in await claims_of(machine, tokens["id_token"], "server")


async def test_without_a_resource_the_access_token_is_for_the_client(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    tokens = await tokens_of(person, machine, scope="notes:read")

    assert (await claims_of(machine, tokens["access_token"], "server"))["aud"] == "server"
    assert "id_token" not in tokens


async def test_a_public_client_on_loopback_may_use_any_port_with_pkce(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    callback = "http://127.0.0.1:54321/callback"
    asked = wish(client_id="assistant", redirect_uri=callback, resource=[MCP, "https://cloud.example.test"])

    code = sent_back(await sign_in(person, asked, "bob"))["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": callback}
    answer = await machine.post("/token", data=form | {"client_id": "assistant", "code_verifier": VERIFIER})

    claims = await claims_of(machine, answer.json()["access_token"], MCP)
    assert (claims["sub"], claims["aud"]) == ("u-c912", [MCP, "https://cloud.example.test"])


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "made-up"},
        {"redirect_uri": f"{CALLBACK}/"},
        {"redirect_uri": "https://evil.test/"},
        {"client_id": "assistant", "redirect_uri": "http://evil.test:80/callback"},
        {"client_id": "assistant", "redirect_uri": "http://127.0.0.1:port/callback"},
        {"state": ["a", "b"]},
    ],
)
async def test_a_request_that_cannot_be_answered_safely_gets_a_page(
    changes: dict[str, str | list[str]], person: httpx2.AsyncClient
) -> None:
    answer = await person.get("/authorize", params=wish(**changes))

    assert (answer.status_code, "Location" in answer.headers) == (400, False)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"prompt": "none"}, "login_required"),
        (
            {
                "client_id": "assistant",
                "redirect_uri": "http://127.0.0.1/callback",
                "code_challenge": None,
                "state": None,
            },
            "invalid_request",
        ),
    ],
)
async def test_other_mistakes_are_reported_to_the_client(
    changes: dict[str, str | None], error: str, person: httpx2.AsyncClient
) -> None:
    answer = sent_back(await person.get("/authorize", params=wish(**changes)))

    assert (answer["error"], answer["iss"]) == (error, URL)


async def test_a_second_request_of_the_browser_needs_no_password_until_it_is_asked_for(
    person: httpx2.AsyncClient,
) -> None:
    await sign_in(person, wish())

    again = await person.get("/authorize", params=wish(prompt="none"))
    forced = await person.get("/authorize", params=wish(prompt="login"))
    changed = await sign_in(person, wish(prompt="login"), "bob")
    signed_out = await person.get("/logout")
    after = await person.get("/authorize", params=wish(prompt="none"))

    assert "code" in sent_back(again)
    assert (forced.status_code, "code" in sent_back(changed)) == (200, True)
    assert (signed_out.status_code, sent_back(after)["error"]) == (200, "login_required")


async def test_a_wrong_password_shows_the_page_again(person: httpx2.AsyncClient) -> None:
    form = {"request": "client_id=<x>", "user": "alice", "password": "wrong"}

    answer = await person.post("/login", data=form)

    assert (answer.status_code, "Wrong user name or password." in answer.text) == (200, True)
    assert "client_id=&lt;x&gt;" in answer.text


@pytest.mark.parametrize(
    "changes",
    [
        {"code_verifier": "w" * 43},
        {"code_verifier": ""},
        {"redirect_uri": "https://evil.test/"},
        {"code": "made-up"},
    ],
)
async def test_a_code_is_worth_nothing_with_anything_else_wrong(
    changes: dict[str, str], person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    code = sent_back(await sign_in(person, wish()))["code"]

    answer = await exchange_code(machine, **{"code": code} | changes)

    assert (answer.status_code, answer.json()) == (400, {"error": "invalid_grant"})


async def test_a_verifier_for_a_code_without_challenge_is_refused(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    asked = wish(code_challenge=None, code_challenge_method=None)

    wrong = await exchange_code(machine, sent_back(await sign_in(person, asked))["code"])
    right = await exchange_code(machine, sent_back(await sign_in(person, asked))["code"], code_verifier="")

    assert (wrong.status_code, right.status_code) == (400, 200)


async def test_a_code_expires_after_a_minute(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient, advance: Callable[[timedelta], None]
) -> None:
    code = sent_back(await sign_in(person, wish()))["code"]
    advance(timedelta(seconds=61))

    assert (await exchange_code(machine, code)).json() == {"error": "invalid_grant"}


async def test_a_code_used_twice_ends_what_it_gave(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    code = sent_back(await sign_in(person, wish()))["code"]
    tokens = (await exchange_code(machine, code)).json()

    again = await exchange_code(machine, code)
    renewed = await refresh(machine, tokens["refresh_token"])

    assert (again.status_code, renewed.status_code) == (400, 400)


async def test_a_refresh_token_rotates_and_the_old_one_ends_the_family(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    first = await tokens_of(person, machine, resource=MCP)

    second = (await refresh(machine, first["refresh_token"])).json()
    replayed = await refresh(machine, first["refresh_token"])
    third = await refresh(machine, second["refresh_token"])

    assert (await claims_of(machine, second["access_token"], MCP))["aud"] == MCP
    assert replayed.json() == third.json() == {"error": "invalid_grant"}


async def test_a_refresh_may_narrow_the_resource_and_not_widen_it(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    bound = await tokens_of(person, machine, resource=MCP)
    free = await tokens_of(person, machine)

    wider = await refresh(machine, bound["refresh_token"], resource="https://cloud.example.test")
    chosen = await refresh(machine, free["refresh_token"], resource=MCP)

    assert wider.json() == {"error": "invalid_target"}
    assert (await claims_of(machine, chosen.json()["access_token"], MCP))["aud"] == MCP


@pytest.mark.parametrize(
    ("form", "auth", "status", "error"),
    [
        ({"grant_type": "password"}, LOGIN, 400, "unsupported_grant_type"),
        ({"grant_type": "refresh_token", "refresh_token": "made-up"}, LOGIN, 400, "invalid_grant"),
        ({"grant_type": "refresh_token"}, ("server", "wrong"), 401, "invalid_client"),
        ({"grant_type": "refresh_token"}, ("made-up", ""), 401, "invalid_client"),
    ],
)
async def test_a_bad_token_request_is_refused_as_the_standard_says(
    form: dict[str, str],
    auth: tuple[str, str],
    status: int,
    error: str,
    machine: httpx2.AsyncClient,
) -> None:
    answer = await machine.post("/token", data=form, auth=auth)

    assert (answer.status_code, answer.json()) == (status, {"error": error})


async def test_credentials_that_cannot_be_read_are_no_client(machine: httpx2.AsyncClient) -> None:
    answer = await machine.post("/token", headers={"Authorization": "Basic ???"})

    assert answer.status_code == 401


async def test_another_clients_code_and_refresh_token_are_refused(
    issuer: Issuer, person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    issuer.add_client("other", secret="s")
    tokens = await tokens_of(person, machine)
    code = sent_back(await sign_in(person, wish()))["code"]

    answers = [
        await machine.post("/token", data={"grant_type": kind, name: value}, auth=("other", "s"))
        for kind, name, value in (
            ("authorization_code", "code", code),
            ("refresh_token", "refresh_token", tokens["refresh_token"]),
        )
    ]
    await machine.post("/revoke", data={"token": tokens["refresh_token"]}, auth=("other", "s"))
    await machine.post("/revoke", data={"token": tokens["access_token"]}, auth=("other", "s"))

    assert [answer.json() for answer in answers] == [{"error": "invalid_grant"}] * 2
    assert (await refresh(machine, tokens["refresh_token"])).status_code == 200


async def test_introspection_says_what_a_live_token_says(
    issuer: Issuer, person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    issuer.add_client(LOGIN[0], secret=LOGIN[1], redirect_uris=[CALLBACK], opaque_tokens=True)
    tokens = await tokens_of(person, machine, resource=MCP, scope="openid notes:read")

    live = await machine.post("/introspect", data={"token": tokens["access_token"]}, auth=LOGIN)
    bogus = await machine.post("/introspect", data={"token": "bogus"}, auth=LOGIN)
    public = await machine.post("/introspect", data={"token": "x", "client_id": "assistant"})

    told = live.json()
    assert "." not in tokens["access_token"]
    assert (told["active"], told["sub"], told["aud"]) == (True, "u-7f3a", MCP)
    assert (told["iss"], told["scope"], told["username"]) == (URL, "openid notes:read", "alice")
    assert (bogus.json(), public.status_code) == ({"active": False}, 401)


async def test_an_access_token_ends_with_its_time(
    issuer: Issuer, machine: httpx2.AsyncClient, advance: Callable[[timedelta], None]
) -> None:
    token = issuer.access_token("alice", audience=MCP)

    before = issuer.uid_of(token)
    advance(timedelta(minutes=15))
    after = await machine.post("/introspect", data={"token": token}, auth=LOGIN)

    assert (before, issuer.uid_of(token), after.json()) == ("alice", None, {"active": False})


async def test_revoking_ends_the_token_or_its_family(
    person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    first, second = await tokens_of(person, machine), await tokens_of(person, machine)

    answers = [
        await machine.post("/revoke", data={"token": token}, auth=LOGIN)
        for token in (first["access_token"], second["refresh_token"], "made-up")
    ]
    nobody = await machine.post("/revoke", data={"token": "x"})
    alive = [
        (
            await machine.get("/userinfo", headers={"Authorization": f"Bearer {one['access_token']}"})
        ).status_code
        for one in (first, second)
    ]
    renewed = [(await refresh(machine, one["refresh_token"])).status_code for one in (first, second)]

    assert [*(answer.status_code for answer in answers), nobody.status_code] == [200, 200, 200, 401]
    assert (alive, renewed) == ([401, 401], [200, 400])


async def test_userinfo_tells_whose_token_it_is(issuer: Issuer, machine: httpx2.AsyncClient) -> None:
    token = issuer.access_token("bob", audience=[MCP, "userinfo"])

    answer = await machine.get("/userinfo", headers={"Authorization": f"Bearer {token}"})

    assert answer.json() == {
        "sub": "u-c912",
        "name": "Bob Builder",
        "email": "bob@example.test",
        "preferred_username": "bob",
    }


async def test_after_a_rotation_the_old_key_verifies_only_if_it_was_kept(
    issuer: Issuer, machine: httpx2.AsyncClient
) -> None:
    token = issuer.access_token("alice", audience=MCP)
    issuer.keys.rotate(keep_old=True)
    kept = await claims_of(machine, token, MCP)
    issuer.keys.rotate()

    with pytest.raises(KeyError):
        await claims_of(machine, token, MCP)
    assert kept["preferred_username"] == "alice"
    assert await claims_of(machine, issuer.access_token("alice", audience=MCP), MCP)


async def test_faults_in_the_redirect(issuer: Issuer, person: httpx2.AsyncClient) -> None:
    issuer.faults.switch_on("wrong_iss", times=1)
    issuer.faults.switch_on("no_iss", times=1)

    answers = [sent_back(await sign_in(person, wish())) for _ in range(3)]

    assert [answer.get("iss") for answer in answers] == [f"{URL}/other", None, URL]


async def test_faults_in_the_tokens(
    issuer: Issuer, person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    issuer.faults.switch_on("wrong_nonce", times=1)
    issuer.faults.switch_on("other_subject", times=2)
    issuer.faults.switch_on("no_refresh_token", times=1)

    tokens = [await tokens_of(person, machine) for _ in range(3)]

    told = [await claims_of(machine, one["id_token"], "server") for one in tokens]
    assert [one["nonce"] == "n1" for one in told] == [False, True, True]
    assert [one["preferred_username"] for one in told] == ["bob", "bob", "alice"]
    assert ["refresh_token" in one for one in tokens] == [False, True, True]


async def test_a_token_can_be_signed_with_an_unpublished_key(
    issuer: Issuer, machine: httpx2.AsyncClient
) -> None:
    issuer.faults.switch_on("unpublished_key")
    token = issuer.access_token("alice", audience=MCP)
    issuer.faults.clear()

    with pytest.raises(KeyError):
        await claims_of(machine, token, MCP)


async def test_an_endpoint_can_be_down_or_slow_or_lose_its_answer(
    issuer: Issuer, person: httpx2.AsyncClient, machine: httpx2.AsyncClient
) -> None:
    tokens = await tokens_of(person, machine)
    issuer.faults.switch_on("down", endpoint="jwks", times=2)
    issuer.faults.switch_on("slow", endpoint="discovery", seconds=0.01, times=1)
    issuer.faults.switch_on("lost_answer", endpoint="token", times=1)

    down = [(await machine.get("/jwks")).status_code for _ in range(3)]
    slow = await machine.get("/.well-known/openid-configuration")
    with pytest.raises(LostAnswer):
        await refresh(machine, tokens["refresh_token"])

    assert (down, slow.status_code) == ([503, 503, 200], 200)
    assert (await refresh(machine, tokens["refresh_token"])).json() == {"error": "invalid_grant"}
    assert [one.status for one in issuer.requests.records if one.path == "/jwks"] == [503, 503, 200]


async def test_an_issuer_listens_on_a_port_and_a_nextcloud_trusts_it() -> None:
    issuer, sandbox = Issuer(), Sandbox.demo()
    sandbox.state.check_bearer = issuer.uid_of

    with anyio.fail_after(60):
        async with serving(issuer) as url, serving(sandbox) as cloud, httpx2.AsyncClient() as client:
            document = (await client.get(f"{url}/.well-known/openid-configuration")).json()
            bearer = {"Authorization": f"Bearer {issuer.access_token('bob', audience=cloud)}"}
            user = await client.get(
                f"{cloud}/ocs/v2.php/cloud/user", headers={"OCS-APIRequest": "true"} | bearer
            )

    assert (issuer.url, document["issuer"]) == (url, url)
    assert user.headers["X-User-Id"] == "bob"
