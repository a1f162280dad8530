"""Finds users of a Nextcloud by name, as its own pages complete them."""

from typing import Final

from pydantic import TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.sanitize import escape_hidden, quoted

_PATH: Final = "/core/autocomplete/get"
_LOOKED_AT: Final = 25
_NAMED: Final = 5


class FoundUser(Answer):
    """A user as other users can find them."""

    id: str
    label: str

    def __str__(self) -> str:
        return escape_hidden(self.label if self.label == self.id else f"{self.label} ({self.id})")


_FOUND = TypeAdapter(ocs.Envelope[list[FoundUser]])


async def find(http: NextcloudHttp, name: str) -> FoundUser:
    """Find the one user with that account name or display name; only exact matches count.

    Raises:
      NotFound: There is no such user that can be found; the error lists similar names.
      InvalidInput: There are several.
    """
    asked: dict[str, str | int] = {
        "search": name,
        "itemType": "",
        "itemId": "",
        "shareTypes[]": 0,
        "limit": _LOOKED_AT,
    }
    alike, _ = await ocs.get(http, _PATH, _FOUND, params=asked)
    folded = name.casefold()
    exact = [one for one in alike if one.id == name] or [
        one for one in alike if folded in (one.id.casefold(), one.label.casefold())
    ]
    if len(exact) == 1:
        return exact[0]
    names = ", ".join(map(str, (exact or alike)[:_NAMED]))
    if exact:
        raise errors.InvalidInput(
            f"More than one person is called {quoted(name)}: {names}. Ask which is meant, and pass "
            "what stands in brackets."
        )
    hint = f" Called alike: {names}." if names else ""
    raise errors.NotFound(f"No user is called {quoted(name)} here.{hint} Ask the person for the name.")
