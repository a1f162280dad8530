"""The menu of one user: the apps they can open, as `core/navigation/apps` of Nextcloud 32.0.1 lists them."""

from nextcloud_mcp_server.sandbox.catalogue import APPS
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.state import User

#: With the place in the menu, as the `appinfo/info.xml` of each has it.
_ENTRIES = {"files": ("Files", 0), **{app.name: app.menu for app in APPS if app.menu is not None}}


def menu_document(context: Context, user: User) -> list[dict[str, object]]:
    """Return a user's apps; the apps of other users are not in it."""
    present = (context.apps | {"files"}) - user.denied_apps
    return [
        {
            "id": app,
            "order": order,
            "href": context.path(f"/apps/{app}/"),
            "icon": f"{context.base_path}/apps/{app}/img/app.svg",
            "type": "link",
            "name": name,
            "app": app,
            "active": False,
            "unread": 0,
            "classes": "",
            "default": app == "files",
        }
        for app, (name, order) in sorted(_ENTRIES.items(), key=_place)
        if app in present
    ]


def _place(entry: tuple[str, tuple[str, int]]) -> tuple[int, str]:
    app, (_, order) = entry
    return order, app
