"""Tools for sharing: with users, with groups, by public links.

A row is no `Share`: it says who the recipient is for this user, and what they may do, in words.
"""

from datetime import date, datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from nextcloud_mcp_server.apps.sharing.client import Kind, May, Recipient, Share, SharingClient
from nextcloud_mcp_server.errors import EtagMismatch, InvalidInput
from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.ids import TextId
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK
from nextcloud_mcp_server.tools import file_words, pagination
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.file_results import shown_as
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

Access = Literal["view", "edit", "upload"]

_EVERYTHING: Final = May.READ | May.UPDATE | May.CREATE | May.DELETE
_WORDS: Final = {
    May.READ: "read",
    May.UPDATE: "change",
    May.CREATE: "add",
    May.DELETE: "delete",
    May.SHARE: "share",
}

_UNLIKE: Final = (
    "It is not exactly as asked; perhaps it was shared with them before, which changes nothing. Change it with "
    "nc_sharing_update_share."
)

Day = Annotated[str | None, Field(description="Last day, such as 2027-01-31.")]
Short = Annotated[str | None, Field(max_length=250)]
_TAKEN_OFF: Final = Empty("takes it off")

sharing = Toolset("sharing")


class ShareRow(Result):
    """A share: what, with whom, and what they may do; `owner` is told of what was received."""

    share_id: str
    etag: str
    path: str
    type: Literal["file", "folder"]
    shared_with: str
    receiver: str | None = None
    owner: str | None = None
    may: list[str]
    link: str | None = None
    password: Literal[True] | None = None
    expires: date | None = None
    note: str | None = None
    label: str | None = None
    shared: datetime
    shown_as: str | None = None
    hint: str | None = None

    @classmethod
    def of(cls, share: Share, uid: str, *, hint: str | None = None) -> "ShareRow":
        """Build from a share, as this user sees it."""
        path = share.path.strip("/")
        # The SHARE bit is always set on links and has no meaning there.
        bits = share.permissions & ~(May.SHARE if share.kind == Kind.LINK else 0)
        return cls(
            share_id=share.id,
            etag=share.version,
            path=path,
            type="folder" if share.is_folder else "file",
            shared_with=file_words.shares((str(share.kind),))[0],
            receiver=share.to,
            owner=share.owner or share.owner_id if share.owner_id != uid else None,
            may=[word for bit, word in _WORDS.items() if bits & bit],
            link=share.url,
            password=True if share.has_password else None,
            expires=share.expires,
            note=share.note or None,
            label=share.label or None,
            shared=timestamp.moment(share.shared_at),
            shown_as=shown_as(path),
            hint=hint,
        )


class SharePage(Result):
    """A page of shares, newest first; go on with `cursor`."""

    items: list[ShareRow]
    total: int
    cursor: str | None = None


class Ended(Result):
    """A share that is no more."""

    share_id: str
    path: str
    undo: str


