"""Names that tell several servers behind one bridge apart: `<server>__<tool>`, `@<server>:<uri>`.

With a single server every name stays as it is.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from nextcloud_mcp_server.bridge.envelope import Message, as_list, as_object

SEPARATOR: Final = "__"
#: Names in metadata the task to which a message belongs (2025-11-25).
RELATED: Final = "io.modelcontextprotocol/related-task"

#: The list in a result, and the field in each of its items that names it.
LISTS: Final[Mapping[str, tuple[str, str]]] = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
    "tasks/list": ("tasks", "taskId"),
}
_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    "tasks/get": "taskId",
    "tasks/result": "taskId",
    "tasks/cancel": "taskId",
    "tasks/update": "taskId",
}


def join(server: str, field: str, name: str) -> str:
    """Return the name under which a chat client knows a tool, prompt, task or resource of a server."""
    return f"@{server}:{name}" if field.startswith("uri") else f"{server}{SEPARATOR}{name}"


def split(field: str, name: str) -> tuple[str, str] | None:
    """Return the server and its own name for something; None if the name names no server."""
    if field.startswith("uri"):
        server, colon, own = name.removeprefix("@").partition(":")
        return (server, own) if name.startswith("@") and colon else None
    server, separator, own = name.partition(SEPARATOR)
    return (server, own) if separator else None


def address(method: str, params: Message) -> tuple[str, Message] | None:
    """Find the server that a request is for; return its name, and the parameters with the server's own names."""
    if method == "completion/complete":
        reference = as_object(params.get("ref"))
        field = "uri" if "uri" in reference else "name"
        found = split(field, str(reference.get(field, "")))
        return found and (found[0], {**params, "ref": {**reference, field: found[1]}})
    field = _NAMED.get(method)
    if field is None or not isinstance(params.get(field), str):
        return None
    found = split(field, params[field])
    return found and (found[0], {**params, field: found[1]})


def listed(method: str, server: str, result: Message) -> list[Message]:
    """Return the items of a list under the names that the chat client knows."""
    items, field = LISTS[method]
    known = [as_object(item) for item in as_list(result.get(items))]
    return [
        {**item, field: join(server, field, item[field])}
        for item in known
        if isinstance(item.get(field), str)
    ]


def renamed(server: str, result: Message) -> Message:
    """Rename the resources and tasks in a result, so that the chat client can ask for them again."""
    found = result | {key: _PARTS[key](server, item) for key, item in result.items() if key in _PARTS}
    if not ("status" in result and isinstance(result.get("taskId"), str)):
        return found
    # The state of a task; in 2026-07-28 with the result of its call.
    own: Message = {"taskId": join(server, "taskId", result["taskId"])}
    inner = as_object(result.get("result"))
    return found | own | ({"result": renamed(server, inner)} if inner else {})


def related(server: str, params: Message) -> Message:
    """Rename the task for which a server sends a request."""
    return {**params, "_meta": _meta(server, params["_meta"])} if "_meta" in params else params


def _content(server: str, items: object) -> object:
    return [_item(server, as_object(item)) for item in as_list(items)]


def _item(server: str, item: Message) -> Message:
    if item.get("type") == "resource_link":
        return _with_uri(server, item)
    if item.get("type") == "resource":
        return {**item, "resource": _with_uri(server, as_object(item.get("resource")))}
    return item


def _contents(server: str, items: object) -> object:
    return [_with_uri(server, as_object(item)) for item in as_list(items)]


def _messages(server: str, items: object) -> object:
    known = [as_object(item) for item in as_list(items)]
    return [{**item, "content": _item(server, as_object(item.get("content")))} for item in known]


def _task(server: str, item: object) -> object:
    task = as_object(item)
    return {**task, "taskId": join(server, "taskId", str(task.get("taskId", "")))} if task else item


def _meta(server: str, item: object) -> object:
    meta = as_object(item)
    return {**meta, RELATED: _task(server, meta[RELATED])} if RELATED in meta else item


def _with_uri(server: str, item: Message) -> Message:
    uri = item.get("uri")
    return {**item, "uri": join(server, "uri", uri)} if isinstance(uri, str) else item


_PARTS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "content": _content,
    "contents": _contents,
    "messages": _messages,
    "task": _task,
    "_meta": _meta,
}
