"""How the recordings of versions, tags and comments are replayed."""

from tests.contract.replay import Step, Table, case
from tests.contract.tags_steps import (
    comment,
    no_tag,
    rec_tag,
    restored,
    tagged,
    versioned_file,
)

_FILE = "271"
_OLD = versioned_file(_FILE, ("v1", 1795813521), ("version 2", 1795813522), ("v3 longest", 1795813523))
_OTHER = versioned_file("415", ("v1", 1795814492), ("v2", 1795814493))
_ALONE = versioned_file(_FILE, ("v1", 1795813521))
_TAG: tuple[Step, ...] = (_ALONE, rec_tag)
_TAGGED: tuple[Step, ...] = (*_TAG, tagged)
_SAID: tuple[Step, ...] = (_ALONE, comment('hello @"bob"'))

LABELS: Table = {
    "versions/get_200": case(_OLD),
    "versions/get_after_restore": case(_OLD, restored),
    "versions/get_on_current_version": case(_OLD),
    "versions/list": case(_OLD),
    "versions/list_after_restore": case(_OLD, restored),
    "versions/restore_201": case(_OLD),
    "versions/restore_copy_old_version": case(_OTHER),
    "versions/restore_copy_on_current_version": case(_OLD),
    "versions/restore_move_on_current_version": case(_OLD),
    "systemtags/assign_201": case(*_TAG),
    "systemtags/assign_again_409": case(*_TAGGED),
    "systemtags/create_201": case(no_tag, admin=True),
    "systemtags/create_conflict_409": case(rec_tag),
    "systemtags/delete_as_admin": case(rec_tag, admin=True),
    "systemtags/delete_as_user": case(rec_tag),
    "systemtags/list": case(rec_tag),
    "systemtags/relations_list": case(*_TAGGED),
    "systemtags/report_files_by_tag": case(*_TAGGED),
    "systemtags/unassign_204": case(*_TAGGED),
    "comments/create_201": case(_ALONE),
    "comments/delete": case(*_SAID),
    "comments/edit": case(*_SAID),
    "comments/propfind": case(*_SAID),
    "comments/report": case(*_SAID),
    "comments/unknown_file_404": case(),
}
