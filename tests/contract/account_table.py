"""How the recordings of logins, users, capabilities and maintenance mode are replayed."""

from tests.contract.login_steps import (
    app_password,
    app_password_deleted,
    at_login_address,
    bad_logins,
    cookies_of,
    cookies_of_bearer,
    disabled,
    flow_granted,
    flow_landed,
    flow_picked,
    flow_polled,
    flow_started,
    in_maintenance,
    signed_in,
    wrong_password,
)
from tests.contract.replay import Case, Step, Table, case
from tests.contract.steps import away, file, folder, header_of, in_sandbox, note, notes_as_in

_MAINTENANCE = case(in_sandbox(in_maintenance), sandbox_only="maintenance mode is switched on the machine")
_THROTTLED = "it would lock the suite's address out for half an hour"
_BLOCKED = case(bad_logins(11), sandbox_only=_THROTTLED)
_DISABLED = case(disabled("bob"), sandbox_only="accounts are disabled by the administrator")

_OCS_COOKIE = cookies_of("/ocs/v2.php/cloud/user?format=json", ocs=True)
_DAV_COOKIE = cookies_of("/remote.php/dav/files/alice/", method="PROPFIND")
_NOTES_COOKIE = cookies_of("/index.php/apps/notes/api/v1/notes")
_PASSWORD_COOKIE = cookies_of("/ocs/v2.php/cloud/user?format=json", ocs=True, requests=1)
_CONSENT_REQUEST: tuple[Step, ...] = (flow_started, flow_landed, flow_picked)


def _blocked_with_app_password() -> Case:
    return case(app_password("alice"), bad_logins(11), sandbox_only=_THROTTLED)


