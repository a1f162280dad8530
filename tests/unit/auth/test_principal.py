from nextcloud_mcp_server.auth.principal import PERSONAL_CLIENT_ID, personal, personal_caller
from nextcloud_mcp_server.storage.records import Principal

URL = "https://cloud.example.org"


def test_the_one_person_is_named_by_their_nextcloud() -> None:
    assert personal(URL) == Principal(issuer="personal", subject=URL)


def test_every_client_on_the_computer_shares_one_permission() -> None:
    first, second = personal_caller(URL, "Claude Code"), personal_caller(URL, "Cursor")

    assert (first.principal, first.client_id) == (second.principal, second.client_id)
    assert first.client_id == PERSONAL_CLIENT_ID
    assert first.client_name != second.client_name