@sharing.tool("List shares", read_only=True)
@require_provisioning("sharing:read")
async def nc_sharing_list_shares(
    nc: Account,
    *,
    received: bool = False,
    path: str | None = None,
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> SharePage:
    """List what the person shares, with links and permissions, or with received what others share with them."""
    after = pagination.unseal(cursor, "shares", received, path)
    window = TopK[Share](_newest_first, limit=limit, after=after)
    for share in await nc.client(SharingClient).list_shares(with_me=received, path=path):
        window.offer(share)
    found, more = window.page()
    rows = pagination.fit([ShareRow.of(share, nc.uid) for share in found])
    more = more or len(rows) < len(found)
    last = _newest_first(found[len(rows) - 1]) if more else None
    return SharePage(
        items=rows,
        total=window.total,
        cursor=None if last is None else pagination.seal(last, "shares", received, path),
    )


def _newest_first(share: Share) -> Position:
    return Position.of(-share.shared_at, share.id)


@sharing.tool("Share with a person or group")
@require_provisioning("sharing:write")
async def nc_sharing_share_item(
    nc: Account,
    path: str,
    *,
    person: Annotated[str | None, Field(description="Name, account or e-mail address.")] = None,
    group: str | None = None,
    access: Literal["view", "edit"] = "view",
    reshare: bool = False,
    expires: Day = None,
    note: Short = None,
) -> ShareRow:
    """Share a file or folder with one person or group of this Nextcloud; they are told, with the note."""
    if (person is None) == (group is None):
        raise InvalidInput("Say with whom to share: either 'person' or 'group'.")
    fields = _fields(expireDate=_day(expires), note=note)
    entry = await nc.files.info(path)
    named: Recipient = "person" if person else "group"
    receiver = await nc.client(SharingClient).receiver(person or group or "", named)
    permissions = _permissions(access, folder=entry.is_folder) | (May.SHARE if reshare else May(0))
    share = await nc.client(SharingClient).create(
        entry.path, kind=Kind[named.upper()], permissions=permissions, receiver=receiver, fields=fields
    )
    hint = None if _is_as_asked(share, permissions, expires=expires, note=note) else _UNLIKE
    return ShareRow.of(share, nc.uid, hint=hint)


@sharing.tool("Make a public link")
@require_provisioning("sharing:write")
async def nc_sharing_create_link(
    nc: Account,
    path: str,
    *,
    access: Access = "view",
    password: Short = None,
    expires: Day = None,
    label: Short = None,
) -> ShareRow:
    """Make a link that opens a file or folder to anyone who has it; upload lets them only add to a folder."""
    fields = _fields(expireDate=_day(expires), password=password, label=label)
    entry = await nc.files.info(path)
    permissions = _permissions(access, folder=entry.is_folder)
    share = await nc.client(SharingClient).create(
        entry.path, kind=Kind.LINK, permissions=permissions, fields=fields
    )
    return ShareRow.of(share, nc.uid)


@sharing.tool("Change a share", destructive=True)
@require_provisioning("sharing:write")
async def nc_sharing_update_share(
    nc: Account,
    share_id: TextId,
    *,
    etag: str,
    access: Access | None = None,
    reshare: bool | None = None,
    password: Annotated[Short, _TAKEN_OFF] = None,
    expires: Annotated[Day, _TAKEN_OFF] = None,
    note: Annotated[Short, _TAKEN_OFF] = None,
    label: Annotated[Short, _TAKEN_OFF] = None,
) -> ShareRow:
    """Change what is given of a share, whose etag was listed; an empty text takes off password, date, note or label."""
    given = _fields(expireDate=_day(expires), password=password, note=note, label=label)
    if not given and access is None and reshare is None:
        raise InvalidInput("Say what to change: access, reshare, password, expires, note or label.")
    share = await _current(nc, share_id, etag)
    if password is not None and share.kind not in (Kind.LINK, Kind.EMAIL):
        raise InvalidInput("Only links and shares by e-mail have a password.")
    if access == "upload" and share.kind != Kind.LINK:
        raise InvalidInput("Only a link can be for upload alone.")
    if reshare is not None and share.kind == Kind.LINK:
        raise InvalidInput("All who have a link can pass it on: 'reshare' is for people and groups.")
    changed: dict[str, object] = {**given}
    if access is not None or reshare is not None:
        changed["permissions"] = int(_changed(share, access, reshare=reshare))
    return ShareRow.of(await nc.client(SharingClient).update(share, changed), nc.uid)


@sharing.tool("End a share", destructive=True)
@require_provisioning("sharing:write")
async def nc_sharing_delete_share(nc: Account, share_id: TextId, *, etag: str) -> Ended:
    """End a share of the person's, or let go of one that was received; the file itself stays."""
    share = await _current(nc, share_id, etag)
    await nc.client(SharingClient).delete(share)
    if share.is_received_by(nc.uid):
        undo = f"Only {share.owner or share.owner_id} can share it again."
        if share.kind == Kind.GROUP:
            undo = "The person can take it back in Nextcloud: Files, Shares, Deleted shares."
    elif share.kind == Kind.LINK:
        undo = "It cannot be undone: a new link has another address."
    else:
        undo = f"To undo, share it with {share.receiver_id} again."
    return Ended(share_id=share.id, path=share.path.strip("/"), undo=undo)


async def _current(nc: Account, share_id: str, etag: str) -> Share:
    """Fetch a share, and check that it has not changed since it was listed."""
    share = await nc.client(SharingClient).get(share_id)
    if etag != share.version:
        raise EtagMismatch(
            f"Share {share.id} changed since it was listed, so it was left alone. List it again, "
            "look at what has changed, and pass the etag that is listed.",
            current_etag=share.version,
        )
    return share


def _permissions(access: Access, *, folder: bool) -> May:
    if access == "upload":
        if not folder:
            raise InvalidInput("Only a folder can be opened for upload: share the file with view or edit.")
        return May.CREATE
    if access == "view":
        return May.READ
    return _EVERYTHING if folder else May.READ | May.UPDATE


def _changed(share: Share, access: Access | None, *, reshare: bool | None) -> May:
    """Return the permissions for a share: the given changes, the rest as it is."""
    now = May(share.permissions)
    if share.kind == Kind.LINK:
        # Nextcloud sets the SHARE bit itself, where it is allowed.
        now &= ~May.SHARE
    bits = now & ~May.SHARE if access is None else _permissions(access, folder=share.is_folder)
    may_share = bool(now & May.SHARE) if reshare is None else reshare
    return bits | May.SHARE if may_share else bits


def _is_as_asked(share: Share, permissions: May, *, expires: str | None, note: str | None) -> bool:
    """Tell whether a share is as requested: an existing share is unchanged, and administrators set limits."""
    return (
        share.permissions == permissions
        and (not expires or share.expires == date.fromisoformat(expires))
        and (not note or share.note == note)
    )


def _fields(**fields: str | None) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value is not None}


def _day(text: str | None) -> str | None:
    if not text:
        return text
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise InvalidInput(f"'expires' must be a day such as 2027-01-31, not {quoted(text)}.") from None
