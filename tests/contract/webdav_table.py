"""How the recordings of files and trash are replayed."""

from tests.contract.replay import Case, Table, case
from tests.contract.steps import (
    as_in,
    deleted,
    favorite,
    file,
    files_as_in,
    folder,
    full,
    locked,
    trash_entry_removed,
    upload_begun,
)

_REC = case(folder("Rec"))
_NEW = case(file("Rec/put_new.md", "# hello 3\n", etag="83445014f6b9c5b2488ce55c7b1265b0"))
_PLAIN = file("Rec/plain.txt", "plain")
_COPY = file("Rec/copy of plain #1.txt")
_COND = file("Rec/cond.md", "# two\n", etag="f53c3c089a63d60e605c6ef2dc8493f3")
_COND_3 = file("Rec/cond3.md")
_TEN_TEXTS = (files_as_in("webdav/search_like_limit5"), files_as_in("webdav/search_like_limit5_offset5"))
_LISTED = (
    files_as_in("webdav/propfind_no_body_depth1"),
    file(
        "Rec/mtime.txt",
        "hello",
        headers={
            "X-OC-MTime": "1600000000",
            "OC-Checksum": "SHA1:aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d",
        },
    ),
)
_TRASHED = (
    deleted("Rec/trash me #1.txt", "bye", 1795813520),
    deleted("Rec/q&a.txt", "q" * 19, 1795813436),
    deleted("Rec/copy of plain #1.txt", "c" * 21, 1795813435),
)
_SOURCE = case(file("Rec/src.txt"))
_BEGUN = (folder("Rec"), as_in("webdav/chunked_01_mkcol"))
_CHUNKS = (
    as_in("webdav/chunked_02_put_00001", person="alice"),
    as_in("webdav/chunked_02_put_00002", person="alice"),
)
_OTHER = (folder("Rec"), upload_begun("rec-upload-2"))
_LOCK = "a lock lasts as long as another request runs"
_QUOTA = "a quota is set by the administrator"


def _locked() -> Case:
    return case(*_NEW.steps, locked("/Rec/put_new.md"), sandbox_only=_LOCK)


