"""The app for user status, as part of Nextcloud 32.0.1 (1.12.0).

Recorded are the user's own status and setting the presence. Responses for messages, and other users' status, were
read in its code (`lib/Controller/UserStatusController.php`, `StatusesController.php`,
`lib/Service/StatusService.php`): when a message ends, the presence set with it ends too.
"""

from datetime import datetime
from typing import Final
from urllib.parse import quote

from pydantic import Field, model_validator

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import people
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.people import FoundUser
from nextcloud_mcp_server.nextcloud.php_json import as_map
from nextcloud_mcp_server.tools.file_results import shown_as
from nextcloud_mcp_server.tools.result import Moment, Result, Text

_API: Final = "/apps/user_status/api/v1"
_REFUSED: Final = {400: "Nextcloud did not set that status{reason}. Change it and call again."}


class Status(Result):
    """A user's status; `clear_at` is when it ends by itself."""

    status: str = Field(default_factory=lambda: "offline")
    message: Text = None
    icon: Text = None
    clear_at: Moment | None = Field(default=None, validation_alias="clearAt")
    shown_as: str | None = None
    #: That of a predefined message.
    message_id: str | None = Field(default=None, validation_alias="messageId", exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, value: object) -> object:
        message = as_map(value).get("message")
        return {**as_map(value), "shown_as": shown_as(message) if isinstance(message, str) else None}


class StatusClient(AppClient):
    """Reads users' status, and sets the user's own."""

    async def find_person(self, name: str) -> FoundUser:
        """Find the one user with that name; raises like `people.find`."""
        return await people.find(self._http, name)

    async def own(self) -> Status:
        """Fetch the user's own status; offline if the user never set one."""
        return await self._get("user_status")

    async def of(self, uid: str) -> Status:
        """Fetch what another user shows; offline for invisible users and for those who never set a status."""
        return await self._get(f"statuses/{quote(uid, safe='')}")

    async def _get(self, path: str) -> Status:
        try:
            return await self._request_ocs("GET", f"{_API}/{path}", Status)
        except errors.NotFound:
            return Status()

    async def set_presence(self, status: str) -> Status:
        """Set the presence; the message stays."""
        return await self._put("status", {"statusType": status})

    async def set_message(self, message: str | None, icon: str | None, clear_at: datetime | None) -> Status:
        """Set message, icon and end together; without any of them, remove the message.

        Raises:
          InvalidName: The icon is not one emoji, or the end is in the past.
        """
        fields = {"message": message, "statusIcon": icon, "clearAt": _seconds(clear_at)}
        return await self._put("message/custom", fields)

    async def end_predefined(self, message_id: str, clear_at: datetime | None) -> Status:
        """Set the end of a predefined message; raises like `set_message`.

        Other users see these messages in their own language.
        """
        return await self._put("message/predefined", {"messageId": message_id, "clearAt": _seconds(clear_at)})

    async def _put(self, what: str, fields: object) -> Status:
        path = f"{_API}/user_status/{what}"
        return await self._request_ocs("PUT", path, Status, json=fields, sentences=_REFUSED)


def _seconds(clear_at: datetime | None) -> int | None:
    return None if clear_at is None else int(clear_at.timestamp())
