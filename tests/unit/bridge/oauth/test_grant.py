"""When a token counts as expired, and what is stored of it."""

from datetime import UTC, datetime, timedelta

import pytest

from nextcloud_mcp_server.bridge.oauth.grant import Grant
from tests.unit.bridge.oauth.test_tokens import GRANT, NOW


@pytest.mark.parametrize(
    ("seconds", "is_stale", "is_expired"),
    [
        (-1, True, True),
        (0, True, True),
        (1, True, False),
        (60, True, False),
        (61, False, False),
        (3600, False, False),
    ],
)
def test_a_token_is_refreshed_a_minute_before_it_expires(
    seconds: int,
    is_stale: bool,  # noqa: FBT001 - a parameter of the test
    is_expired: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    grant = GRANT.model_copy(update={"expires_at": NOW + timedelta(seconds=seconds)})

    assert grant.is_stale(NOW) is is_stale
    assert grant.is_expired(NOW) is is_expired


def test_a_token_without_an_end_never_expires() -> None:
    grant = GRANT.model_copy(update={"expires_at": None})

    assert not grant.is_stale(datetime.max.replace(tzinfo=UTC))


def test_a_stored_grant_comes_back_whole() -> None:
    text = GRANT.model_dump_json()

    assert Grant.model_validate_json(text) == GRANT
    assert "refresh-0" in text
    # RFC 3339.
    assert '"expires_at":"2026-11-30T12:00:00Z"' in text
