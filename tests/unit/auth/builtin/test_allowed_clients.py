from dataclasses import replace

import pytest

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.storage.oauth_records import Client
from tests.clients_fixtures import APP, START

REGISTERED = Client(
    client_id="mcp-a",
    kind="registered",
    name="App",
    redirect_uris=("https://app.example.org/callback",),
    auth_method="none",
    secret_hash=None,
    scopes=None,
    created_at=START,
    last_used_at=None,
    native=False,
)


def registered(*redirect_uris: str) -> Client:
    return replace(REGISTERED, redirect_uris=redirect_uris)


def described(url: str, *redirect_uris: str) -> Client:
    return replace(REGISTERED, client_id=url, kind="document", redirect_uris=redirect_uris)


def test_without_words_every_client_is_allowed() -> None:
    allowed = AllowedClients()

    assert allowed.allow(REGISTERED)
    assert allowed.allow(described(APP, "https://elsewhere.example/callback"))
    assert allowed.allow_host("anything.example")


@pytest.mark.parametrize(
    ("word", "uri", "is_allowed"),
    [
        ("claude.ai", "https://claude.ai/cb", True),
        ("claude.ai", "https://claude.ai:8443/cb", True),
        ("claude.ai", "https://CLAUDE.ai./cb", True),
        ("claude.ai", "https://www.claude.ai/cb", False),
        ("claude.ai", "https://claude.ai.evil.example/cb", False),
        ("claude.ai", "https://notclaude.ai/cb", False),
        ("*.example.org", "https://app.example.org/cb", True),
        ("*.example.org", "https://a.b.example.org/cb", True),
        ("*.example.org", "https://example.org/cb", False),
        ("*.example.org", "https://evilexample.org/cb", False),
        ("cursor:", "cursor://anysphere.cursor-retrieval/cb", True),
        ("cursor", "cursor://anysphere.cursor-retrieval/cb", False),
        ("localhost", "http://127.0.0.1:33418/cb", True),
        ("localhost", "http://[::1]:33418/cb", True),
        ("localhost", "http://localhost/cb", True),
        ("127.0.0.1", "http://127.0.0.1/cb", False),
    ],
)
def test_a_word_allows_what_it_names_and_forbids_nothing_else(
    word: str, uri: str, *, is_allowed: bool
) -> None:
    client = registered(uri)

    assert AllowedClients(allowed=frozenset({word})).allow(client) is is_allowed
    assert AllowedClients(denied=frozenset({word})).allow(client) is not is_allowed


def test_a_client_that_is_denied_and_allowed_is_denied() -> None:
    rules = AllowedClients(
        allowed=frozenset({"*.example.org"}), denied=frozenset({"evil.example.org", "other.example"})
    )

    assert rules.allow(registered("https://good.example.org/cb"))
    assert not rules.allow(registered("https://evil.example.org/cb"))
    assert not rules.allow_host("evil.example.org")
    assert not rules.allow_host("third.example")


def test_a_registered_client_counts_by_every_place_it_may_send_people_to() -> None:
    mixed = registered("https://claude.ai/cb", "https://evil.example/cb")

    assert not AllowedClients(allowed=frozenset({"claude.ai"})).allow(mixed)
    assert not AllowedClients(denied=frozenset({"evil.example"})).allow(mixed)
    assert AllowedClients(allowed=frozenset({"claude.ai", "evil.example"})).allow(mixed)


def test_a_client_with_a_document_counts_by_the_documents_host_alone() -> None:
    client = described(APP, "http://localhost/callback", "https://elsewhere.example/cb")

    assert AllowedClients(allowed=frozenset({"app.example.org"})).allow(client)
    assert not AllowedClients(allowed=frozenset({"localhost", "elsewhere.example"})).allow(client)
    assert not AllowedClients(denied=frozenset({"app.example.org"})).allow(client)


def test_a_document_of_a_host_that_could_never_be_read_counts_by_its_redirects() -> None:
    # Such an id is older than the rule for addresses that forbids it now.
    client = described("https://127.0.0.1/client", "https://claude.ai/cb")

    assert AllowedClients(allowed=frozenset({"claude.ai"})).allow(client)
    assert not AllowedClients(denied=frozenset({"claude.ai"})).allow(client)
