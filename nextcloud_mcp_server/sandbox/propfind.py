"""PROPFIND, PROPPATCH and the favourites REPORT over files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate

from nextcloud_mcp_server.sandbox.dav_request import parse_wanted, parse_xml
from nextcloud_mcp_server.sandbox.dav_xml import (
    DAV,
    NC,
    OC,
    DavFault,
    Found,
    Markup,
    element,
    escape_href,
)
from nextcloud_mcp_server.sandbox.files import FileTree
from nextcloud_mcp_server.sandbox.node import Node, Tag
from nextcloud_mcp_server.sandbox.state import Share

Value = str | Markup | None

_LIVE_PROTECTED = frozenset(
    {f"{{{DAV}}}{name}" for name in ("getetag", "getcontentlength", "getlastmodified")}
)
#: What a PROPFIND without a body returns of a file, and of a folder.
FILE_PROPERTIES = [
    f"{{{DAV}}}{name}"
    for name in ("getlastmodified", "getcontentlength", "resourcetype", "getetag", "getcontenttype")
]
_FOLDER_PROPERTIES = [
    f"{{{DAV}}}{name}"
    for name in ("getlastmodified", "resourcetype", "quota-used-bytes", "quota-available-bytes", "getetag")
]
_FAVORITE = f"{{{OC}}}favorite"
_LAST_MODIFIED = f"{{{DAV}}}lastmodified"


class Absent(Exception):
    """The resource has no such property."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tree is served: its user, and the path before it."""

    tree: FileTree
    display_name: str
    base: str
    principal: str
    tags: Mapping[int, Tag] = field(default_factory=dict[int, Tag])
    shares: Sequence[Share] = ()

    def href(self, node: Node) -> str:
        """Build the escaped href; folders end in a slash."""
        tail = "/" if node.is_folder and node.parent is not None else ""
        return escape_href(f"{self.base}{node.path}{tail}")


def find_properties(
    place: Place, node: Node, wanted: Sequence[str] | None, *, minimal: bool = False
) -> Found:
    """Return the requested properties of a resource; None means the usual ones, `minimal` leaves out missing ones."""
    properties: dict[str, Value] = {}
    missing: list[str] = []
    for name in _usual(node) if wanted is None else wanted:
        try:
            properties[name] = _value(place, node, name)
        except Absent:
            missing.append(name)
    return Found(place.href(node), properties, {404: missing} if missing and not minimal else {})


def nodes_to_depth(node: Node, depth: str) -> Iterator[Node]:
    """Yield the resource and, by the Depth header, the resources below it."""
    yield node
    if depth == "infinity":
        yield from node.walk()
    elif depth != "0":
        yield from node.sorted_children()


def patch_properties(place: Place, node: Node, body: bytes) -> Found:
    """Carry out a PROPPATCH: favourite and time have an effect, other properties are stored."""
    changes = list(_changes(body))
    refused = [name for name, _ in changes if name in _LIVE_PROTECTED]
    if refused:
        rest = [name for name, _ in changes if name not in _LIVE_PROTECTED]
        return Found(place.href(node), {}, {403: refused, 424: rest})
    for name, value in changes:
        if name == _FAVORITE:
            node.favorite = value in {"1", "true"}
        elif name == _LAST_MODIFIED:
            place.tree.set_modified(node, int(value or "0"))
        elif value is None:
            node.extra.pop(name, None)
        else:
            node.extra[name] = value
    return Found(place.href(node), {name: None for name, _ in changes})


def find_marked(place: Place, node: Node, body: bytes) -> list[Found]:
    """Answer the REPORT that lists the favourites, or the files with these tags, below a folder.

    Raises:
        DavFault: 412, there is no such tag.
    """
    rules = parse_xml(body).find("filter-rules", uri=OC)
    favorites = rules is not None and rules.find("favorite", uri=OC) is not None
    tags = {int(rule.text) for rule in (rules.every("systemtag", uri=OC) if rules is not None else ())}
    if tags - place.tags.keys():
        what = "Cannot filter by non-existing tag"
        raise DavFault(412, "Sabre\\DAV\\Exception\\PreconditionFailed", what)
    wanted = parse_wanted(body) or []
    return [
        find_properties(place, found, wanted)
        for found in node.walk()
        if tags <= found.tags and (found.favorite or not favorites)
    ]


def principal_property(uid_path: str, wanted: Iterable[str] | None, href: str) -> Found:
    """Answer PROPFIND on the DAV root, which has only the user's principal."""
    known: dict[str, Value] = {
        f"{{{DAV}}}current-user-principal": Markup(element(f"{{{DAV}}}href", uid_path)),
        f"{{{DAV}}}resourcetype": Markup("<d:collection/>"),
    }
    if wanted is None:
        name = f"{{{DAV}}}resourcetype"
        return Found(href, {name: known[name]})
    names = list(wanted)
    missing = [name for name in names if name not in known]
    found = {name: known[name] for name in names if name in known}
    return Found(href, found, {404: missing} if missing else {})


def stub_properties(href: str, wanted: Sequence[str] | None) -> Found:
    """Answer PROPFIND for a resource that shows only that it is a folder."""
    collection = f"{{{DAV}}}resourcetype"
    if wanted is None:
        return Found(href, {collection: Markup("<d:collection/>")})
    found: Mapping[str, Value] = {collection: Markup("<d:collection/>")} if collection in wanted else {}
    return Found(href, found, {404: [name for name in wanted if name != collection]})


