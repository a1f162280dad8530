"""How the recordings of shares are replayed."""

from tests.contract.replay import Case, Step, Table, case
from tests.contract.shares_steps import ended, no_shares, shared, team
from tests.contract.steps import folder
from tests.contract.tags_steps import versioned_file

_FILE = versioned_file("271", ("v3 longest", 1795813523))
_BOB = shared("1", path="/Rec/versioned.txt", shareType=0, shareWith="bob", permissions=1)
_TEAM = shared("2", path="/Rec", shareType=1, shareWith="team", permissions=15)
_LINK = shared("5", path="/Rec", shareType=3, permissions=1, label="rec link")
#: Values that depend on the installation or the time.
_OTHERWISE = (
    "stime",
    "storage",
    "storage_id",
    "item_source",
    "file_source",
    "file_parent",
    "item_size",
    "item_mtime",
    "token",
    "url",
)


def _case(*steps: Step) -> Case:
    return case(no_shares, folder("Rec"), _FILE, *steps, ignore=_OTHERWISE, admin=team in steps)


SHARES: Table = {
    "shares/create_bad_expiry": _case(),
    "shares/create_bad_type_400": _case(),
    "shares/create_duplicate": _case(_BOB),
    "shares/create_group_folder": _case(team),
    "shares/create_json_body": _case(),
    "shares/create_link": _case(),
    "shares/create_link_weak_password": _case(),
    "shares/create_missing_path_404": _case(),
    "shares/create_missing_path_v1": _case(),
    "shares/create_no_path": _case(),
    "shares/create_past_expiry": _case(),
    "shares/create_self": _case(),
    "shares/create_unknown_user_404": _case(),
    "shares/create_user": _case(),
    "shares/delete_200": _case(
        shared("6", path="/Rec/versioned.txt", shareType=0, shareWith="bob", permissions=19)
    ),
    "shares/delete_again_404": _case(_BOB, ended("1")),
    "shares/delete_foreign": _case(_LINK),
    "shares/get": _case(_BOB),
    "shares/get_404": _case(),
    "shares/list_all": _case(_BOB, team, _TEAM, _LINK),
    "shares/list_missing_path_404": _case(),
    "shares/list_path": _case(_BOB, team, _TEAM, _LINK),
    "shares/list_shared_with_me_bob": _case(_BOB, team, _TEAM),
    "shares/list_subfiles": _case(_BOB, team, _TEAM),
    "shares/sharees_search": case(),
    "shares/update_expire": _case(_LINK),
    "shares/update_nothing_400": _case(_LINK),
}

_MOUNT = "the sandbox lists what was received, but does not mount it among a person's own files"

NOT_REPLAYED = {
    "shares/delete_received_share_unshares": _MOUNT,
    "shares/put_readonly_share_403": _MOUNT,
}
