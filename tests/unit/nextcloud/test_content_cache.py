from dataclasses import dataclass

from pydantic import SecretStr

from nextcloud_mcp_server.nextcloud.content_cache import CachedContent, ContentCache
from nextcloud_mcp_server.nextcloud.credential import BasicCredential

ALICE = BasicCredential("alice", SecretStr("alice"))


@dataclass(frozen=True)
class Box:
    size: int


def cached_content(content_cache: ContentCache, topic: str, uid: str = "alice") -> CachedContent[Box]:
    return CachedContent(content_cache, uid, ALICE, "notes" if topic == "notes" else "VEVENT")


def test_each_topic_of_a_person_is_kept_by_itself_and_all_of_them_go_together() -> None:
    content_cache = ContentCache(monotonic=lambda: 0.0)
    notes, events = cached_content(content_cache, "notes"), cached_content(content_cache, "events")
    notes.keep(Box(1))
    events.keep(Box(2))

    assert (notes.take(), events.take(), content_cache.size) == (Box(1), Box(2), 3)
    notes.keep(None)
    assert (notes.take(), events.take()) == (None, Box(2))
    content_cache.drop("alice")
    assert (events.take(), content_cache.people) == (None, [])


def test_what_is_too_large_for_one_person_forgets_what_was_there_and_nothing_else() -> None:
    content_cache = ContentCache(monotonic=lambda: 0.0, max_person_bytes=10)
    notes, events = cached_content(content_cache, "notes"), cached_content(content_cache, "events")
    notes.keep(Box(1))
    events.keep(Box(10))

    notes.keep(Box(11))

    assert (notes.take(), events.take()) == (None, Box(10))


def test_no_user_is_remembered_without_cached_data() -> None:
    content_cache = ContentCache(monotonic=lambda: 0.0, max_person_bytes=10)

    cached_content(content_cache, "notes").keep(Box(11))
    cached_content(content_cache, "events", "bob").keep(None)

    assert (content_cache.people, content_cache.size) == ([], 0)
