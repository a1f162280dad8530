from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.authorize_request import Asked, Requests, ReturnToClient, back_to
from nextcloud_mcp_server.auth.builtin.clients import Clients
from nextcloud_mcp_server.errors import AuthorizeRefused, ClientBarred, ClientUnknown, TooManyRequests
from nextcloud_mcp_server.storage.oauth_records import Client, ClientRequest
from tests.authorization_fixtures import CALLBACK, CLIENT, ISSUER, RESOURCE, asks, query_of
from tests.clients_fixtures import APP, DOCUMENT, SCOPES, START, ClientsFixture, Said
from tests.tokens_fixtures import VERIFIER, challenge_of

CHALLENGE = challenge_of(VERIFIER)
CURSOR = "cursor://anysphere.cursor-retrieval/oauth/callback"
REQUEST = ClientRequest(
    client_id=CLIENT,
    redirect_uri=CALLBACK,
    state="state of the client",
    code_challenge=CHALLENGE,
    resource=RESOURCE,
    scopes=frozenset({"notes:read", "notes:write"}),
    client_name="Claude",
)


@dataclass
class Desk:
    """`Requests`, and what it stands on."""

    harness: ClientsFixture
    requests: Requests

    def register(
        self, *redirect_uris: str, scopes: frozenset[str] | None = None, client_id: str = CLIENT
    ) -> Client:
        client = Client(
            client_id=client_id,
            kind="registered",
            name="Claude",
            redirect_uris=redirect_uris or (CALLBACK,),
            auth_method="none",
            secret_hash=None,
            scopes=scopes,
            created_at=START,
            last_used_at=None,
            native=False,
        )
        self.harness.records.rows[client_id] = client
        return client

    async def refused(self, **changes: str | list[str] | None) -> ReturnToClient:
        """Ask for what a known client does not get."""
        with pytest.raises(ReturnToClient) as caught:
            await self.requests.read(asks(**changes))
        return caught.value


def desk(
    *,
    bound: frozenset[str] = SCOPES,
    allowed: AllowedClients | None = None,
    at_sign_in: frozenset[str] = frozenset(),
) -> Desk:
    harness = ClientsFixture(hosts=allowed)
    clients = Clients(harness.records, clock=harness.clock.now, allowed=allowed)
    requests = Requests(
        clients, harness.documents, issuer=ISSUER, resource=RESOURCE, bound=bound, at_sign_in=at_sign_in
    )
    return Desk(harness, requests)


async def test_a_good_request_says_who_asks_for_what_and_where_it_leads() -> None:
    made = desk()
    client = made.register()

    asked = await made.requests.read(asks())

    assert asked == Asked(
        client=client,
        request=REQUEST,
        document_host=None,
        leads_to="claude.ai",
        loopback=False,
        private=False,
    )
    assert await made.requests.again(asked.request) == asked


@pytest.mark.parametrize(
    ("registered", "given", "leads_to", "loopback", "private"),
    [
        ("http://127.0.0.1/callback", "http://127.0.0.1:33418/callback", "127.0.0.1", True, False),
        ("http://localhost:1/callback", "http://localhost:2/callback", "localhost", True, False),
        (CURSOR, CURSOR, "cursor:", False, True),
        (CALLBACK, CALLBACK, "claude.ai", False, False),
    ],
)
async def test_a_program_on_the_persons_computer_is_told_from_a_server(
    *, registered: str, given: str, leads_to: str, loopback: bool, private: bool
) -> None:
    made = desk()
    made.register(registered)

    asked = await made.requests.read(asks(redirect_uri=given))

    assert (asked.leads_to, asked.loopback, asked.private) == (leads_to, loopback, private)
    assert asked.request.redirect_uri == given


async def test_a_client_with_a_document_is_known_by_whose_document_it_is() -> None:
    made = desk()
    made.harness.internet.put(APP, DOCUMENT)

    asked = await made.requests.read(asks(client_id=APP, redirect_uri="https://app.example.org/callback"))

    assert asked.document_host == "app.example.org"
    assert asked.client.name == "App"
    assert await made.requests.again(asked.request) == asked
    assert len(made.harness.internet.asked) == 1


