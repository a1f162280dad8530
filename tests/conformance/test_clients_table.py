"""Each client of the table is known by what it says of itself, and gets its codes where it wants them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from nextcloud_mcp_server.auth.builtin import redirects
from nextcloud_mcp_server.auth.builtin.clients import Clients, authenticate
from nextcloud_mcp_server.auth.builtin.metadata import server_metadata
from nextcloud_mcp_server.storage.oauth_records import Client
from tests.clients_fixtures import RULES, ClientsFixture
from tests.conformance.clients_table import CLIENTS, Row

ISSUER = "https://mcp.example.org"
#: OpenID Connect Discovery 1.0 §3, as the TypeScript SDK insists on it.
OPENID = {
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "jwks_uri",
    "response_types_supported",
    "subject_types_supported",
    "id_token_signing_alg_values_supported",
}

every_client = pytest.mark.parametrize("row", CLIENTS, ids=lambda row: row.name)


def fixture_for(row: Row) -> ClientsFixture:
    return ClientsFixture(rules=replace(RULES, plain_hosts=row.plain_hosts))


async def known(harness: ClientsFixture, row: Row) -> Client:
    """Go the way the client goes, up to where `/authorize` has it."""
    if row.document is not None:
        url = row.document["client_id"]
        harness.internet.put(url, row.document)
        return await harness.documents.get(url)
    answer: dict[str, Any] = {}
    for _ in range(row.registers):
        answer = await harness.register(**dict(row.described))
    client = await Clients(harness.records, clock=harness.clock.now).find(answer["client_id"])
    assert client is not None
    authenticate(client, answer.get("client_secret"))
    return client


@every_client
def test_a_row_says_one_way_and_where_it_comes_from(row: Row) -> None:
    assert (row.document is None) != (row.registration is None)
    assert row.sources
    assert all(source.startswith("https://") for source in row.sources)
    assert row.arrives
    assert [other.name for other in CLIENTS].count(row.name) == 1


@every_client
async def test_a_client_is_known_as_it_describes_itself(row: Row) -> None:
    client = await known(fixture_for(row), row)

    assert client.name == row.shown_as
    assert client.auth_method == row.auth_method
    assert client.native is row.native
    assert client.redirect_uris == (row.kept or tuple(row.described["redirect_uris"]))


@every_client
async def test_its_codes_go_where_it_listens_and_nowhere_near(row: Row) -> None:
    client = await known(fixture_for(row), row)

    assert [uri for uri in row.arrives if not redirects.any_matches(client.redirect_uris, uri)] == []
    assert [uri for uri in row.strays if redirects.any_matches(client.redirect_uris, uri)] == []


@pytest.mark.parametrize(
    "row", [row for row in CLIENTS if row.registration is not None], ids=lambda row: row.name
)
async def test_the_answer_to_a_registration_has_what_clients_read_and_no_nulls(row: Row) -> None:
    answer = await fixture_for(row).register(**dict(row.described))

    assert "null" not in json.dumps(answer)
    assert answer["redirect_uris"] == list(row.kept or row.described["redirect_uris"])
    assert answer["token_endpoint_auth_method"] == row.auth_method
    assert ("client_secret" in answer) == (row.auth_method != "none")
    assert {"authorization_code", "refresh_token"} == set(answer["grant_types"])


@pytest.mark.parametrize("row", [row for row in CLIENTS if row.registers > 1], ids=lambda row: row.name)
async def test_a_client_that_registers_twice_is_two_clients_of_which_neither_inherits(row: Row) -> None:
    harness = fixture_for(row)

    await known(harness, row)

    assert len(harness.records.rows) == row.registers


@pytest.mark.parametrize(
    "row", [row for row in CLIENTS if row.document is not None], ids=lambda row: row.name
)
async def test_only_the_document_is_read(row: Row) -> None:
    harness = fixture_for(row)

    await known(harness, row)

    assert len(harness.internet.asked) == 1


@every_client
def test_the_metadata_offers_the_way_the_client_goes(row: Row) -> None:
    described = server_metadata(ISSUER, openid=row.reads_openid_strictly)

    assert row.auth_method in described["token_endpoint_auth_methods_supported"]
    if row.document is not None:
        # Claude and Codex go by their documents only where both are said.
        assert described["client_id_metadata_document_supported"] is True
        assert "none" in described["token_endpoint_auth_methods_supported"]
    else:
        assert described["registration_endpoint"] == f"{ISSUER}/register"
    if row.reads_openid_strictly:
        assert set(described) >= OPENID
    if row.checks_iss:
        assert described["authorization_response_iss_parameter_supported"] is True