def pick(href: str, known: Mapping[str, Value], wanted: Iterable[str] | None) -> Found:
    """Return the requested ones of the properties; None means all."""
    names = list(known) if wanted is None else list(wanted)
    missing = [name for name in names if name not in known]
    found = {name: known[name] for name in names if name in known}
    return Found(href, found, {404: missing} if missing else {})


def http_date(seconds: float) -> str:
    """Write a time as HTTP does."""
    return formatdate(seconds, usegmt=True)


def _changes(body: bytes) -> Iterator[tuple[str, str | None]]:
    for step in parse_xml(body).children:
        removed = step.name == f"{{{DAV}}}remove"
        for prop in step.every("prop"):
            for child in prop.children:
                yield child.name, None if removed else child.text


def _usual(node: Node) -> list[str]:
    return _FOLDER_PROPERTIES if node.is_folder else FILE_PROPERTIES


def _value(place: Place, node: Node, name: str) -> Value:
    reader = _READERS.get(name)
    if reader is not None:
        return reader(place, node)
    if name in node.extra:
        return node.extra[name]
    raise Absent


def _of_file(read: Callable[[Node], Value]) -> Callable[[Place, Node], Value]:
    def reader(_: Place, node: Node) -> Value:
        if node.is_folder:
            raise Absent
        return read(node)

    return reader


def _of_folder(read: Callable[[Place, Node], Value]) -> Callable[[Place, Node], Value]:
    def reader(place: Place, node: Node) -> Value:
        if not node.is_folder:
            raise Absent
        return read(place, node)

    return reader


def _encrypted(_: Place, node: Node) -> Value:
    """Answer as PropFindPlugin.php of the app end_to_end_encryption does; without the app there is no such property."""
    if not node.encrypted:
        raise Absent
    return "1"


def _checksums(_: Place, node: Node) -> Value:
    if node.checksum is None:
        raise Absent
    return Markup(element(f"{{{OC}}}checksum", node.checksum))


def _tags(place: Place, node: Node) -> Value:
    names = (place.tags[one].name for one in sorted(node.tags) if one in place.tags)
    return Markup("".join(element(f"{{{NC}}}system-tag", name) for name in names)) or None


def _share_types(place: Place, node: Node) -> Value:
    kinds = sorted({share.kind for share in place.shares if share.node is node})
    return Markup("".join(element(f"{{{OC}}}share-type", str(kind)) for kind in kinds)) or None


def _sharees(place: Place, node: Node) -> Value:
    written = [
        element(f"{{{NC}}}id", share.receiver)
        + element(f"{{{NC}}}display-name", share.receiver)
        + element(f"{{{NC}}}type", str(share.kind))
        for share in place.shares
        if share.node is node and share.receiver is not None
    ]
    return Markup("".join(element(f"{{{NC}}}sharee", Markup(one)) for one in written)) or None


def _display_name(place: Place, node: Node) -> Value:
    return node.name if node.parent is not None else place.tree.owner


def _count(node: Node, *, folders: bool) -> str:
    return str(sum(child.is_folder is folders for child in node.children.values()))


_READERS: dict[str, Callable[[Place, Node], Value]] = {
    f"{{{DAV}}}getlastmodified": lambda _, node: http_date(node.modified_at),
    f"{{{DAV}}}getetag": lambda _, node: f'"{node.etag}"',
    f"{{{DAV}}}getcontenttype": _of_file(lambda node: node.mime),
    f"{{{DAV}}}resourcetype": lambda _, node: Markup("<d:collection/>") if node.is_folder else None,
    f"{{{DAV}}}getcontentlength": _of_file(lambda node: str(node.size)),
    f"{{{DAV}}}displayname": _display_name,
    f"{{{DAV}}}quota-available-bytes": _of_folder(lambda place, _: str(place.tree.available_bytes)),
    f"{{{DAV}}}quota-used-bytes": _of_folder(lambda _, node: str(node.size)),
    f"{{{DAV}}}current-user-principal": lambda place, _: Markup(element(f"{{{DAV}}}href", place.principal)),
    f"{{{OC}}}id": lambda _, node: node.oc_id,
    f"{{{OC}}}fileid": lambda _, node: str(node.file_id),
    f"{{{OC}}}permissions": lambda _, node: node.permissions,
    f"{{{OC}}}size": lambda _, node: str(node.size),
    f"{{{OC}}}favorite": lambda _, node: str(int(node.favorite)),
    f"{{{OC}}}comments-count": lambda _, node: str(len(node.comments)),
    f"{{{OC}}}comments-unread": lambda _, __: "0",
    f"{{{OC}}}owner-id": lambda place, _: place.tree.owner,
    f"{{{OC}}}owner-display-name": lambda place, _: place.display_name,
    f"{{{OC}}}share-types": _share_types,
    f"{{{OC}}}checksums": _checksums,
    f"{{{OC}}}tags": lambda _, __: None,
    f"{{{NC}}}has-preview": lambda _, node: (
        "true" if node.mime.startswith(("text/", "image/")) and not node.is_folder else "false"
    ),
    f"{{{NC}}}mount-type": lambda _, __: "",
    f"{{{NC}}}contained-folder-count": _of_folder(lambda _, node: _count(node, folders=True)),
    f"{{{NC}}}contained-file-count": _of_folder(lambda _, node: _count(node, folders=False)),
    f"{{{NC}}}is-encrypted": _of_folder(_encrypted),
    f"{{{NC}}}creation_time": lambda _, node: node.extra.get(f"{{{NC}}}creation_time", "0"),
    f"{{{NC}}}upload_time": _of_file(lambda node: str(node.uploaded_at)),
    f"{{{NC}}}sharees": _sharees,
    f"{{{NC}}}system-tags": _tags,
}
