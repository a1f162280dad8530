"""How the recordings of bearer tokens are replayed."""

from tests.contract.login_steps import signed_in
from tests.contract.oauth_steps import (
    authorized,
    client_registered,
    exchanged,
    granted,
    picked,
    refreshed,
    token_as_password,
    trusted,
)
from tests.contract.replay import Case, Step, Table, case
from tests.contract.steps import folder, note, notes_as_in

_CACHE = "an old token works for ten seconds more only where Nextcloud has a local cache (APCu)"
_USER_OIDC = "user_oidc and its issuer are set up on the machine"

_ASKED: tuple[Step, ...] = (client_registered, signed_in("alice"))
_GRANTED: tuple[Step, ...] = (*_ASKED, authorized, picked, granted)
_LIST = "oauth2_builtin/06_bearer_notes_ocs_header"


def _walked(*steps: Step) -> Case:
    return case(*steps, admin=True)


def _trusted(*steps: Step) -> Case:
    return case(*steps, trusted, sandbox_only=_USER_OIDC)


OAUTH: Table = {
    "oauth2_builtin/01_authorize": _walked(*_ASKED),
    "oauth2_builtin/02_auth_picker": _walked(*_ASKED, authorized),
    "oauth2_builtin/03_grant_page": _walked(*_ASKED, authorized, picked),
    "oauth2_builtin/04_grant_post": _walked(*_ASKED, authorized, picked),
    "oauth2_builtin/05_token": _walked(*_GRANTED),
    "oauth2_builtin/06_bearer_dav": _walked(*_GRANTED, exchanged),
    "oauth2_builtin/06_bearer_notes_ocs_header": _walked(notes_as_in(_LIST), *_GRANTED, exchanged),
    "oauth2_builtin/06_bearer_notes_plain": _walked(*_GRANTED, exchanged),
    "oauth2_builtin/06_bearer_ocs": _walked(*_GRANTED, exchanged),
    "oauth2_builtin/06_token_as_basic_password_notes": _walked(
        notes_as_in(_LIST), *_GRANTED, exchanged, token_as_password
    ),
    "oauth2_builtin/07_refresh": _walked(*_GRANTED, exchanged),
    "oauth2_builtin/08_old_access_token_after_refresh": case(
        *_GRANTED, exchanged, refreshed, sandbox_only=_CACHE
    ),
    "oauth2_builtin/09_refresh_reuse_old": _walked(*_GRANTED, exchanged, refreshed),
    "oauth2_builtin/10_code_reuse": _walked(*_GRANTED, exchanged),
    "oauth2_builtin/client_create": _walked(signed_in("admin")),
    "oidc/bearer_notes_create_with_ocs_header": _trusted(),
    "oidc/bearer_notes_delete_with_ocs_header": _trusted(note(id=349, title="via bearer", content="y")),
    "oidc/bearer_notes_no_ocs_header": _trusted(),
    "oidc/bearer_notes_update_with_ocs_header": _trusted(note(id=349, title="via bearer", content="x")),
    "oidc/bearer_notes_with_ocs_header": _trusted(notes_as_in("oidc/bearer_notes_with_ocs_header")),
    "oidc/bearer_webdav_put": _trusted(folder("Rec")),
    "oidc/no_user_oidc_jwt_capabilities": case(),
    "oidc/no_user_oidc_jwt_notes": case(),
    "oidc/no_user_oidc_jwt_notes_list": case(),
    "oidc/no_user_oidc_jwt_ocs_user": case(),
    "oidc/no_user_oidc_jwt_webdav": case(),
    "oidc/user_oidc_idp_jwt_capabilities": _trusted(),
    "oidc/user_oidc_idp_jwt_notes": _trusted(),
    "oidc/user_oidc_idp_jwt_notes_list": _trusted(),
    "oidc/user_oidc_idp_jwt_ocs_user": _trusted(),
    "oidc/user_oidc_idp_jwt_resource_capabilities": _trusted(),
    "oidc/user_oidc_idp_jwt_resource_notes": _trusted(),
    "oidc/user_oidc_idp_jwt_resource_notes_list": _trusted(),
    "oidc/user_oidc_idp_jwt_resource_ocs_user": _trusted(),
    "oidc/user_oidc_idp_jwt_resource_webdav": _trusted(),
    "oidc/user_oidc_idp_jwt_webdav": _trusted(),
}

