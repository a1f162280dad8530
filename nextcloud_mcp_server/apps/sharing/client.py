"""Shares with a user, with a group, or by a public link."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from enum import IntEnum, IntFlag
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import file_errors, ocs
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.sanitize import escape_hidden, quoted

_API: Final = "/apps/files_sharing/api/v1"
#: Users and groups fetched for one name; no name has more exact matches than this.
_LOOKED_AT: Final = 25
_NAMED: Final = 5

Recipient = Literal["person", "group"]


class May(IntFlag):
    """The permissions of a share, as Nextcloud's bits."""

    READ = 1
    UPDATE = 2
    CREATE = 4
    DELETE = 8
    SHARE = 16


class Kind(IntEnum):
    """The kinds of shares that can be created here; there are others."""

    PERSON = 0
    GROUP = 1
    LINK = 3
    EMAIL = 4


class Share(Answer):
    """One share, as its owner or its recipient sees it; `path` is in the files of the requesting user."""

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
    # For a link, a value that Nextcloud derives from its password.
    receiver_id: str | None = Field(default=None, validation_alias="share_with", repr=False)
    receiver: str | None = Field(default=None, validation_alias="share_with_displayname")
    url: str | None = None
    # Only whether there is one: the value that Nextcloud sends must not be kept.
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
        """Return the recipient's name, with the account where it differs: several users may have one name."""
        if self.kind == Kind.LINK:
            return None
        if not self.receiver or not self.receiver_id or self.receiver == self.receiver_id:
            return self.receiver or self.receiver_id
        return f"{self.receiver} ({self.receiver_id})"

    def is_received_by(self, uid: str) -> bool:
        """Tell whether a user is the recipient."""
        return uid not in (self.owner_id, self.file_owner_id)

    @property
    def expires(self) -> date | None:
        """The last day on which it is valid."""
        try:
            return None if self.expiration is None else datetime.fromisoformat(self.expiration).date()
        except ValueError:
            return None

    @property
    def version(self) -> str:
        """A hash of its state: Nextcloud has no etags for shares."""
        state = (self.permissions, self.expiration, self.note, self.label, self.has_password, self.path)
        return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


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
        return escape_hidden(self.label if same else f"{self.label} ({self.value.receiver_id})")


class _Exact(Answer):
    users: list[_Sharee] = Field(default_factory=list[_Sharee])
    groups: list[_Sharee] = Field(default_factory=list[_Sharee])


class _Sharees(_Exact):
    exact: _Exact = Field(default_factory=_Exact)


_SHARES = TypeAdapter(ocs.Envelope[list[Share]])
_SHARE = TypeAdapter(ocs.Envelope[Share])
_FOUND = TypeAdapter(ocs.Envelope[_Sharees])


class SharingClient(AppClient):
    """Lists, creates, changes and ends one user's shares."""

    async def list_shares(self, *, with_me: bool, path: str | None = None) -> list[Share]:
        """Fetch the user's own shares, or those that the user received; all in one response.

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
          NotFound: There is no share with that id that the user may see.
        """
        where = f"{_API}/shares/{_checked(share_id)}"
        shares, _ = await ocs.get(self._http, where, _SHARES, sentences=_gone(share_id))
        if not shares:
            raise errors.NotFound(_gone(share_id)[404])
        return shares[0]

    async def receiver(self, name: str, kind: Recipient) -> str:
        """Find the id of the one user or group with that name, account name or e-mail address.

        Only exact matches count: content shared with the wrong user may have been read before the share is ended.

        Raises:
          NotFound: There is none; the error lists similar names.
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
            return ids.pop()
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
        receiver: str | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Share:
        """Share what is at a path; for an existing share with the same recipient, return that unchanged.

        `fields` are `expireDate`, `note`, `label` and `password`, as in Nextcloud's API.

        Raises:
          NotFound: The path or the recipient does not exist, or the date is invalid.
          InvalidName: Nextcloud rejects the password.
          Forbidden: The user's permissions or the administrator's rules forbid it.
        """
        sent: dict[str, object] = {"path": path, "shareType": int(kind), "permissions": int(permissions)}
        if receiver is not None:
            sent["shareWith"] = receiver
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
        """Change a share; an empty text removes date, note, label or password.

        Raises:
          InvalidName: Nextcloud rejects a value.
          NotFound: It no longer exists, or the date is invalid.
        """
        refusal = f"Nextcloud did not change share {share.id}{{reason}}."
        sentences = {
            400: f"{refusal} Change that and call again.",
            403: f"{refusal} Only who shared it can change it.",
            404: f"{refusal} See nc_sharing_list_shares.",
        }
        where = f"{_API}/shares/{_checked(share.id)}"
        kept: dict[str, object] = {}
        if share.kind == Kind.EMAIL and share.tells_password_in_talk:
            # The only value that Nextcloud (at least up to 18) resets when it is not sent again.
            kept["sendPasswordByTalk"] = "true"
        with file_errors.in_doubt(share.path):
            return await ocs.send(
                self._http, "PUT", where, _SHARE, json={**kept, **fields}, sentences=sentences
            )

    async def delete(self, share: Share) -> None:
        """End a share; a received share is only removed for the recipient."""
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
