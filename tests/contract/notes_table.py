"""How the recordings of the Notes app are replayed."""

from tests.contract.replay import Table, case
from tests.contract.steps import (
    attachment,
    header_of,
    locked,
    note,
    note_removed,
    notes_as_in,
    settings,
    soon,
)

_LOCK = "a lock lasts as long as another request runs"
_PIXEL = "e215cc3c48f17b242b58affd2ab46c31.png"
_NOTE_2 = notes_as_in("notes/get")
_UPDATED = notes_as_in("notes/update_if_match_200")
_COLLIDED = notes_as_in("notes/update_title_collision")
_DEEP = notes_as_in("notes/update_category_slash")
_ATTACHED = (notes_as_in("notes/get_after_attachment"), attachment(_PIXEL))
_ALL = notes_as_in("notes/list_all")
_LOCKED_NOTE = (
    note(title="Note 0", content="x", favorite=True, modified=1700000000, id=314),
    locked("/Notes/Note 0.md"),
)
_RACE = note(title="race", content="x", id=401, etag="c35dfc6232620a571817e5d060fe737b")
_RACE_4 = note(title="race", content="x", id=401, etag="88480510c94c6ba6222a0ab2568faf79")
_RACE_LOCKED = case(_RACE, locked("/Notes/race.md"), sandbox_only=_LOCK)
_RACE_4_LOCKED = case(_RACE_4, locked("/Notes/race.md"), sandbox_only=_LOCK)


NOTES: Table = {
    "notes/attachment_404": case(notes_as_in("notes/get_after_attachment")),
    "notes/attachment_get": case(*_ATTACHED),
    "notes/attachment_traversal_404": case(notes_as_in("notes/get_after_attachment")),
    "notes/attachment_upload": case(notes_as_in("notes/get_after_attachment")),
    "notes/attachment_upload_empty": case(notes_as_in("notes/get_after_attachment")),
    "notes/attachment_upload_plain_v1_405": case(notes_as_in("notes/get_after_attachment")),
    "notes/attachment_via_plain_v1_400": case(notes_as_in("notes/get_after_attachment")),
    "notes/concurrent_create_distinct_0": case(),
    "notes/concurrent_create_distinct_1": case(),
    "notes/concurrent_create_distinct_2": case(),
    "notes/concurrent_create_distinct_3": case(),
    "notes/concurrent_create_same_title_0": case(note(title="same title")),
    "notes/concurrent_create_same_title_1": case(*[note(title="same title")] * 2),
    "notes/concurrent_create_same_title_2": case(*[note(title="same title")] * 3),
    "notes/concurrent_create_same_title_3": case(),
    "notes/concurrent_update_2writers_0": case(_RACE),
    "notes/concurrent_update_2writers_1": _RACE_LOCKED,
    "notes/concurrent_update_4writers_0": case(_RACE_4),
    "notes/concurrent_update_4writers_1": _RACE_4_LOCKED,
    "notes/concurrent_update_4writers_2": _RACE_4_LOCKED,
    "notes/concurrent_update_4writers_3": _RACE_4_LOCKED,
    "notes/create": case(),
    "notes/create_broken_json": case(*[note()] * 3),
    "notes/create_category_hidden": case(),
    "notes/create_category_slash": case(),
    "notes/create_category_traversal": case(),
    "notes/create_duplicate_title_renamed": case(note(title="Note 1", category="Work")),
    "notes/create_empty": case(),
    "notes/create_no_body": case(*[note()] * 2),
    "notes/create_no_title": case(note()),
    "notes/create_title_sanitised": case(),
    "notes/create_wrong_types": case(),
    "notes/delete_200": case(note(title="Note 6", id=325)),
    "notes/delete_404": case(note(title="Note 6", id=325), note_removed(325)),
    "notes/get": case(_NOTE_2),
    "notes/get_404": case(),
    "notes/get_after_attachment": case(*_ATTACHED),
    "notes/get_deleted_404": case(note(title="Note 6", id=325), note_removed(325)),
    "notes/get_exclude_content": case(_NOTE_2),
    "notes/get_if_none_match": case(_NOTE_2),
    "notes/get_locked": case(*_LOCKED_NOTE, sandbox_only=_LOCK),
    "notes/get_non_numeric": case(),
    "notes/get_other_users_note_404": case(_NOTE_2),
    "notes/list_all": case(_ALL),
    "notes/list_anonymous_401": case(),
    "notes/list_bad_cursor": case(_ALL),
    "notes/list_category": case(_ALL),
    "notes/list_category_empty": case(_ALL),
    "notes/list_chunk1": case(_ALL),
    "notes/list_chunk2": case(_ALL, header_of("notes/list_chunk1", "X-Notes-Chunk-Cursor")),
    "notes/list_chunk3": case(
        _ALL, *(header_of(f"notes/list_chunk{part}", "X-Notes-Chunk-Cursor") for part in (1, 2))
    ),
    "notes/list_chunk4": case(
        _ALL, *(header_of(f"notes/list_chunk{part}", "X-Notes-Chunk-Cursor") for part in (1, 2, 3))
    ),
    "notes/list_chunk5": case(
        _ALL, *(header_of(f"notes/list_chunk{part}", "X-Notes-Chunk-Cursor") for part in (1, 2, 3, 4))
    ),
    "notes/list_empty": case(),
    "notes/list_exclude_content": case(_ALL),
    "notes/list_exclude_many": case(_ALL),
    "notes/list_if_none_match_304": case(_ALL, header_of("notes/list_all", "ETag")),
    "notes/list_ocs_header": case(notes_as_in("notes/list_ocs_header")),
    "notes/list_prune_before": case(_ALL),
    "notes/list_prune_before_future": case(_ALL, soon(1795813618)),
    "notes/list_with_locked_note": case(
        notes_as_in("notes/list_with_locked_note"), locked("/Notes/Note 0.md"), sandbox_only=_LOCK
    ),
    "notes/list_without_index_php": case(notes_as_in("notes/list_without_index_php")),
    "notes/options_cors": case(),
    "notes/settings_get": case(settings(fileSuffix=".badsuffix", noteMode="rich")),
    "notes/settings_put": case(),
    "notes/settings_put_bad_suffix": case(),
    "notes/settings_put_reset": case(settings(fileSuffix=".badsuffix")),
    "notes/unknown_api_version": case(),
    "notes/update_404": case(),
    "notes/update_category_slash": case(_COLLIDED),
    "notes/update_empty": case(notes_as_in("notes/update_empty")),
    "notes/update_empty_content": case(notes_as_in("notes/update_empty")),
    "notes/update_favorite": case(_DEEP),
    "notes/update_if_match_200": case(_NOTE_2),
    "notes/update_if_match_stale_412": case(_UPDATED),
    "notes/update_if_match_star": case(_UPDATED),
    "notes/update_if_match_unquoted": case(_UPDATED),
    "notes/update_locked": case(*_LOCKED_NOTE, sandbox_only=_LOCK),
    "notes/update_modified": case(notes_as_in("notes/update_favorite")),
    "notes/update_title": case(_UPDATED),
    "notes/update_title_collision": case(note(title="Note 0"), _UPDATED),
}
