"""A small MCP server over stdio that shares no code with the SDK: it answers what it is told to, in one era.

`python other_server.py handshake|modern [name]`. What it received comes back in results, so that tests can compare.
"""

import asyncio  # noqa: TID251 - as a server that knows nothing of this project's libraries
import json
import os
import sys
from typing import Any

Message = dict[str, Any]

ERA = sys.argv[1]
NAME = sys.argv[2] if len(sys.argv) > 2 else "other"
MODERN = "2026-07-28"
SERVER_INFO = {"name": NAME, "version": "7", "x-future": {"kept": [1, 2.5, None]}}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
    "x-future": {"deep": {"er": True}},
}
TOOLS = [
    "echo",
    "slow",
    "form",
    "page",
    "model",
    "roots",
    "die",
    "touch",
    "cancelled",
    "url_request",
    "fail",
    "log",
]
ITEM_META = {"example.org/any": {"a": 1}}


class RpcError(Exception):
    """An error answer."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error: Message = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Server:
    """One connection."""

    def __init__(self) -> None:
        self.tasks: dict[object, asyncio.Task[None]] = {}
        self.waiting: dict[object, asyncio.Future[Message]] = {}
        self.cancelled: list[object] = []
        self.subscribed: list[str] = []
        self.listens: dict[object, Message] = {}
        self.finished: set[str] = set()
        self.called_text = 0
        #: The rounds of each beginning of the tool `held`.
        self.rounds: list[int] = []
        self.level = "none"
        self.last = 0

    def send(self, message: Message) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def notify(self, method: str, params: Message | None = None) -> None:
        self.send({"method": method} | ({} if params is None else {"params": params}))

    async def ask(self, method: str, params: Message) -> Message:
        self.last += 1
        id_ = f"s{self.last}"
        future = self.waiting[id_] = asyncio.get_running_loop().create_future()
        self.send({"id": id_, "method": method, "params": params})
        return await future

    def take(self, message: Message) -> None:
        if "method" not in message:
            future = self.waiting.pop(message["id"])
            future.set_result(message.get("result", {"error": message.get("error")}))
        elif "id" in message:
            self.tasks[message["id"]] = asyncio.create_task(self.answer(message))
        elif message["method"] == "notifications/cancelled":
            id_ = message["params"]["requestId"]
            self.cancelled.append(message["params"])
            if id_ in self.tasks:
                self.tasks[id_].cancel()
        elif message["method"] == "notifications/roots/list_changed":
            self.notify("notifications/message", {"level": "info", "logger": "roots", "data": message})

    async def answer(self, message: Message) -> None:
        try:
            result = await self.result(message["method"], message.get("params", {}), message["id"])
            if ERA == "modern":
                result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
            self.send({"id": message["id"], "result": result})
        except RpcError as error:
            self.send({"id": message["id"], "error": error.error})
        finally:
            self.tasks.pop(message["id"], None)

    async def result(self, method: str, params: Message, id_: object) -> Message:
        if (
            ERA == "modern"
            and params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion") != MODERN
        ):
            raise RpcError(-32022, "Unsupported protocol version", {"supported": [MODERN], "requested": "?"})
        if method == "initialize" and ERA == "handshake":
            version = params["protocolVersion"]
            self.hello = params
            return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": SERVER_INFO,
                    "instructions": f"Instructions of {NAME}.", "x-more": "kept"}  # fmt: skip
        if method == "server/discover" and ERA == "modern":
            meta = {"io.modelcontextprotocol/serverInfo": SERVER_INFO}
            return {"supportedVersions": [MODERN], "capabilities": CAPABILITIES, "_meta": meta,
                    "instructions": f"Instructions of {NAME}."}  # fmt: skip
        if method == "tools/call":
            return await self.call(params, id_)
        return await self.other(method, params, id_)

    async def other(self, method: str, params: Message, id_: object) -> Message:  # noqa: C901, PLR0911 - a table
        if method == "tools/list":
            schema = {"type": "object"}
            return {"tools": [{"name": name, "inputSchema": schema, "_meta": ITEM_META} for name in TOOLS]}
        if method == "resources/list":
            return {"resources": [{"uri": "mem://one", "name": "one", "x-size": 3}]}
        if method == "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "mem://{id}", "name": "by id"}]}
        if method == "resources/read":
            return {"contents": [{"uri": params["uri"], "text": f"{NAME}: {params['uri']}"}], "x-more": 1}
        if method == "prompts/list":
            return {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}
        if method == "prompts/get":
            text = {"type": "text", "text": f"Greet {params['arguments']['who']}"}
            return {"messages": [{"role": "user", "content": text}]}
        if method == "completion/complete":
            return {"completion": {"values": [json.dumps(params["ref"])]}}
        if method == "logging/setLevel":
            self.level = params["level"]
            return {}
        if method in ("resources/subscribe", "resources/unsubscribe") and ERA == "handshake":
            act = self.subscribed.append if method.endswith("/subscribe") else self.subscribed.remove
            act(params["uri"])
            return {}
        if method == "subscriptions/listen" and ERA == "modern":
            self.listens[id_] = params["notifications"]
            stamp = {"_meta": {"io.modelcontextprotocol/subscriptionId": id_}}
            self.notify(
                "notifications/subscriptions/acknowledged",
                {"notifications": params["notifications"], **stamp},
            )
            try:
                await asyncio.Event().wait()
            finally:
                self.listens.pop(id_)
        if method == "x/unknown":
            return {"echo": params}
        raise RpcError(-32601, f"No such method: {method}", {"x": "kept"})

    async def call(self, params: Message, id_: object) -> Message:
        name, arguments = params["name"], params.get("arguments", {})
        if name == "slow":
            token = params.get("_meta", {}).get("progressToken")
            for step in range(1, arguments.get("steps", 3) + 1):
                self.notify(
                    "notifications/progress", {"progressToken": token, "progress": step, "total": 3, "x": id_}
                )
                await asyncio.sleep(arguments.get("pause", 0))
        elif name == "die":
            print("It is over.", file=sys.stderr, flush=True)  # noqa: T201 - diagnostics that the bridge shows
            os._exit(3)
        elif name == "fail":
            raise RpcError(-32000, "Nothing works", {"why": ["no", "reason"]})
        elif name == "touch":
            self.touch()
        elif name in ("form", "page", "model", "roots", "url_request", "held", "text"):
            return await (self.modern_question if ERA == "modern" else self.question)(name, params)
        elif name == "hostile":
            page = {"mode": "url", "message": "Open", "url": arguments["url"], "elicitationId": "e-2"}
            raise RpcError(-32042, "Consent first", {"elicitations": [page]})
        elif name == "log":
            self.notify(
                "notifications/message", {"level": "info", "logger": "own", "data": {"level": self.level}}
            )
        elif name == "cancelled":
            return {"content": [], "structuredContent": {"cancelled": len(self.cancelled)}}
        link = {"type": "resource_link", "uri": "mem://one", "name": "one"}
        text = {"type": "text", "text": json.dumps(params), "annotations": {"x": 1}}
        return {
            "content": [text, link],
            "structuredContent": {"received": params},
            "x-more": [None, 1.0],
            "_meta": ITEM_META,
        }

    def touch(self) -> None:
        for uri in self.subscribed:
            self.notify("notifications/resources/updated", {"uri": uri})
        if ERA == "handshake":
            self.notify("notifications/tools/list_changed")
        for id_, wanted in self.listens.items():
            stamp = {"_meta": {"io.modelcontextprotocol/subscriptionId": id_}}
            if wanted.get("toolsListChanged"):
                self.notify("notifications/tools/list_changed", stamp)
            for uri in wanted.get("resourceSubscriptions", []):
                self.notify("notifications/resources/updated", {"uri": uri, **stamp})

    def asked(self, name: str) -> tuple[str, Message]:
        if name in ("page", "url_request"):
            url = "https://consent.example.org/page?x=1"
            page = {"mode": "url", "message": "Please allow it", "url": url, "elicitationId": "e-1"}
            return "elicitation/create", page
        if name == "form":
            form = {"type": "object", "properties": {"color": {"type": "string"}}, "x-more": 1}
            return "elicitation/create", {"message": "Which color?", "requestedSchema": form, "mode": "form"}
        if name == "model":
            text = {"type": "text", "text": "Hi"}
            return "sampling/createMessage", {
                "messages": [{"role": "user", "content": text}],
                "maxTokens": 5,
                "x": 1,
            }
        return "roots/list", {}

    async def question(self, name: str, params: Message) -> Message:
        if name == "text":
            return self.text_question()
        method, question = self.asked(name)
        if name != "page":
            answer = await self.ask(method, question)
            return {"content": [], "structuredContent": {"answer": answer}}
        if "e-1" in self.finished:
            return {"content": [], "structuredContent": {"answer": "finished", "received": params}}
        if not params.get("arguments", {}).get("never"):
            asyncio.get_running_loop().call_later(0.2, self.finish, "e-1")
        raise RpcError(-32042, "Consent first", {"elicitations": [question]})

    def finish(self, id_: str) -> None:
        self.finished.add(id_)
        self.notify("notifications/elicitation/complete", {"elicitationId": id_})

    def text_question(self) -> Message:
        """Ask with an error, then in text, as a server does that has forgotten who called; then answer."""
        self.called_text += 1
        page = self.asked("page")[1]
        if self.called_text == 1:
            asyncio.get_running_loop().call_later(0.1, self.finish, "e-1")
            raise RpcError(-32042, "Consent first", {"elicitations": [page]})
        text = f"Open this link:\n\n{page['url']}\n\nThen call again." if self.called_text == 2 else "Done"
        return {"content": [{"type": "text", "text": text}], "isError": self.called_text == 2}

    async def held(self, params: Message) -> Message:
        """Ask for a page, and then hold the call in rounds until it is begun a second time."""
        page = {"inputRequests": {"k": {"method": "elicitation/create", "params": self.asked("page")[1]}}}
        if "requestState" not in params:
            self.rounds.append(0)
            return {"resultType": "input_required", "requestState": "held", **page}
        self.rounds[-1] += 1
        if len(self.rounds) > 1:
            return {"content": [], "structuredContent": {"rounds": self.rounds}}
        await asyncio.sleep(0.3)
        return {"resultType": "input_required", "requestState": "held"}

    async def modern_question(self, name: str, params: Message) -> Message:
        if name == "held":
            return await self.held(params)
        if params.get("requestState") != "state":
            method, question = self.asked(name)
            return {"resultType": "input_required", "inputRequests": {"k": {"method": method, "params": question}},
                    "requestState": "state"}  # fmt: skip
        return {"content": [], "structuredContent": {"answer": params.get("inputResponses", {}).get("k")}}


async def main() -> None:
    reader = asyncio.StreamReader(limit=10_000_000)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    server = Server()
    print(f"{NAME} is here", file=sys.stderr)  # noqa: T201 - diagnostics that the bridge shows
    while line := await reader.readline():
        server.take(json.loads(line))


if __name__ == "__main__":
    asyncio.run(main())