async def test_a_document_that_does_not_fit_is_said_to_the_person_alone() -> None:
    made = desk()
    made.harness.internet.put(APP, {**DOCUMENT, "client_id": "https://evil.example/client"})

    with pytest.raises(AuthorizeRefused, match="names another client_id"):
        await made.requests.read(asks(client_id=APP))


async def test_too_many_documents_are_too_many() -> None:
    made = desk()
    addresses = [f"https://app.example.org/{number}" for number in range(50)]
    for address in addresses:
        made.harness.internet.put(address, {**DOCUMENT, "client_id": address})

    async def ask_for_all() -> None:
        for address in addresses:
            await made.requests.read(asks(client_id=address, redirect_uri="https://app.example.org/callback"))

    with pytest.raises(TooManyRequests):
        await ask_for_all()


@pytest.mark.parametrize("client_id", ["mcp-unknown", " ", "mcp-claude ", "MCP-CLAUDE"])
async def test_a_client_that_is_not_known_is_sent_nowhere(client_id: str) -> None:
    made = desk()
    made.register()

    with pytest.raises(ClientUnknown):
        await made.requests.read(asks(client_id=client_id))


@pytest.mark.parametrize("client_id", [None, "", [CLIENT, CLIENT]])
async def test_without_one_client_nothing_is_read(client_id: str | list[str] | None) -> None:
    made = desk()
    made.register()

    with pytest.raises(AuthorizeRefused, match="cannot be read"):
        await made.requests.read(asks(client_id=client_id))


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "https://evil.example/callback",
        "https://claude.ai/api/mcp/auth_callback/",
        "https://claude.ai/api/mcp/auth_callback?next=1",
        "https://claude.ai/api/mcp/auth_callback#fragment",
        "https://claude.ai:8443/api/mcp/auth_callback",
        "http://claude.ai/api/mcp/auth_callback",
        "https://claude.ai@evil.example/api/mcp/auth_callback",
        "https://claude.ai/api/mcp/../mcp/auth_callback",
        "//evil.example",
        "\\\\evil.example",
        "javascript:alert(1)",
        "https://claude.ai/api/mcp/auth_callback\r\nLocation: https://evil.example",
    ],
)
async def test_a_redirect_uri_that_was_not_registered_is_sent_nothing(uri: str) -> None:
    made = desk()
    made.register()

    with pytest.raises(AuthorizeRefused, match="has not named before"):
        await made.requests.read(asks(redirect_uri=uri))


async def test_two_redirect_uris_are_none() -> None:
    made = desk()
    made.register()

    with pytest.raises(AuthorizeRefused, match="cannot be read"):
        await made.requests.read(asks(redirect_uri=[CALLBACK, "https://evil.example/callback"]))


async def test_the_only_redirect_uri_need_not_be_named() -> None:
    made = desk()
    made.register()

    asked = await made.requests.read(asks(redirect_uri=None))

    assert asked.request.redirect_uri == CALLBACK


async def test_one_of_several_redirect_uris_has_to_be_named() -> None:
    made = desk()
    made.register(CALLBACK, "https://claude.com/api/mcp/auth_callback")

    with pytest.raises(AuthorizeRefused, match="cannot be read"):
        await made.requests.read(asks(redirect_uri=None))


@pytest.mark.parametrize("state", [["one", "two"], "s" * 2_049])
async def test_a_state_that_cannot_be_returned_is_refused(state: str | list[str]) -> None:
    made = desk()
    made.register()

    with pytest.raises(AuthorizeRefused, match="cannot be read"):
        await made.requests.read(asks(state=state))


async def test_a_request_of_a_client_that_has_expired_meanwhile_is_not_put_again() -> None:
    made = desk()
    made.register()
    asked = await made.requests.read(asks())

    before = await made.requests.again(asked.request)
    made.harness.clock.go(hours=25)

    assert before.request == asked.request
    with pytest.raises(ClientUnknown):
        await made.requests.again(asked.request)


async def test_a_client_keeps_the_name_that_the_user_was_shown() -> None:
    """Its document may give another name between the page that asks and the one that confirms."""
    made = desk()
    client = made.register()
    made.harness.records.rows[CLIENT] = replace(client, name="Weather")
    asked = await made.requests.read(asks())
    made.harness.records.rows[CLIENT] = client

    again = await made.requests.again(ClientRequest.of(asked.request.fields()))

    assert again == asked
    assert again.client.name == "Weather"


