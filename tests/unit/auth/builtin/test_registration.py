import json
from typing import Any

import pytest

from nextcloud_mcp_server.auth.builtin.client_fields import ClientRules
from nextcloud_mcp_server.auth.builtin.clients import authenticate
from nextcloud_mcp_server.auth.builtin.registration import MOST_IN_ALL, MOST_PER_ADDRESS
from nextcloud_mcp_server.errors import OAuthRefusal, TooManyRequests
from tests.clients_fixtures import SCOPES, START, ClientsFixture

URIS = ["https://app.example.org/cb"]
PUBLIC = {"redirect_uris": URIS, "token_endpoint_auth_method": "none"}


async def test_a_public_client_hears_what_is_registered_and_no_nulls() -> None:
    harness = ClientsFixture()

    answer = await harness.register(
        **PUBLIC,
        client_name="App",
        scope="notes:read openid",
        logo_uri="https://app.example.org/logo.png",
        tos_uri=None,
    )

    client_id = answer.pop("client_id")
    assert answer == {
        "client_id_issued_at": int(START.timestamp()),
        "redirect_uris": URIS,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "client_name": "App",
        "scope": "notes:read",
    }
    stored = harness.records.rows[client_id]
    assert (stored.kind, stored.name, stored.scopes, stored.native) == (
        "registered",
        "App",
        frozenset({"notes:read"}),
        False,
    )


@pytest.mark.parametrize("scope", [None, "", "openid profile offline_access", 7])
async def test_a_client_that_names_no_scope_of_ours_is_not_limited(scope: object) -> None:
    harness = ClientsFixture()

    answer = await harness.register(**PUBLIC, scope=scope)

    assert "scope" not in answer
    assert "client_name" not in answer
    assert harness.records.rows[answer["client_id"]].scopes is None


@pytest.mark.parametrize(
    ("scope", "limit"),
    [
        # As clients are told to ask for first, and everything there is: both would shut the client out of later words.
        ("read", None),
        ("files:read notes:read openid", None),
        ("read write", None),
        ("notes", {"notes:read", "notes:write"}),
        ("write mail:read", {"files:write", "notes:write"}),
        ("notes:read", {"notes:read"}),
    ],
)
async def test_a_client_is_limited_to_what_it_registers_for_unless_it_repeats_what_it_was_told(
    scope: str, limit: set[str] | None
) -> None:
    first = frozenset({"files:read", "notes:read"})
    harness = ClientsFixture(rules=ClientRules(scopes=SCOPES, at_sign_in=first))

    answer = await harness.register(**PUBLIC, scope=scope)

    assert harness.records.rows[answer["client_id"]].scopes == limit
    assert set(answer.get("scope", "").split()) == (limit or set())


async def test_each_registration_makes_a_client_of_its_own_also_with_the_same_description() -> None:
    harness = ClientsFixture()

    answers = [await harness.register(**PUBLIC, client_name="App") for _ in range(3)]

    assert len({answer["client_id"] for answer in answers}) == 3
    assert set(harness.records.rows) == {answer["client_id"] for answer in answers}


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, "client_secret_basic"),
        ("client_secret_basic", "client_secret_basic"),
        ("client_secret_post", "client_secret_post"),
    ],
)
async def test_a_client_with_a_secret_is_new_each_time_and_its_secret_is_not_kept(
    asked: str | None, given: str
) -> None:
    harness = ClientsFixture()

    first = await harness.register(redirect_uris=URIS, token_endpoint_auth_method=asked)
    second = await harness.register(redirect_uris=URIS, token_endpoint_auth_method=asked)

    assert first["client_id"] != second["client_id"]
    assert (first["token_endpoint_auth_method"], first["client_secret_expires_at"]) == (given, 0)
    stored = harness.records.rows[first["client_id"]]
    assert first["client_secret"] not in repr(stored)
    authenticate(stored, first["client_secret"])
    with pytest.raises(OAuthRefusal):
        authenticate(stored, second["client_secret"])


