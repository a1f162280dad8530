"""The capabilities document and status.php of the sandbox."""

from starlette.requests import Request

from nextcloud_mcp_server.sandbox.catalogue import APPS
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.identity import address_of
from nextcloud_mcp_server.sandbox.state import User
from nextcloud_mcp_server.sandbox.theming import PRODUCT, theming_capability


def status_document(context: Context) -> dict[str, object]:
    """Return the document of status.php."""
    return {
        "installed": True,
        "maintenance": context.state.maintenance,
        "needsDbUpgrade": context.state.needs_db_upgrade,
        "version": f"{context.profile.server}.2",
        "versionstring": context.profile.server,
        "edition": "",
        "productname": PRODUCT,
        "extendedSupport": False,
    }


def capabilities_document(
    context: Context, request: Request, *, user: User | None, delay_ms: int
) -> dict[str, object]:
    """Return the capabilities; requests without a user get fewer."""
    major, minor, micro = (int(part) for part in context.profile.server.split("."))
    base = f"{context.origin(request)}{context.base_path}"
    throttling = {"delay": delay_ms, "allow-listed": address_of(request) in context.state.allow_listed}
    if user is None:
        capabilities: dict[str, object] = {
            "bruteforce": throttling,
            "theming": theming_capability(context, base),
        }
    else:
        capabilities = {
            "core": _core(context, user),
            "bruteforce": throttling,
            **_of_apps(context, user),
            "theming": theming_capability(context, base),
        }
    version = {
        "major": major,
        "minor": minor,
        "micro": micro,
        "string": context.profile.server,
        "edition": "",
        "extendedSupport": False,
    }
    return {"version": version, "capabilities": capabilities}


def _core(context: Context, user: User) -> dict[str, object]:
    return {
        "pollinterval": 60,
        "webdav-root": "remote.php/webdav",
        "reference-api": True,
        "reference-regex": (
            "(\\s|\\n|^)(https?:\\/\\/)([-A-Z0-9+_.]+(?::[0-9]+)?(?:\\/[-A-Z0-9+&@#%?=~_|!:,.;()]*)*)(\\s|\\n|$)"
        ),
        "mod-rewrite-working": context.pretty_urls,
        "user": {"language": "", "locale": "", "timezone": user.timezone},
    }


def _of_apps(context: Context, user: User) -> dict[str, object]:
    trash = "files_trashbin" in context.apps
    described: dict[str, dict[str, object]] = {
        "files": {
            "$comment": (
                '"blacklisted_files" is deprecated as of Nextcloud 30, use "forbidden_filenames" instead'
            ),
            "blacklisted_files": [".htaccess"],
            "forbidden_filenames": [".htaccess"],
            "forbidden_filename_basenames": [],
            "forbidden_filename_characters": ["\\", "/"],
            "forbidden_filename_extensions": [".filepart", ".part"],
            "bigfilechunking": True,
            "comments": "comments" in context.apps,
            "undelete": trash,
            "delete_from_trash": trash,
            "versioning": "files_versions" in context.apps,
        },
        "systemtags": {"enabled": True},
        "fulltextsearch": {"remote": True, "providers": [{"id": "files", "name": "Files"}]},
        "files_sharing": {"api_enabled": True, "public": {"enabled": True}, "resharing": True},
        "dav": {"chunking": "1.0", "bulkupload": "1.0"},
        "end-to-end-encryption": {"enabled": True, "api-version": "2.1", "keys-exist": True},
    }
    for app in APPS:
        if app.capability is not None:
            described[app.name] = app.capability(context, user)
    return {app: described[app] for app in described if app in context.apps - user.denied_apps}
