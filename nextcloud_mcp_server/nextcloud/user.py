"""The user to whom a credential belongs."""

from collections.abc import Collection, Mapping
from typing import Annotated, Final, cast
from urllib.parse import quote

import anyio
from pydantic import BeforeValidator, Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.picture import MOST_BYTES, Picture

#: A page waits for the avatar, so this is short.
_PICTURE_SECONDS: Final = 5


def _names(value: object) -> tuple[str, ...]:
    """Read a list of names as PHP may write it: a map where there are gaps, numbers where all are digits.

    Group back ends decide on the names, and an odd one must not make a sign-in fail.
    """
    values: Collection[object] = ()
    if isinstance(value, Mapping):
        values = cast("Mapping[object, object]", value).values()
    elif isinstance(value, list):
        values = cast("list[object]", value)
    return tuple(str(one) for one in values if isinstance(one, str | int))


class User(Answer):
    """A user, by the uid used in paths (never the login name)."""

    uid: str = Field(validation_alias="id", min_length=1)
    display_name: str = Field(default="", validation_alias="displayname")
    groups: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()


_USER = TypeAdapter(ocs.Envelope[User])


class UserClient:
    """Reads the user's own account."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    async def get(self) -> User:
        """Fetch the signed-in user.

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
        """Fetch the avatar that the user has chosen; None without one, and when it cannot be fetched now.

        Otherwise Nextcloud draws the first letter, and says so (`AvatarController`).
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
