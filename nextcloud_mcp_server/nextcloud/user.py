"""Who a credential belongs to."""

from collections.abc import Collection, Mapping
from typing import Annotated, Final, cast
from urllib.parse import quote

import anyio
from pydantic import BeforeValidator, Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.picture import MOST_BYTES, Picture

#: A page waits for the picture.
_PICTURE_SECONDS: Final = 5


def _names(value: object) -> tuple[str, ...]:
    """Read a list of names as PHP may write it: a map where there are gaps, numbers where all are digits.

    Whatever else backs Nextcloud's groups decides that, and no one's sign-in must fail over it.
    """
    values: Collection[object] = ()
    if isinstance(value, Mapping):
        values = cast("Mapping[object, object]", value).values()
    elif isinstance(value, list):
        values = cast("list[object]", value)
    return tuple(str(one) for one in values if isinstance(one, str | int))


class User(Answer):
    """A user, by the uid that paths hold (never the name they log in with)."""

    uid: str = Field(validation_alias="id", min_length=1)
    display_name: str = Field(default="", validation_alias="displayname")
    groups: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()


_USER = TypeAdapter(ocs.Envelope[User])


class UserClient:
    """Reads the user's own account."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    async def get(self) -> User:
        """Fetch who is signed in.

        Raises:
            WrongAccount: Body and `X-User-Id` name different users.
        """
        user, response = await ocs.get(self._http, "/cloud/user", _USER)
        if response.headers.get("X-User-Id", user.uid) != user.uid:
            raise errors.WrongAccount(
                "Nextcloud named two different accounts in one answer; it was thrown away."
            )
        return user

    async def picture(self) -> Picture | None:
        """Fetch the picture that the user has chosen; None where there is none, or it cannot be had now.

        Without one Nextcloud draws the first letter, and says so (`AvatarController`).
        """
        try:
            with anyio.fail_after(_PICTURE_SECONDS):
                response = await self._http.request(
                    "GET",
                    f"/index.php/avatar/{quote(self._http.uid, safe='')}/64",
                    headers={"Accept": "image/*"},
                    max_bytes=MOST_BYTES,
                )
        except (TimeoutError, errors.NextcloudError):
            return None
        if response.headers.get("X-NC-IsCustomAvatar") != "1":
            return None
        return Picture.of(response.headers.get("Content-Type", ""), response.content)
