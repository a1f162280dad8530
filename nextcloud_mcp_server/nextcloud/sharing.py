"""What users share with each other: with a user, with a group, by a public link."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import IntEnum, IntFlag
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import file_errors, ocs, timestamp
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.sanitize import quoted, visible

_API: Final = "/apps/files_sharing/api/v1"
#: Users and groups looked at for one name; more exact ones than this have no name.
_LOOKED_AT: Final = 25
_NAMED: Final = 5

Recipient = Literal["person", "group"]


class May(IntFlag):
    """What a share allows, in Nextcloud's bits."""

    READ = 1
    UPDATE = 2
    CREATE = 4
    DELETE = 8
    SHARE = 16


class Kind(IntEnum):
    """The kinds of shares that are made here; there are others."""

    PERSON = 0
    GROUP = 1
    LINK = 3
    EMAIL = 4


class Share(Answer):
    """One share, as its owner or its receiver sees it; `path` is in the files of the user who asks."""

    id: str
    kind: int = Field(validation_alias="share_type")
    owner_id: str = Field(default="", validation_alias="uid_owner")
    owner: str = Field(default="", validation_alias="displayname_owner")
    file_owner_id: str = Field(default="", validation_alias="uid_file_owner")
    permissions: int = 0
    path: str = ""
    item_type: str = ""
    shared_at: int = Field(default=0, validation_alias="stime")
    expiration: str | None = None
    note: str = ""
    label: str = ""
    # Of a link it is what becomes of its password.
    receiver_id: str | None = Field(default=None, validation_alias="share_with", repr=False)
    receiver: str | None = Field(default=None, validation_alias="share_with_displayname")
    url: str | None = None
    # Only whether there is one: what Nextcloud answers here is for no one to keep.
    has_password: Annotated[bool, BeforeValidator(bool)] = Field(default=False, validation_alias="password")
    tells_password_in_talk: Annotated[bool, BeforeValidator(bool)] = Field(
        default=False, validation_alias="send_password_by_talk"
    )

    @property
    def is_folder(self) -> bool:
        """Tell a folder from a file."""
        return self.item_type == "folder"

    @property
    def to(self) -> str | None:
        """Name who received it, with the account where that is another word: several users may have a name."""
        if self.kind == Kind.LINK:
            return None
        if not self.receiver or not self.receiver_id or self.receiver == self.receiver_id:
            return self.receiver or self.receiver_id
        return f"{self.receiver} ({self.receiver_id})"

    def is_received_by(self, uid: str) -> bool:
        """Tell whether a user is at the other end of it."""
        return uid not in (self.owner_id, self.file_owner_id)

    @property
    def expires(self) -> date | None:
        """The last day."""
        try:
            return None if self.expiration is None else datetime.fromisoformat(self.expiration).date()
        except ValueError:
            return None

    @property
    def version(self) -> str:
        """A word for the state it is in: Nextcloud gives shares no etag."""
        state = (self.permissions, self.expiration, self.note, self.label, self.has_password, self.path)
        return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Receiver:
    """Whom something is shared with, by the id that Nextcloud has for them."""

    kind: Kind
    id: str


class _Value(Answer):
    receiver_id: str = Field(validation_alias="shareWith")


class _Sharee(Answer):
    label: str
    value: _Value
    unique: str = Field(default="", validation_alias="shareWithDisplayNameUnique")

    def is_called(self, name: str) -> bool:
        return name.casefold() in (
            self.label.casefold(),
            self.value.receiver_id.casefold(),
            self.unique.casefold(),
        )

    def __str__(self) -> str:
        same = self.label == self.value.receiver_id
        return visible(self.label if same else f"{self.label} ({self.value.receiver_id})")


class _Exact(Answer):
    users: list[_Sharee] = Field(default_factory=list[_Sharee])
    groups: list[_Sharee] = Field(default_factory=list[_Sharee])


class _Sharees(_Exact):
    exact: _Exact = Field(default_factory=_Exact)


_SHARES = TypeAdapter(ocs.Envelope[list[Share]])
_SHARE = TypeAdapter(ocs.Envelope[Share])
_FOUND = TypeAdapter(ocs.Envelope[_Sharees])