@pytest.mark.parametrize("state", [None, "", "s" * 2_048, "ä &=#\r\n", '{"a": [1]}'])
async def test_a_state_is_returned_unchanged(state: str | None) -> None:
    made = desk()
    made.register()

    asked = await made.requests.read(asks(state=state))
    back = query_of(back_to(asked.request, ISSUER, {"code": "mcp_code"}))

    assert asked.request.state == state
    assert back.pop("state", None) == state
    assert back == {"code": "mcp_code", "iss": ISSUER}


@pytest.mark.parametrize(
    ("asked", "limit", "shown"),
    [
        ("notes:read", None, {"notes:read"}),
        ("notes:write notes:read", None, {"notes:read", "notes:write"}),
        ("files:write", None, {"files:write"}),
        ("notes:read openid offline_access", None, {"notes:read"}),
        ("notes:read notes:write files:read files:write", None, SCOPES),
        ("mcp:tools", None, SCOPES),
        ("", None, SCOPES),
        (None, None, SCOPES),
        (None, {"files:read", "mail:read"}, {"files:read"}),
        ("notes:read", {"files:read"}, {"files:read"}),
    ],
)
async def test_what_may_be_allowed_is_what_was_asked_for_of_what_there_is(
    asked: str | None, limit: set[str] | None, shown: set[str]
) -> None:
    made = desk()
    made.register(scopes=None if limit is None else frozenset(limit))

    found = await made.requests.read(asks(scope=asked))

    assert found.request.scopes == shown


@pytest.mark.parametrize(
    ("asked", "limit", "shown"),
    [
        # As every client is told to ask: that is no choice of the client, and the user may allow more at once.
        ("read", None, SCOPES),
        ("files:read notes:read", None, SCOPES),
        ("read", {"notes:read", "notes:write"}, {"notes:read", "notes:write"}),
        ("read write", None, SCOPES),
        ("notes", None, {"notes:read", "notes:write"}),
        ("read notes:write", None, {"files:read", "notes:read", "notes:write"}),
        ("write", None, {"files:write", "notes:write"}),
        ("mail", None, SCOPES),
    ],
)
async def test_a_bundle_is_what_its_scopes_are_and_the_usual_first_question_limits_nothing(
    asked: str, limit: set[str] | None, shown: set[str]
) -> None:
    made = desk(at_sign_in=frozenset({"files:read", "notes:read"}))
    made.register(scopes=None if limit is None else frozenset(limit))

    found = await made.requests.read(asks(scope=asked))

    assert found.request.scopes == shown


async def test_no_client_is_allowed_more_than_the_operator_allows() -> None:
    made = desk(bound=frozenset({"notes:read"}))
    made.register()

    found = await made.requests.read(asks(scope="notes:read notes:write files:read"))

    assert found.request.scopes == {"notes:read"}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": None}, "unsupported_response_type"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code id_token"}, "unsupported_response_type"),
        ({"response_type": ["code", "code"]}, "invalid_request"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"response_mode": "form_post"}, "invalid_request"),
        ({"request": "eyJ"}, "request_not_supported"),
        ({"request_uri": "https://evil.example/request"}, "request_not_supported"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": VERIFIER}, "invalid_request"),
        ({"code_challenge": f"{CHALLENGE}="}, "invalid_request"),
        ({"code_challenge": [CHALLENGE, CHALLENGE]}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "s256"}, "invalid_request"),
        ({"scope": ["notes:read", "notes:write"]}, "invalid_request"),
        ({"anything": ["one", "two"]}, "invalid_request"),
        ({"resource": "https://cloud.example.org"}, "invalid_target"),
        ({"resource": ISSUER}, "invalid_target"),
        ({"resource": ""}, "invalid_target"),
        ({"resource": f"{RESOURCE}/other"}, "invalid_target"),
        ({"resource": RESOURCE.upper()}, "invalid_target"),
        ({"resource": [RESOURCE, "https://cloud.example.org"]}, "invalid_target"),
        ({"prompt": "none"}, "interaction_required"),
        ({"prompt": "login none"}, "interaction_required"),
    ],
)
async def test_what_a_known_client_does_not_get_is_said_to_it_with_its_state_and_our_name(
    changes: dict[str, Any], error: str
) -> None:
    made = desk()
    client = made.register()

    refused = await made.refused(**changes)

    back = query_of(refused.url)
    assert refused.url.startswith(f"{CALLBACK}?")
    assert (back["error"], back["state"], back["iss"]) == (error, "state of the client", ISSUER)
    assert back["error_description"] == str(refused)
    assert refused.asked.client == client


