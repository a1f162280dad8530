"""The menu of one user: the apps they can open, as `core/navigation/apps` of Nextcloud 32.0.1 lists them."""

from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.state import User

# With the place in the menu. Mail, News and Collectives as their `appinfo/info.xml` has them.
_ENTRIES = {
    "files": ("Files", 0),
    "mail": ("Mail", 3),
    "notes": ("Notes", 10),
    "deck": ("Deck", 10),
    "collectives": ("Collectives", 12),
    "forms": ("Forms", 77),
    "tables": ("Tables", 100),
    "cookbook": ("Cookbook", 100),
    "news": ("News", 100),
}


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
        for app, (name, order) in _ENTRIES.items()
        if app in present
    ]
