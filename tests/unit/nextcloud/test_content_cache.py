from dataclasses import dataclass

from pydantic import SecretStr

from nextcloud_mcp_server.nextcloud.content_cache import CachedContent, ContentCache
from nextcloud_mcp_server.nextcloud.credential import BasicCredential

ALICE = BasicCredential("alice", SecretStr("alice"))


@dataclass(frozen=True)
class Box:
    size: int


def shelf(shelves: ContentCache, topic: str, uid: str = "alice") -> CachedContent[Box]:
    return CachedContent(shelves, uid, ALICE, "notes" if topic == "notes" else "VEVENT")


def test_each_topic_of_a_person_is_kept_by_itself_and_all_of_them_go_together() -> None:
    shelves = ContentCache(monotonic=lambda: 0.0)
    notes, events = shelf(shelves, "notes"), shelf(shelves, "events")
    notes.keep(Box(1))
    events.keep(Box(2))

    assert (notes.take(), events.take(), shelves.size) == (Box(1), Box(2), 3)
    notes.keep(None)
    assert (notes.take(), events.take()) == (None, Box(2))
    shelves.drop("alice")
    assert (events.take(), shelves.people) == (None, [])


def test_what_is_too_large_for_one_person_forgets_what_was_there_and_nothing_else() -> None:
    shelves = ContentCache(monotonic=lambda: 0.0, max_person_bytes=10)
    notes, events = shelf(shelves, "notes"), shelf(shelves, "events")
    notes.keep(Box(1))
    events.keep(Box(10))

    notes.keep(Box(11))

    assert (notes.take(), events.take()) == (None, Box(10))


def test_no_user_is_remembered_without_cached_data() -> None:
    shelves = ContentCache(monotonic=lambda: 0.0, max_person_bytes=10)

    shelf(shelves, "notes").keep(Box(11))
    shelf(shelves, "events", "bob").keep(None)

    assert (shelves.people, shelves.size) == ([], 0)
