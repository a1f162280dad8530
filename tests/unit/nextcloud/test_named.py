"""Finding items by words of their names."""

from threading import get_ident

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.named import having_words


async def test_every_word_must_be_in_the_names_and_no_words_are_in_all() -> None:
    items = ["Big house", "big dog", "cat"]

    async def find(query: str) -> list[str]:
        return await having_words(query, items, lambda one: (one, "animal"), uid="alice")

    assert await find("BIG") == ["Big house", "big dog"]
    assert await find("big animal dog") == ["big dog"]
    assert await find("") == await find("  ") == items


async def test_a_query_of_too_many_words_is_refused() -> None:
    with pytest.raises(errors.InvalidInput):
        await having_words(" ".join(map(str, range(1000))), ["a"], lambda one: (one,), uid="alice")


async def test_long_names_are_read_in_a_thread_and_without_a_query_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name of one conversation of 16 MB held the event loop for two seconds."""
    threads = list[int]()

    def watched(query: str, *texts: str) -> bool:
        threads.append(get_ident())
        return query in texts[0]

    monkeypatch.setattr("nextcloud_mcp_server.nextcloud.named.has_words", watched)
    long = "a" * 200_000

    assert await having_words("", [long], lambda one: (one,), uid="alice") == [long]
    assert threads == []
    assert await having_words("a", [long], lambda one: (one,), uid="alice") == [long]
    assert get_ident() not in threads
