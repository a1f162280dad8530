"""What pages take from addresses and forms."""

import pytest

from nextcloud_mcp_server.errors import ElicitationUnknown
from nextcloud_mcp_server.web.forms import one_id

ID = "0b8a3a4e-5c1d-4f52-9a57-0e3c7d1f2a6b"


def test_the_one_id_of_a_parameter_is_taken_as_it_is() -> None:
    assert one_id([ID]) == ID


@pytest.mark.parametrize(
    "values",
    [
        [],
        [ID, ID],
        [""],
        ["unknown"],
        [ID.upper()],
        [ID.replace("-", "")],
        [f"{{{ID}}}"],
        [f"{ID}\n"],
        [f" {ID}"],
        [f"urn:uuid:{ID}"],
        ["x" * 100_000],
    ],
)
def test_what_is_no_id_is_answered_as_an_unknown_one(values: list[str]) -> None:
    with pytest.raises(ElicitationUnknown, match=r"There is no such request\."):
        one_id(values)