@pytest.mark.parametrize("method", ["private_key_jwt", "tls_client_auth", "", 5, ["none"]])
async def test_what_we_do_not_know_becomes_a_public_client(method: object) -> None:
    answer = await ClientsFixture().register(redirect_uris=URIS, token_endpoint_auth_method=method)

    assert answer["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in answer


async def test_bad_redirect_uris_are_dropped_and_the_kept_ones_echoed() -> None:
    given: list[Any] = [
        "javascript:alert(1)",
        "http://localhost/cb",
        None,
        7,
        "http://evil.test/",
        *URIS,
        *URIS,
    ]

    answer = await ClientsFixture().register(redirect_uris=given, token_endpoint_auth_method="none")

    assert answer["redirect_uris"] == ["http://localhost/cb", *URIS]


@pytest.mark.parametrize("uris", [None, [], "https://app.example.org/cb", ["http://evil.test/"], {"a": 1}])
async def test_a_client_without_a_safe_redirect_uri_is_refused(uris: object) -> None:
    harness = ClientsFixture()

    with pytest.raises(OAuthRefusal) as caught:
        await harness.register(redirect_uris=uris)

    assert (caught.value.error, caught.value.status) == ("invalid_redirect_uri", 400)
    assert harness.records.rows == {}


async def test_a_client_has_so_many_redirect_uris_at_most() -> None:
    uris = [f"https://app.example.org/{number}" for number in range(21)]

    assert (await ClientsFixture().register(redirect_uris=uris[1:]))["redirect_uris"] == uris[1:]
    with pytest.raises(OAuthRefusal, match="20") as caught:
        await ClientsFixture().register(redirect_uris=uris)

    assert caught.value.error == "invalid_redirect_uri"


@pytest.mark.parametrize(
    "fields",
    [
        {"grant_types": ["client_credentials"]},
        {"grant_types": ["implicit", "refresh_token"]},
        {"response_types": ["token"]},
    ],
)
async def test_a_client_that_wants_no_code_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(OAuthRefusal) as caught:
        await ClientsFixture().register(**PUBLIC, **fields)

    assert caught.value.error == "invalid_client_metadata"


@pytest.mark.parametrize("body", [None, [], "text", 7])
async def test_a_registration_is_an_object(body: object) -> None:
    with pytest.raises(OAuthRefusal) as caught:
        await ClientsFixture().registration.register(body, address="192.0.2.1")

    assert caught.value.error == "invalid_client_metadata"


async def test_a_name_is_cut_and_shows_what_hides_in_it() -> None:
    harness = ClientsFixture()

    long = await harness.register(**PUBLIC, client_name="x" * 500)
    odd = await harness.register(**PUBLIC, client_name="Claude\u202eedoC\n")
    none = await harness.register(**PUBLIC, client_name={"de": "App"})

    assert long["client_name"] == "x" * 99 + "…"
    assert odd["client_name"] == "Claude<U+202E>edoC"
    assert "client_name" not in none
    json.dumps([long, odd, none]).encode()


async def test_one_address_registers_so_many_new_clients_an_hour_and_others_go_on() -> None:
    harness = ClientsFixture()
    for number in range(MOST_PER_ADDRESS):
        await harness.register("2001:db8::1", **PUBLIC, client_name=str(number))

    with pytest.raises(TooManyRequests):
        await harness.register("2001:db8::2", **PUBLIC, client_name="0")
    await harness.register("192.0.2.7", **PUBLIC, client_name="new")

    harness.clock.go(hours=1)
    await harness.register("2001:db8::2", **PUBLIC, client_name="newer")


async def test_all_addresses_together_register_so_many() -> None:
    harness = ClientsFixture()
    for number in range(MOST_IN_ALL):
        await harness.register(f"192.0.2.{number % 20}", **PUBLIC, client_name=str(number))

    with pytest.raises(TooManyRequests):
        await harness.register("198.51.100.1", **PUBLIC, client_name="new")

    assert len(harness.records.rows) == MOST_IN_ALL
