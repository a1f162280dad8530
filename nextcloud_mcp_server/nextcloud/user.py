"""Who a credential belongs to."""

from pydantic import Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp


class User(Answer):
    """A person, by the uid that paths hold (never the name they log in with)."""

    uid: str = Field(validation_alias="id", min_length=1)
    display_name: str = Field(default="", validation_alias="displayname")
    groups: tuple[str, ...] = ()


_USER = TypeAdapter(ocs.Envelope[User])


class UserClient:
    """Reads the person's own account."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    async def get(self) -> User:
        """Fetch who is signed in.

        Raises:
            WrongAccount: Body and `X-User-Id` name different people.
        """
        user, response = await ocs.get(self._http, "/cloud/user", _USER)
        if response.headers.get("X-User-Id", user.uid) != user.uid:
            raise errors.WrongAccount(
                "Nextcloud named two different accounts in one answer; it was thrown away."
            )
        return user
