"""Variables of earlier servers: each is named with what replaces it."""

import re

import pytest

from nextcloud_mcp_server.settings.earlier_names import EARLIER, EARLIER_MODE
from nextcloud_mcp_server.settings.names import known_variables, lost_limits, unknown_variables


@pytest.mark.parametrize("name", EARLIER)
def test_a_variable_of_an_earlier_server_is_named_with_what_replaces_it(name: str) -> None:
    (sentence,) = unknown_variables({name: "x"})

    assert sentence.startswith(f"{name} is not read: an earlier server had it. ")
    assert sentence.endswith(".")
    meant = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", sentence)) - {name}
    assert meant <= set(known_variables())


def test_no_variable_of_this_server_is_called_an_earlier_one() -> None:
    assert not {*EARLIER, EARLIER_MODE} & set(known_variables())


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        ("single_user_basic", "MODE=personal"),
        ("LOGIN_FLOW", "MODE=builtin"),
        ("oauth_single_audience", "MODE=oidc"),
        ("else", "MODE to personal, oidc or builtin"),
    ],
)
def test_a_mode_chosen_by_the_earlier_variable_alone_is_refused(value: str, mode: str) -> None:
    """Ignored, it would be a server that acts as one user for every client."""
    (sentence,) = lost_limits({EARLIER_MODE: value})

    assert mode in sentence


@pytest.mark.parametrize("environ", [{EARLIER_MODE: ""}, {EARLIER_MODE: "login_flow", "MODE": "builtin"}, {}])
def test_the_earlier_variable_changes_nothing_where_the_mode_is_chosen(environ: dict[str, str]) -> None:
    assert lost_limits(environ) == []