ACCOUNTS: Table = {
    "auth/apppassword_after_delete_401": case(app_password(), app_password_deleted()),
    "auth/apppassword_delete_200": case(app_password()),
    "auth/apppassword_delete_with_real_password_403": case(),
    "auth/bad_password_capabilities": case(wrong_password()),
    "auth/bad_password_dav_401": case(wrong_password()),
    "auth/bad_password_notes_401": case(wrong_password()),
    "auth/bad_password_ocs_401": case(wrong_password()),
    "auth/bruteforce_anonymous_capabilities": _BLOCKED,
    "auth/bruteforce_attempt_10": case(wrong_password(), bad_logins(9), sandbox_only=_THROTTLED),
    "auth/bruteforce_attempt_11": case(wrong_password(), bad_logins(11), sandbox_only=_THROTTLED),
    "auth/bruteforce_dav_429": _BLOCKED,
    "auth/bruteforce_login_v2": _BLOCKED,
    "auth/bruteforce_notes_429": _BLOCKED,
    "auth/bruteforce_ocs_429": _BLOCKED,
    "auth/bruteforce_valid_app_password_dav": _blocked_with_app_password(),
    "auth/bruteforce_valid_app_password_notes": _blocked_with_app_password(),
    "auth/bruteforce_valid_app_password_ocs": _blocked_with_app_password(),
    "auth/bruteforce_valid_real_password_ocs": _BLOCKED,
    "auth/cookie_confusion_dav_bob_basic_alice_app_password_cookie": case(
        app_password("alice"), _PASSWORD_COOKIE
    ),
    "auth/cookie_confusion_dav_bob_basic_alice_bearer_cookie": case(app_password("alice"), cookies_of_bearer),
    "auth/cookie_confusion_dav_bob_basic_alice_dav_cookie": case(_DAV_COOKIE),
    "auth/cookie_confusion_dav_bob_basic_alice_notes_cookie": case(_NOTES_COOKIE),
    "auth/cookie_confusion_dav_bob_basic_alice_ocs_cookie": case(_OCS_COOKIE),
    "auth/cookie_confusion_dav_bob_basic_alice_first_password_cookie": case(_PASSWORD_COOKIE),
    "auth/cookie_confusion_dav_get_alice_file_bob_basic_alice_bearer_cookie": case(
        file("Rec/ck.txt", "hers"), app_password("alice"), cookies_of_bearer
    ),
    "auth/cookie_confusion_dav_put_alice_files_bob_basic_alice_dav_cookie": case(folder("Rec"), _DAV_COOKIE),
    "auth/cookie_confusion_dav_put_alice_files_bob_basic_alice_notes_cookie": case(
        folder("Rec"), _NOTES_COOKIE
    ),
    "auth/cookie_confusion_dav_put_alice_files_bob_basic_alice_ocs_cookie": case(
        file("Rec/ck.txt"), _OCS_COOKIE
    ),
    "auth/cookie_confusion_notes_bob_basic_alice_cookie": case(note(title="hers"), _NOTES_COOKIE),
    "auth/cookie_confusion_notes_with_ocs_header": case(
        notes_as_in("auth/cookie_confusion_notes_with_ocs_header"), _OCS_COOKIE
    ),
    "auth/cookie_confusion_ocs_bob_basic_alice_cookie": case(_OCS_COOKIE),
    "auth/cookie_confusion_ocs_bob_basic_alice_dav_cookie": case(_DAV_COOKIE),
    "auth/cookie_confusion_ocs_bob_basic_alice_notes_cookie": case(_NOTES_COOKIE),
    "auth/cookie_confusion_ocs_bob_basic_alice_ocs_cookie": case(_OCS_COOKIE),
    "auth/cookie_confusion_wrong_password_alice_cookie": case(_OCS_COOKIE, wrong_password("bob")),
    "auth/disabled_user_dav": _DISABLED,
    "auth/disabled_user_notes": _DISABLED,
    "auth/disabled_user_ocs": _DISABLED,
    "auth/getapppassword_with_app_password_403": case(app_password()),
    "auth/getapppassword_with_real_password": case(),
    "auth/no_credentials_dav_401": case(),
    "auth/unknown_user_401": case(),
    "login_flow_v2/01_start": case(),
    "login_flow_v2/01b_start_pretty_url": case(),
    "login_flow_v2/02_poll_pending_404": case(flow_started),
    "login_flow_v2/02b_poll_bad_token_404": case(),
    "login_flow_v2/02c_poll_with_GET": case(flow_started),
    "login_flow_v2/02c_poll_with_GET_405": case(flow_started),
    "login_flow_v2/02d_poll_json_body": case(flow_started),
    "login_flow_v2/03_browser_flow_landing": case(flow_started, at_login_address),
    "login_flow_v2/04_browser_auth_picker": case(flow_started, flow_landed),
    "login_flow_v2/05_browser_grant_needs_login": case(*_CONSENT_REQUEST),
    "login_flow_v2/06_browser_grant_page": case(*_CONSENT_REQUEST, signed_in("alice")),
    "login_flow_v2/07_browser_grant_post": case(*_CONSENT_REQUEST, signed_in("alice")),
    "login_flow_v2/08_poll_success": case(*_CONSENT_REQUEST, signed_in("alice"), flow_granted),
    "login_flow_v2/09_poll_again_404": case(*_CONSENT_REQUEST, signed_in("alice"), flow_granted, flow_polled),
    "misc/preview_404": case(),
    "misc/user_status_put": case(),
    "user/autocomplete": case(),
    "user/ocs_unknown_route": case(),
    "user/self": case(),
    "user/self_anonymous_401": case(),
    "user/self_v1": case(),
    "user/user_status": case(away),
    "capabilities/alice": case(),
    "capabilities/alice_v1": case(),
    "capabilities/alice_xml": case(),
    "capabilities/anonymous": case(),
    "capabilities/if_none_match": case(header_of("capabilities/alice", "ETag")),
    "capabilities/no_ocs_header": case(),
    "capabilities/status_php": case(),
    "maintenance/capabilities": _MAINTENANCE,
    "maintenance/dav": _MAINTENANCE,
    "maintenance/login_v2": _MAINTENANCE,
    "maintenance/notes": _MAINTENANCE,
    "maintenance/ocs": _MAINTENANCE,
    "maintenance/status_php": _MAINTENANCE,
}

_OTHER_APP = "belongs to an app this client does not use"
_OTHER_PERSON = "this client asks for the acting person alone, by cloud/user"
_ADMIN = "a route for administrators, which this client does not use"

NOT_REPLAYED = {
    "auth/apppassword_rotate": "this client replaces a credential by a new consent, never by rotation",
    "auth/cookie_confusion_deck_bob_basic_alice_cookie": _OTHER_APP,
    "user/notifications": _OTHER_APP,
    "user/users_alice": _OTHER_PERSON,
    "user/users_bob_as_alice": _OTHER_PERSON,
    "user/users_details_admin": _ADMIN,
    "user/users_unknown_admin": _ADMIN,
    "user/users_unknown_admin_v1": _ADMIN,
}