WEBDAV: Table = {
    "webdav/chunked_01_mkcol": _REC,
    "webdav/chunked_02_put_00001": case(*_BEGUN, person="alice"),
    "webdav/chunked_02_put_00002": case(*_BEGUN, person="alice"),
    "webdav/chunked_03_propfind": case(*_BEGUN, *_CHUNKS),
    "webdav/chunked_04_assemble": case(*_BEGUN, *_CHUNKS),
    "webdav/chunked_05_head_result": case(file("Rec/big.bin", "x" * 5_243_904)),
    "webdav/chunked_06_put_no_total": case(*_OTHER),
    "webdav/chunked_07_assemble_size_mismatch": case(*_OTHER, as_in("webdav/chunked_06_put_no_total")),
    "webdav/chunked_08_abort": case(*_OTHER),
    "webdav/chunked_09_assemble_missing_404": _REC,
    "webdav/chunked_10_put_missing_session": _REC,
    "webdav/chunked_mkcol_quota": case(full("bob"), sandbox_only=_QUOTA),
    "webdav/chunked_put_quota_507": case(
        as_in("webdav/chunked_mkcol_quota"), full("bob"), sandbox_only=_QUOTA, person="bob"
    ),
    "webdav/concurrent_mkcol_0": case(folder("Rec/racecol")),
    "webdav/concurrent_mkcol_1": _REC,
    "webdav/concurrent_mkcol_2": case(folder("Rec/racecol")),
    "webdav/concurrent_put_1": _REC,
    "webdav/concurrent_put_3": case(folder("Rec"), locked("/Rec/race.txt"), sandbox_only=_LOCK),
    "webdav/concurrent_put_existing_0": case(
        file("Rec/race.txt"), locked("/Rec/race.txt"), sandbox_only=_LOCK
    ),
    "webdav/concurrent_put_existing_1": case(file("Rec/race.txt")),
    "webdav/concurrent_put_existing_2": case(file("Rec/race.txt")),
    "webdav/concurrent_put_existing_3": case(
        file("Rec/race.txt"), locked("/Rec/race.txt"), sandbox_only=_LOCK
    ),
    "webdav/cond_01_create": _REC,
    "webdav/copy_201": case(_PLAIN),
    "webdav/copy_overwrite_f_412": case(_PLAIN, _COPY),
    "webdav/copy_overwrite_t_204": case(_PLAIN, _COPY),
    "webdav/copy_to_part_400": _SOURCE,
    "webdav/copy_unencoded_hash_destination": case(_COND_3),
    "webdav/copy_unencoded_space_destination": case(_COND_3),
    "webdav/delete_204": case(file("Rec/q&a.txt")),
    "webdav/delete_404": _REC,
    "webdav/delete_if_match_stale_412": case(file("Rec/mtime.txt", "hello")),
    "webdav/delete_locked_423": _locked(),
    "webdav/delete_part_204": _REC,
    "webdav/delete_root": case(),
    "webdav/get_200": _NEW,
    "webdav/get_404": _REC,
    "webdav/get_if_none_match_304": _NEW,
    "webdav/get_locked_423": _locked(),
    "webdav/get_on_collection": _REC,
    "webdav/get_other_user_root": case(),
    "webdav/get_part_503": _REC,
    "webdav/get_range_206": _NEW,
    "webdav/get_range_416": _NEW,
    "webdav/head_200": _NEW,
    "webdav/lock_method": _NEW,
    "webdav/mkcol_201": case(),
    "webdav/mkcol_automkcol": _REC,
    "webdav/mkcol_exists_405": _REC,
    "webdav/mkcol_in_part_409": _REC,
    "webdav/mkcol_parent_missing_409": case(),
    "webdav/mkcol_part_405": _REC,
    "webdav/move_201": case(file("Rec/100% done.txt"), folder("Rec/Ünï cödé 日本")),
    "webdav/move_default_overwrites": case(_COND_3, file("Rec/empty.txt", "")),
    "webdav/move_dest_parent_missing_409": case(_PLAIN),
    "webdav/move_foreign_destination": case(_PLAIN),
    "webdav/move_if_match_stale": case(_COND),
    "webdav/move_into_itself": _REC,
    "webdav/move_literal_plus": case(file("Rec/a+b.txt")),
    "webdav/move_locked_500": _locked(),
    "webdav/move_onto_itself_403": case(_PLAIN),
    "webdav/move_part_500": _REC,
    "webdav/move_path_only_destination": case(_COND),
    "webdav/move_source_404": _REC,
    "webdav/move_source_missing_path_only_destination_404": _REC,
    "webdav/move_to_part_412": _SOURCE,
    "webdav/propfind_404": case(),
    "webdav/propfind_bad_xml_400": case(),
    "webdav/propfind_depth0_root": case(loose=True),
    "webdav/propfind_depth1_special_names": case(*_LISTED),
    "webdav/propfind_depth_infinity": case(_LISTED[0], loose=True),
    "webdav/propfind_file_depth0": case(file("Rec/plain.txt", "x" * 21)),
    "webdav/propfind_json_file_content_type": case(file("Rec/type-x.json", "{}")),
    "webdav/propfind_legacy_webdav": case(*_LISTED),
    "webdav/propfind_no_body_depth1": case(*_LISTED),
    "webdav/propfind_other_user_207_stub": case(),
    "webdav/propfind_part_207": _REC,
    "webdav/propfind_part_props_207": _REC,
    "webdav/propfind_part_system_tags_500": _REC,
    "webdav/propfind_quota_limited": case(full("bob"), sandbox_only=_QUOTA),
    "webdav/propfind_unicode_dir": case(folder("Rec/Ünï cödé 日本")),
    "webdav/proppatch_favorite": _NEW,
    "webdav/put_automkcol": _REC,
    "webdav/put_case_variant": case(file("Rec/case.txt")),
    "webdav/put_colon": _REC,
    "webdav/put_create_201": _REC,
    "webdav/put_dotdot": _REC,
    "webdav/put_empty_file": _REC,
    "webdav/put_encoded_slash": _REC,
    "webdav/put_forbidden_name_htaccess_400": _REC,
    "webdav/put_if_match_204": case(file("Rec/cond.md", etag="745e14cc76c52d3cc34dde3c4ed24f18")),
    "webdav/put_if_match_nonexistent_412": _REC,
    "webdav/put_if_match_same_second_not_detected_204": case(*_NEW.steps, file("Rec/put_new.md", "# two\n")),
    "webdav/put_if_match_stale_412": case(_COND),
    "webdav/put_if_match_unquoted": case(_COND),
    "webdav/put_if_match_weak": case(_COND),
    "webdav/put_if_none_match_star_exists_412": _NEW,
    "webdav/put_into_other_users_files": _REC,
    "webdav/put_invalid_char_backslash_400": _REC,
    "webdav/put_locked_423": _locked(),
    "webdav/put_name_too_long_400": _REC,
    "webdav/put_newline": _REC,
    "webdav/put_nul": _REC,
    "webdav/put_on_collection_409": _REC,
    "webdav/put_parent_missing_404": case(),
    "webdav/put_part_extension_400": _REC,
    "webdav/put_part_if_none_match_star_412": _REC,
    "webdav/put_quota_507": case(full("bob"), sandbox_only=_QUOTA, person="bob"),
    "webdav/put_trailing_dot": _REC,
    "webdav/put_trailing_space": _REC,
    "webdav/put_update_if_match_204": _NEW,
    "webdav/put_with_mtime_checksum": _REC,
    "webdav/report_favorites": case(*_NEW.steps, favorite("Rec/put_new.md")),
    "webdav/search_bad_prop_400": case(),
    "webdav/search_escaped_percent": case(
        file("Rec/Ünï cödé 日本/100% done.txt", "x" * 25), file("Rec/1000 done.txt")
    ),
    "webdav/search_like_limit5": case(*_TEN_TEXTS, loose=True),
    "webdav/search_like_limit5_offset5": case(*_TEN_TEXTS, loose=True),
    "webdav/search_mime": case(*_TEN_TEXTS, loose=True),
    "webdav/search_no_result": _REC,
    "webdav/search_other_user_scope": case(),
    "trashbin/delete_one_204": case(*_TRASHED),
    "trashbin/empty_204": case(*_TRASHED),
    "trashbin/get_content": case(*_TRASHED),
    "trashbin/list": case(*_TRASHED),
    "trashbin/restore_201": case(*_TRASHED),
    "trashbin/restore_overwrite_f_412": case(*_TRASHED),
    "trashbin/restore_missing_404": case(*_TRASHED, trash_entry_removed("trash%20me%20%231.txt.d1795813520")),
}

_PART = "names the temporary file of a running upload; the sandbox writes in one step"

NOT_REPLAYED = {
    "webdav/concurrent_put_0": _PART,
    "webdav/concurrent_put_2": _PART,
}