@pytest.mark.parametrize(
    "changes",
    [
        {"resource": None},
        {"resource": f"{RESOURCE}/"},
        {"resource": [RESOURCE, f"{RESOURCE}/"]},
        {"response_mode": "query"},
        {"prompt": "consent"},
        {"prompt": ""},
        {"nonce": "n", "display": "page", "ui_locales": "de"},
    ],
)
async def test_what_clients_also_say_changes_nothing(changes: dict[str, str | list[str] | None]) -> None:
    made = desk()
    made.register()

    asked = await made.requests.read(asks(**changes))

    assert asked.request == REQUEST


async def test_an_answer_is_added_to_what_the_redirect_uri_has_already() -> None:
    made = desk()
    made.register("https://claude.ai/cb?tenant=1")

    refused = await made.refused(redirect_uri="https://claude.ai/cb?tenant=1", prompt="none", state=None)

    back = query_of(refused.url)
    assert refused.url.startswith("https://claude.ai/cb?tenant=1&")
    assert (back["tenant"], back["error"]) == ("1", "interaction_required")
    assert "state" not in back


async def test_a_client_that_the_operator_bars_is_asked_about_no_more() -> None:
    allowed = AllowedClients(denied=frozenset({"claude.ai", "app.example.org"}))
    made = desk(allowed=allowed)
    made.register()

    with pytest.raises(ClientBarred):
        await made.requests.read(asks())
    with pytest.raises(ClientBarred):
        await made.requests.again(REQUEST)
    with pytest.raises(AuthorizeRefused, match="does not allow clients of this host"):
        await made.requests.read(asks(client_id=APP))
    assert made.harness.internet.asked == []


async def test_a_client_that_went_away_meanwhile_is_asked_about_no_more() -> None:
    made = desk()

    with pytest.raises(ClientUnknown):
        await made.requests.again(REQUEST)


async def test_a_client_whose_answers_go_elsewhere_meanwhile_is_asked_about_no_more() -> None:
    made = desk()
    made.register("https://claude.ai/another_callback")

    with pytest.raises(AuthorizeRefused, match="has not named before"):
        await made.requests.again(REQUEST)


async def read(made: Desk, query: dict[str, Sequence[str]]) -> Asked | ReturnToClient | None:
    """Ask; None when the user alone is told why not."""
    try:
        return await made.requests.read(query)
    except AuthorizeRefused:
        return None
    except ReturnToClient as refused:
        return refused


TEXTS = st.text(alphabet="aä /:?#&=%@\\\r\n\0", max_size=20) | st.sampled_from(
    ["code", CLIENT, CALLBACK, CHALLENGE, "S256", RESOURCE]
)
NAMES = st.sampled_from([*asks(), "response_mode", "prompt", "request", "nonce", ""])


# How fast the machine is says nothing about the queries.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(query=st.dictionaries(NAMES, st.lists(TEXTS, max_size=3)))
async def test_no_query_is_put_to_a_person_or_answered_elsewhere_than_at_the_clients_own_place(
    query: dict[str, Sequence[str]],
) -> None:
    made = desk()
    made.register()
    made.harness.internet.answers.update({CALLBACK: Said(404), RESOURCE: Said(404)})

    outcome = await read(made, {**asks(), **query})

    if isinstance(outcome, ReturnToClient):
        assert urlsplit(outcome.url)._replace(query="").geturl() == CALLBACK
        assert parse_qs(urlsplit(outcome.url).query)["iss"] == [ISSUER]
    elif outcome is not None:
        assert (outcome.request.client_id, outcome.request.redirect_uri) == (CLIENT, CALLBACK)
        assert (outcome.request.code_challenge, outcome.request.resource) == (CHALLENGE, RESOURCE)
        assert outcome.request.scopes
        assert outcome.request.scopes <= SCOPES