class SharingClient:
    """Lists, makes, changes and ends one user's shares."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    async def list_shares(self, *, with_me: bool, path: str | None = None) -> list[Share]:
        """Fetch what the user shares, or what others share with them; all there is in one answer.

        Raises:
            NotFound: Nothing is at that path.
        """
        asked = {"shared_with_me": "true"} if with_me else {"reshares": "true"} if path else {}
        if path is not None:
            asked["path"] = path
        gone = {404: file_errors.missing(path or "/")}
        shares, _ = await ocs.get(self._http, f"{_API}/shares", _SHARES, params=asked, sentences=gone)
        return shares

    async def get(self, share_id: str) -> Share:
        """Fetch one share.

        Raises:
            NotFound: There is none of that id that the user may see.
        """
        where = f"{_API}/shares/{_checked(share_id)}"
        shares, _ = await ocs.get(self._http, where, _SHARES, sentences=_gone(share_id))
        if not shares:
            raise errors.NotFound(_gone(share_id)[404])
        return shares[0]

    async def receiver(self, name: str, kind: Recipient) -> Receiver:
        """Find the one user or group of that name, account name or e-mail address.

        Nothing is guessed: what is shared with the wrong one cannot be taken back out of their head.

        Raises:
            NotFound: There is none; names that are alike are told.
            InvalidInput: There are several, or it is the user's own account.
        """
        if kind == "person" and name.casefold() == self._http.uid.casefold():
            raise errors.InvalidInput("That is this account itself: nothing can be shared with oneself.")
        asked: dict[str, str | int] = {"search": name, "itemType": "file", "perPage": _LOOKED_AT}
        found, _ = await ocs.get(self._http, f"{_API}/sharees", _FOUND, params=asked)
        alike = (
            [*found.exact.users, *found.users] if kind == "person" else [*found.exact.groups, *found.groups]
        )
        same_id = [one for one in alike if one.value.receiver_id == name]
        exact = same_id or [one for one in alike if one.is_called(name)]
        ids = {one.value.receiver_id for one in exact}
        if len(ids) == 1:
            return Receiver(Kind.PERSON if kind == "person" else Kind.GROUP, ids.pop())
        if ids:
            raise errors.InvalidInput(
                f"There is more than one {kind} called {quoted(name)}: {_listed(exact)}. Ask which is meant, and "
                "pass the name in brackets."
            )
        hint = f" Called alike: {_listed(alike)}." if alike else ""
        raise errors.NotFound(f"No {kind} is called {quoted(name)} here.{hint} Ask the person for the name.")

    async def create(
        self,
        path: str,
        *,
        kind: Kind,
        permissions: May,
        receiver: Receiver | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Share:
        """Share what is at a path; sharing with the same one again answers the share there is, unchanged.

        `fields` are `expireDate`, `note`, `label` and `password`, in Nextcloud's words.

        Raises:
            NotFound: The path, the receiver or the date is none.
            InvalidName: Nextcloud refuses the password.
            Forbidden: The user or the administrator's rules do not allow it.
        """
        sent: dict[str, object] = {"path": path, "shareType": int(kind), "permissions": int(permissions)}
        if receiver is not None:
            sent["shareWith"] = receiver.id
        sentences = {
            400: f"Nextcloud did not share {quoted(path)}{{reason}}. Change that and call again.",
            403: f"Nextcloud does not let the person share {quoted(path)} so{{reason}}.",
            404: f"Nextcloud did not share {quoted(path)}{{reason}}. Check path, date and with whom.",
        }
        with file_errors.in_doubt(path):
            return await ocs.send(
                self._http,
                "POST",
                f"{_API}/shares",
                _SHARE,
                json={**sent, **(fields or {})},
                sentences=sentences,
            )

    async def update(self, share: Share, fields: Mapping[str, object]) -> Share:
        """Change a share; an empty text takes date, note, label or password off.

        Raises:
            InvalidName: Nextcloud refuses a value.
            NotFound: It is gone, or the date is none.
        """
        told = f"Nextcloud did not change share {share.id}{{reason}}."
        sentences = {
            400: f"{told} Change that and call again.",
            403: f"{told} Only who shared it can change it.",
            404: f"{told} See nc_sharing_list_shares.",
        }
        where = f"{_API}/shares/{_checked(share.id)}"
        kept: dict[str, object] = {}
        if share.kind == Kind.EMAIL and share.tells_password_in_talk:
            # The one thing that Nextcloud (up to 18 at least) takes back when it is not sent again.
            kept["sendPasswordByTalk"] = "true"
        with file_errors.in_doubt(share.path):
            return await ocs.send(
                self._http, "PUT", where, _SHARE, json={**kept, **fields}, sentences=sentences
            )

    async def delete(self, share: Share) -> None:
        """End a share; of one that was received, only let go."""
        sentences = {
            **_gone(share.id),
            403: f"Nextcloud does not let the person end share {share.id}{{reason}}; its owner can.",
        }
        with file_errors.in_doubt(share.path):
            await self._http.request(
                "DELETE",
                f"/ocs/v2.php{_API}/shares/{_checked(share.id)}",
                params={"format": "json"},
                sentences=sentences,
            )


def shared_at(share: Share) -> datetime:
    """Tell when it was shared."""
    return timestamp.moment(share.shared_at)


def _checked(share_id: str) -> str:
    if not (share_id.isascii() and share_id.isdigit()):
        raise errors.InvalidInput("That is not a share_id: take one from nc_sharing_list_shares.")
    return share_id


def _gone(share_id: str) -> dict[int, str]:
    return {404: f"There is no share {share_id} that the person can see: see nc_sharing_list_shares."}


def _listed(sharees: Sequence[_Sharee]) -> str:
    names = list(dict.fromkeys(map(str, sharees)))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