_OTHER_APP = "belongs to an app this client does not use"
_CALENDARS = "this client reads no calendars"
_THEIR_ISSUER = "an answer of Nextcloud's `oidc` app, and the sandbox has an issuer of its own"
_METADATA = "what Nextcloud's `oidc` app publishes, and the sandbox has an issuer of its own"
_REGISTRATION = "this server is registered at an issuer by hand, never by itself"

NOT_REPLAYED = {
    **dict.fromkeys(
        (
            f"oidc/bearer_{app}_{how}"
            for app in ("cookbook", "deck", "forms", "tables", "tables2")
            for how in ("ocs_header", "plain")
        ),
        _OTHER_APP,
    ),
    "oidc/no_user_oidc_jwt_caldav": _CALENDARS,
    "oidc/user_oidc_idp_jwt_caldav": _CALENDARS,
    "oidc/user_oidc_idp_jwt_resource_caldav": _CALENDARS,
    "oidc/dcr_disabled": _REGISTRATION,
    "oidc/dcr_register": _REGISTRATION,
    "oidc/discovery_with_dcr": _REGISTRATION,
    "oidc/discovery": _METADATA,
    "oidc/jwks": _METADATA,
    "oidc/wellknown_index_php": _METADATA,
    "oidc/wellknown_oauth_as": _METADATA,
    "oidc/wellknown_oauth_as_index_php": _METADATA,
    "oidc/wellknown_protected_resource": _METADATA,
    "oidc/wellknown_redirect": _METADATA,
    "oidc/bad_client_authorize": _THEIR_ISSUER,
    "oidc/bad_redirect_authorize": _THEIR_ISSUER,
    "oidc/introspect_bogus": _THEIR_ISSUER,
    "oidc/introspect_by_issuing_client": _THEIR_ISSUER,
    "oidc/introspect_by_resource_server": _THEIR_ISSUER,
    "oidc/introspect_by_unrelated_client": _THEIR_ISSUER,
    "oidc/introspect_jwt_old": _THEIR_ISSUER,
    "oidc/introspect_no_auth": _THEIR_ISSUER,
    "oidc/introspect_opaque_other_client": _THEIR_ISSUER,
    "oidc/introspect_opaque_own": _THEIR_ISSUER,
    "oidc/jwt_authorize": _THEIR_ISSUER,
    "oidc/jwt_token_code": _THEIR_ISSUER,
    "oidc/jwt_token_code_reuse": _THEIR_ISSUER,
    "oidc/public_no_pkce_authorize": _THEIR_ISSUER,
    "oidc/refresh_1": _THEIR_ISSUER,
    "oidc/refresh_after_reuse": _THEIR_ISSUER,
    "oidc/refresh_resource": _THEIR_ISSUER,
    "oidc/refresh_reuse_old": _THEIR_ISSUER,
    "oidc/resource_authorize": _THEIR_ISSUER,
    "oidc/token_bad_code": _THEIR_ISSUER,
    "oidc/token_bad_verifier": _THEIR_ISSUER,
    "oidc/token_client_secret_basic": _THEIR_ISSUER,
    "oidc/token_no_offline_access": _THEIR_ISSUER,
    "oidc/token_opaque": _THEIR_ISSUER,
    "oidc/token_public_no_pkce": _THEIR_ISSUER,
    "oidc/token_public_pkce": _THEIR_ISSUER,
    "oidc/token_resource": _THEIR_ISSUER,
    "oidc/userinfo": _THEIR_ISSUER,
    "oidc/userinfo_bad_token": _THEIR_ISSUER,
    "oidc/userinfo_old_token_after_refresh": _THEIR_ISSUER,
}
