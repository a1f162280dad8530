import pytest

from nextcloud_mcp_server.auth.principal import PERSONAL_CLIENT_ID, is_unverified, personal, personal_caller
from nextcloud_mcp_server.storage.records import Principal

URL = "https://cloud.example.org"


def test_the_one_person_is_named_by_their_nextcloud() -> None:
    assert personal(URL) == Principal(issuer="personal", subject=URL)


def test_every_client_on_the_computer_shares_one_permission() -> None:
    first, second = personal_caller(URL, "Claude Code"), personal_caller(URL, "Cursor")

    assert (first.principal, first.client_id) == (second.principal, second.client_id)
    assert first.client_id == PERSONAL_CLIENT_ID
    assert first.client_name != second.client_name


@pytest.mark.parametrize(
    ("said", "unsaid", "unverified"),
    [
        (True, True, False),
        ("true", True, False),
        (False, False, True),
        ("false", False, True),
        (1, False, True),
        ("yes", False, True),
        (None, True, True),
        (None, False, False),
    ],
)
def test_an_address_identifies_a_user_only_where_the_issuer_verified_it(
    said: object, unsaid: object, unverified: object
) -> None:
    assert is_unverified({"email_verified": said}, "email", unsaid=bool(unsaid)) is unverified


def test_other_claims_need_no_verified_address() -> None:
    assert not is_unverified({"email_verified": False}, "sub", unsaid=True)
