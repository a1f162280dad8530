from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.nextcloud.version import Version

MOMENT = datetime(2026, 11, 27, 21, 3, 53, tzinfo=UTC)


@given(st.text("abc~-1", min_size=1), st.none() | st.integers(0, 2**63), st.none() | st.integers(0, 2**40))
def test_a_version_comes_back_from_its_own_word(etag: str, size: int | None, seconds: int | None) -> None:
    version = Version(etag, size, seconds)

    assert Version.parse(str(version)) == version


@pytest.mark.parametrize(
    ("word", "version"),
    [
        ("abc", Version("abc")),
        ('"abc"', Version("abc")),
        ('W/"abc-gzip"', Version("abc")),
        (" abc~3~4 ", Version("abc", 3, 4)),
        ("~3~4", Version(None, 3, 4)),
        ("~~", Version(None)),
        ("", Version(None)),
        ("abc~x~4", Version("abc~x~4")),
    ],
)
def test_words_from_elsewhere_are_read_as_far_as_they_go(word: str, version: Version) -> None:
    """B16: quotes and weak marks are dropped in one place."""
    assert Version.parse(word) == version


@pytest.mark.parametrize(
    ("mine", "agrees"),
    [
        (Version("a", 1, 2), True),
        (Version("a"), True),
        (Version(None, 1), True),
        (Version("b", 1, 2), False),
        (Version("a", 2, 2), False),
        (Version("a", 1, 3), False),
        (Version(None), False),
    ],
)
def test_versions_agree_when_something_compares_and_nothing_differs(mine: Version, agrees: bool) -> None:  # noqa: FBT001 - pytest passes it by name
    assert mine.agrees_with(Version("a", 1, 2)) is agrees


def test_a_version_knows_its_time() -> None:
    assert Version.of("a", 1, MOMENT).modified_at == MOMENT
    assert Version.of("a", 1, None).modified_at is None
