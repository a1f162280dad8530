import pytest

from nextcloud_mcp_server.auth.client_identity import identity
from nextcloud_mcp_server.auth.consent.views import ClientIdentity
from nextcloud_mcp_server.auth.principal import PERSONAL_CLIENT_ID
from nextcloud_mcp_server.storage.oauth_records import Client
from tests.clients_fixtures import START

DOCUMENT = "https://evil.example/client.json"


def registered(*redirect_uris: str) -> Client:
    return Client(
        client_id="mcp-1",
        kind="registered",
        name="",
        redirect_uris=redirect_uris,
        auth_method="none",
        secret_hash=None,
        scopes=None,
        created_at=START,
        last_used_at=None,
        native=False,
    )


@pytest.mark.parametrize(("name", "imitated"), [("Claude", "Claude"), ("Notes for me", None)])
def test_a_document_vouches_by_its_host_and_its_name_is_compared_with_that(
    name: str, imitated: str | None
) -> None:
    assert identity(DOCUMENT, name, None) == ClientIdentity(host="evil.example", imitates=imitated)


@pytest.mark.parametrize("client_id", ["chat-7", PERSONAL_CLIENT_ID])
def test_a_client_of_the_identity_provider_is_named_by_its_id(client_id: str) -> None:
    assert identity(client_id, "Claude", None) == ClientIdentity(id=client_id)


@pytest.mark.parametrize(
    ("redirect_uris", "imitated"),
    [
        (("https://claude.ai/callback",), None),
        (("https://evil.example/callback",), "Claude"),
        (("https://claude.ai/callback", "https://evil.example/callback"), "Claude"),
        (("http://localhost/callback",), None),
    ],
)
def test_a_client_that_registered_itself_is_known_by_where_its_answers_go(
    redirect_uris: tuple[str, ...], imitated: str | None
) -> None:
    found = identity("mcp-1", "Claude", registered(*redirect_uris))

    assert found is not None
    assert found.imitates == imitated
    assert len(found.leads_to) == len(redirect_uris)
