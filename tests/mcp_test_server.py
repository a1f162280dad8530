"""A small MCP server over stdio that shares no code with the SDK: `python tests/mcp_test_server.py [OPTION=VALUE]...`

`version` is the one that it speaks; `pages=2` splits the list of tools; `twice=echo` lists one tool twice.
"""

import json
import os
import sys
from typing import Any

OPTIONS = dict(word.split("=", 1) for word in sys.argv[1:])
TEXT = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "echo", "description": "Echoes input", "inputSchema": TEXT},
    {"name": "fail", "description": "Fails", "inputSchema": NOTHING},
    {"name": "weather", "description": "Structured", "inputSchema": NOTHING},
    {"name": "environment", "description": "Names variables", "inputSchema": NOTHING},
    {
        "name": "count",
        "description": "Takes a number",
        "inputSchema": {
            "type": "object",
            "properties": {"number": {"type": "integer"}, "names": {"type": "array"}},
        },
    },
    {"name": "book", "description": "Asks for a form", "inputSchema": NOTHING},
    {"name": "page", "description": "Asks for a page", "inputSchema": NOTHING},
    {"name": "change", "description": "Changes its resources", "inputSchema": NOTHING},
    {"name": "slow", "description": "Reports its progress", "inputSchema": NOTHING},
    {"name": "silent", "description": "Never answers", "inputSchema": NOTHING},
    {"name": "exit", "description": "Ends the server", "inputSchema": NOTHING},
    {"name": "escape", "description": "Sends \x1b[31mcontrols", "inputSchema": NOTHING},
]
RESOURCES = [
    {"uri": "test://text", "name": "text", "mimeType": "text/plain"},
    {"uri": "test://blob", "name": "blob", "mimeType": "image/png"},
]
TEMPLATE = {"uriTemplate": "test://repos/{owner}/{repo}", "name": "repository"}
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "guests": {"type": "integer", "minimum": 1},
        "vegan": {"type": "boolean", "default": False},
    },
    "required": ["name", "guests"],
}
state: dict[str, Any] = {"lists": 0, "asked": 0, "paid": False, "question": None, "waiting": None}


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str, **more: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def is_paid(id_: object) -> bool:
    """Tell whether the user has paid; else the request fails for want of a page."""
    if state["paid"]:
        return True
    state["paid"] = OPTIONS.get("pay", "1") == "1"
    page = {"mode": "url", "elicitationId": "e1", "url": "https://pay.example/e1", "message": "Pay first."}
    write({"id": id_, "error": {"code": -32042, "message": "Pay.", "data": {"elicitations": [page]}}})
    write({"method": "notifications/elicitation/complete", "params": {"elicitationId": "e1"}})
    return False


def call(  # noqa: C901, PLR0911, PLR0912 - a case for each tool
    id_: object, params: dict[str, Any]
) -> dict[str, Any] | None:
    arguments: dict[str, Any] = params.get("arguments") or {}
    match params["name"]:
        case "echo":
            return text(arguments["message"])
        case "fail":
            return text("It is broken.", isError=True)
        case "weather":
            return text("Sunny.", structuredContent={"degrees": 21})
        case "environment":
            return text(json.dumps(sorted(os.environ)))
        case "count":
            return text(json.dumps(arguments))
        case "book":
            state["question"], state["waiting"] = "q1", id_
            write(
                {
                    "id": "q1",
                    "method": "elicitation/create",
                    "params": {"message": "Book?", "requestedSchema": FORM},
                }
            )
            return None
        case "page":
            return text("Paid.") if is_paid(id_) else None
        case "change":
            RESOURCES.append({"uri": "test://new", "name": "new"})
            write({"method": "notifications/resources/list_changed"})
            return text("Changed.")
        case "slow":
            token = params.get("_meta", {}).get("progressToken")
            for step in (1, 2):
                write(
                    {
                        "method": "notifications/progress",
                        "params": {
                            "progressToken": token,
                            "progress": step,
                            "total": 2,
                            "message": "Working",
                        },
                    }
                )
            return text("Done.")
        case "exit":
            sys.stderr.write("It is all over.\n")
            sys.exit(7)
        case "escape":
            return text("red \x1b[31mtext\nnext line")
        case "silent":
            return None
        case _:
            pass
    write({"id": id_, "error": {"code": -32602, "message": f"Unknown tool: {params['name']}"}})
    return None


def answer(  # noqa: C901, PLR0911, PLR0912 - a case for each method
    id_: object, method: str, params: dict[str, Any]
) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": OPTIONS.get("version", "2025-11-25"),
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": "test-server", "version": "1"},
            }
        case "tools/list":
            if "pages" not in OPTIONS:
                return {"tools": TOOLS + [tool for tool in TOOLS if tool["name"] == OPTIONS.get("twice")]}
            half = len(TOOLS) // 2
            first = "cursor" not in params
            return {"tools": TOOLS[:half], "nextCursor": "2"} if first else {"tools": TOOLS[half:]}
        case "tools/call":
            return call(id_, params)
        case "resources/list":
            state["lists"] += 1
            return {"resources": RESOURCES, "_meta": {"lists": state["lists"]}}
        case "resources/templates/list":
            return {"resourceTemplates": [TEMPLATE]}
        case "resources/read":
            uri = params["uri"]
            if uri == "test://paid" and not is_paid(id_):
                return None
            if uri == "test://blob":
                return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": "iVBORw=="}]}
            return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"This is {uri}."}]}
        case "prompts/list":
            return {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]}
        case "prompts/get":
            given: dict[str, Any] = params.get("arguments") or {}
            who = given.get("who")
            if params["name"] == "paid" and not is_paid(id_):
                return None
            return {
                "messages": [
                    {"role": "user", "content": {"type": "text", "text": f"Greet {who}."}},
                    {"role": "assistant", "content": {"type": "text", "text": "Hello."}},
                ]
            }
        case "ping":
            return {}
        case _:
            pass
    write({"id": id_, "error": {"code": -32601, "message": "Method not found"}})
    return None


def main() -> None:
    sys.stderr.write("The test server starts.\n")
    sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            result = text(json.dumps(message.get("result", message.get("error"))))
            write({"id": state["waiting"], "result": result})
        elif "id" in message:
            result = answer(message["id"], message["method"], message.get("params") or {})
            if result is not None:
                write({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
