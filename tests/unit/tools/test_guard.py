from typing import Any, cast

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.tools.guard import Call


def key(subject: str, client_id: str, name: str, form: wire.Form = wire.Form.TEXT) -> str:
    """Name a client without a session; nothing else of the call counts."""
    caller = Caller(Principal("https://id.test", subject), client_id, name)
    nothing = cast("Any", None)
    return Call(nothing, caller, form, None, "", nothing, 0.0).stand_in


def test_two_clients_without_a_session_never_share_a_key_whatever_their_names_hold() -> None:
    callers = [
        ("a b", "c", "d"),
        ("a", "b c", "d"),
        ("a", "b", "c d"),
        ('a", "b', "c", "d"),
        ("a b c d", "", ""),
    ]

    assert len({key(*caller) for caller in callers}) == len(callers)


def test_a_client_that_shows_pages_and_one_of_the_same_name_that_does_not_are_two() -> None:
    assert key("a", "b", "c") != key("a", "b", "c", wire.Form.INPUT_REQUIRED)
