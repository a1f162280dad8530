from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nextcloud_mcp_server.storage.records import SESSION_LIFETIME, Principal
from nextcloud_mcp_server.web.session_ids import MOST_CHARACTERS, Owner, SessionIds

ALICE = Owner(Principal("https://id.test", "alice"), "claude")
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {"url": {}}, "roots": {"listChanged": True}},
    "clientInfo": {"name": "claude-code", "title": "Claude Code", "version": "2.1"},
}


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def ids(*keys: bytes, clock: Clock | None = None) -> SessionIds:
    return SessionIds(lambda: keys or [b"k" * 32], clock=clock or Clock())


def begun(params: object = INITIALIZE) -> str:
    session_id = ids().new(ALICE, params)
    assert session_id is not None
    return session_id


def test_every_replica_reads_from_the_id_how_the_session_began() -> None:
    beginning = ids().open(begun(), ALICE)

    assert beginning is not None
    assert beginning.params == INITIALIZE
    assert beginning.begun_at == NOW


def test_no_two_sessions_share_an_id_and_none_can_be_read() -> None:
    one, other = begun(), begun()

    assert one != other
    assert one.isascii()
    assert one.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    "other",
    [
        Owner(Principal("https://id.test", "bob"), "claude"),
        Owner(Principal("https://other.test", "alice"), "claude"),
        Owner(Principal("https://id.test", "alice"), "chatgpt"),
        Owner(Principal("https://id.test", "aliceclaude"), ""),
        Owner(Principal("", ""), ""),
    ],
    ids=["user", "issuer", "client", "moved border", "nobody"],
)
def test_it_is_no_session_of_another_user_or_client(other: Owner) -> None:
    assert ids().open(begun(), other) is None


CHANGES: dict[str, Callable[[str], str]] = {
    "empty": lambda _: "",
    "plain": lambda _: "550e8400e29b41d4a716446655440000",
    "cut": lambda text: text[:-4],
    "cut within the key's id": lambda text: text[:12],
    "cut within the nonce": lambda text: text[:20],
    "longer": lambda text: text + "A",
    "padded": lambda text: text + "====",
    "first": lambda text: ("A" if text[0] != "A" else "B") + text[1:],
    "middle": lambda text: text[:60] + ("A" if text[60] != "A" else "B") + text[61:],
    "no ASCII": lambda text: text[:-1] + "ä",
    "endless": lambda text: text * 50,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_made_up_or_changed_id_is_none(name: str) -> None:
    assert ids().open(CHANGES[name](begun()), ALICE) is None


def test_one_session_has_one_id_in_one_spelling() -> None:
    """Base64 ignores the last bits of a value, so another spelling would not be known as ended."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    # A length at which the last character has bits that are ignored.
    made = [begun({**INITIALIZE, "clientInfo": {"name": "n" * n, "version": "1"}}) for n in range(1, 4)]
    spelt = next(each for each in made if len(each) % 4)

    opened = [other for last in alphabet if ids().open(other := spelt[:-1] + last, ALICE) is not None]

    assert opened == [spelt]


def test_an_id_has_its_time() -> None:
    clock = Clock()
    session_id = begun()

    clock.now = NOW + SESSION_LIFETIME - timedelta(seconds=1)
    before = ids(clock=clock).open(session_id, ALICE)
    clock.now = NOW + SESSION_LIFETIME
    after = ids(clock=clock).open(session_id, ALICE)

    assert before is not None
    assert after is None


def test_after_a_new_key_ids_of_the_old_one_open_until_it_is_gone() -> None:
    session_id = begun()

    assert ids(b"n" * 32, b"k" * 32).open(session_id, ALICE) is not None
    assert ids(b"n" * 32).open(session_id, ALICE) is None


def test_what_a_client_tells_of_itself_is_cut_and_what_nobody_uses_is_left_out() -> None:
    info = {
        "name": "n" * 5_000,
        "version": "v" * 5_000,
        "websiteUrl": "https://claude.test",
        "icons": [{"src": "https://claude.test/icon.png"}],
    }

    beginning = ids().open(begun({**INITIALIZE, "clientInfo": info, "_meta": {"a": "b"}}), ALICE)

    assert beginning is not None
    assert beginning.params == {**INITIALIZE, "clientInfo": {"name": "n" * 100, "version": "v" * 40}}


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        "initialize",
        {**INITIALIZE, "capabilities": 1},
        {**INITIALIZE, "capabilities": {"experimental": {"x": {"y": "z" * MOST_CHARACTERS}}}},
    ],
)
def test_parameters_that_are_wrong_or_too_long_give_no_id(params: object) -> None:
    assert ids().new(ALICE, params) is None
