"""The unified search: the providers, and their results."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.responses import Response

from nextcloud_mcp_server.sandbox.apps.notes.store import title_of
from nextcloud_mcp_server.sandbox.node import Node
from nextcloud_mcp_server.sandbox.ocs_app import OcsCall
from nextcloud_mcp_server.sandbox.reply import OCS_BROKEN, ocs_reply

_TEXT_ICON = "/apps/theming/img/core/filetypes/text.svg?v=8924fe71"
_USUAL_LIMIT = 5

_Entry = dict[str, object]


@dataclass(frozen=True, slots=True)
class _Provider:
    """A provider, and the app that it belongs to."""

    id: str
    app: str
    name: str
    order: int
    find: Callable[[OcsCall, str], Iterable[_Entry]]


def answer_search(call: OcsCall) -> Response:
    """Answer anything below /search/providers."""
    providers = [one for one in _PROVIDERS if one.app in call.context.apps]
    if not call.path:
        return ocs_reply(call.request, [_described(one) for one in providers])
    name, _, what = call.path.partition("/")
    found = next((one for one in providers if one.id == name and what == "search"), None)
    if found is None:
        return ocs_reply(call.request, code=OCS_BROKEN, message="Internal Server Error\n")
    term = (call.text("term") or "").strip()
    if not term:
        return ocs_reply(call.request, "No valid filters provided", code=400, message="")
    limit, first = call.number("limit", _USUAL_LIMIT), call.number("cursor")
    entries = list(found.find(call, term.casefold()))[first : first + limit]
    page = {"name": found.name, "isPaginated": True, "entries": entries, "cursor": first + limit}
    return ocs_reply(call.request, page)


def _described(provider: _Provider) -> _Entry:
    return {
        "id": provider.id,
        "appId": provider.app,
        "name": provider.name,
        "icon": f"/apps/{provider.app}/img/app.svg",
        "order": provider.order,
        "isExternalProvider": False,
        "triggers": [provider.id],
        "filters": {"term": "string"},
        "inAppSearch": False,
    }


def _files(call: OcsCall, term: str) -> Iterable[_Entry]:
    for node in _newest_first(call):
        if term in node.name.casefold():
            folder = node.path.strip("/").rpartition("/")[0]
            yield _entry(
                title=node.name,
                subline=f"in {folder}" if folder else "",
                url=f"{_base(call)}/f/{node.file_id}",
                thumbnail=f"{_base(call)}/core/preview?x=32&y=32&fileId={node.file_id}",
                icon=_TEXT_ICON,
                attributes={"fileId": str(node.file_id), "path": node.path},
            )


def _texts(call: OcsCall, term: str) -> Iterable[_Entry]:
    """Search in file contents, with links as the app `fulltextsearch` writes them."""
    for node in _newest_first(call):
        if node.mime.startswith("text/") and term in _text(node):
            folder, _, name = node.path.rpartition("/")
            where = urlencode({"dir": folder or "/", "scrollto": name})
            title, url = f"(files) …{term}…", f"/index.php/apps/files/?{where}"
            yield _entry(title=title, subline=node.path.strip("/"), url=url)


def _notes(call: OcsCall, term: str) -> Iterable[_Entry]:
    folder = call.user.files.find(call.user.notes_path)
    for node in folder.walk() if folder is not None else ():
        if not node.is_folder and (term in node.name.casefold() or term in _text(node)):
            url = f"{_base(call)}/apps/notes/note/{node.file_id}"
            yield _entry(title=title_of(node), subline="", url=url)


def _text(node: Node) -> str:
    return node.read().decode(errors="replace").casefold()


_PROVIDERS = (
    _Provider("notes", "notes", "Notes", 4, _notes),
    _Provider("files", "files", "Files", 5, _files),
    _Provider("fulltextsearch", "fulltextsearch", "Full Text Search", 1, _texts),
)


def _newest_first(call: OcsCall) -> list[Node]:
    return sorted(
        (node for node in call.user.files.root.walk() if not node.is_folder),
        key=lambda node: (-node.modified_at, -node.file_id),
    )


def _base(call: OcsCall) -> str:
    return f"{call.context.origin(call.request)}{call.context.base_path}"


def _entry(
    *,
    title: str,
    subline: str,
    url: str,
    thumbnail: str = "",
    icon: str = "",
    attributes: _Entry | None = None,
) -> _Entry:
    return {
        "thumbnailUrl": thumbnail,
        "title": title,
        "subline": subline,
        "resourceUrl": url,
        "icon": icon,
        "rounded": False,
        "attributes": attributes or [],
    }
