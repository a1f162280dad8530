"""The app for user status, as part of Nextcloud 32.0.1 (1.12.0).

Recorded are the user's own status and setting the presence. Responses for messages, and other users' status, were
read in its code (`lib/Controller/UserStatusController.php`, `StatusesController.php`,
`lib/Service/StatusService.php`): when a message ends, the presence set with it ends too.
"""

from typing import Final
from urllib.parse import quote

from pydantic import Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import ocs, people
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.people import FoundUser

_API: Final = "/apps/user_status/api/v1"
_REFUSED: Final = {400: "Nextcloud did not set that status{reason}. Change it and call again."}


class Status(Answer):
    """A user's presence, and the message shown until `clear_at`, a Unix time."""

    uid: str = Field(validation_alias="userId")
    status: str = "offline"
    message: str | None = None
    message_id: str | None = Field(default=None, validation_alias="messageId")
    icon: str | None = None
    clear_at: int | None = Field(default=None, validation_alias="clearAt")


_STATUS = TypeAdapter(ocs.Envelope[Status])


class StatusClient(AppClient):
    """Reads users' status, and sets the user's own."""

    async def find_person(self, name: str) -> FoundUser:
        """Find the one user with that name; raises like `people.find`."""
        return await people.find(self._http, name)

    async def own(self) -> Status:
        """Fetch the user's own status; offline if the user never set one."""
        return await self._get("user_status", self._http.uid)

    async def of(self, uid: str) -> Status:
        """Fetch what another user shows; offline for invisible users and for those who never set a status."""
        return await self._get(f"statuses/{quote(uid, safe='')}", uid)

    async def _get(self, path: str, uid: str) -> Status:
        try:
            status, _ = await ocs.get(self._http, f"{_API}/{path}", _STATUS)
        except errors.NotFound:
            return Status.model_validate({"userId": uid})
        return status

    async def set_presence(self, status: str) -> Status:
        """Set the presence; the message stays."""
        return await self._put("status", {"statusType": status})

    async def set_message(self, message: str | None, icon: str | None, clear_at: int | None) -> Status:
        """Set message, icon and end together; without any of them, remove the message.

        Raises:
          InvalidName: The icon is not one emoji, or the end is in the past.
        """
        fields = {"message": message, "statusIcon": icon, "clearAt": clear_at}
        return await self._put("message/custom", fields)

    async def end_predefined(self, message_id: str, clear_at: int | None) -> Status:
        """Set the end of a predefined message; raises like `set_message`.

        Other users see these messages in their own language.
        """
        return await self._put("message/predefined", {"messageId": message_id, "clearAt": clear_at})

    async def _put(self, what: str, fields: object) -> Status:
        path = f"{_API}/user_status/{what}"
        return await ocs.send(self._http, "PUT", path, _STATUS, json=fields, sentences=_REFUSED)
