"""Where a browser goes on to after its sign-in: to a path that is made here, and nowhere else."""

import pytest

from nextcloud_mcp_server.errors import ElicitationUnknown
from nextcloud_mcp_server.web.request_context import (
    ACCOUNT_TARGET,
    consent_target,
    elicitation_id_of,
    path_of,
)

ID = "0b8a3a4e-5c1d-4f52-9a57-0e3c7d1f2a6b"


def test_a_target_leads_to_its_page() -> None:
    assert path_of(consent_target(ID)) == f"/oauth/consent?elicitationId={ID}"
    assert path_of(ACCOUNT_TARGET) == "/account"
    assert elicitation_id_of(consent_target(ID)) == ID


@pytest.mark.parametrize(
    "target",
    [
        ACCOUNT_TARGET,
        "",
        "consent:",
        "consent:unknown",
        f"consent:{ID}&next=//evil.example",
        "//evil.example",
    ],
)
def test_a_target_that_names_no_consent_request_is_answered_as_an_unknown_one(target: str) -> None:
    with pytest.raises(ElicitationUnknown):
        elicitation_id_of(target)
