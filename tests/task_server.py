"""A small MCP server over stdio with tasks, which shares no code with the SDK: it does what a call's arguments say.

`python task_server.py core|extension [LOG [TASK...]]`: tasks of 2025-11-25, or of the extension of 2026-07-28. LOG gets
a line for each message that came; a TASK is there from the start. The arguments of a call say what its task does:

- `states`: one for each poll, the last again and again; a status, or fields of a task
- `interval`: milliseconds; `made`: fields of the first answer
- `result`, `error`: what the call ends with; `ask`: the parameters of an elicitation for `input_required`
- `asks`: the method of it; `related`: the task that the result names; `result_is`: a result that is none
- `hint_ms`: after this time the last state is reached, and a notification says so
"""

import asyncio  # noqa: TID251 - as a server that knows nothing of this project's libraries
import json
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]

CORE = sys.argv[1] == "core"
LOG = Path(sys.argv[2]) if len(sys.argv) > 2 else None
EXTENSION = "io.modelcontextprotocol/tasks"
META = "io.modelcontextprotocol/"
WHEN = "2026-11-30T10:30:00Z"
DONE = {"content": [{"type": "text", "text": "All done."}], "isError": False}
SUPPORT = {"run": "optional", "must": "required", "plain": "forbidden"}


class RpcError(Exception):
    """An error answer."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error: Message = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Task:
    """One task, and what it was told to do."""

    def __init__(self, id_: str, script: Message) -> None:
        self.id, self.script = id_, script
        self.states: list[Any] = list(script.get("states", ["working", "completed"]))
        self.answers: Message = {}
        self.answered, self.over = asyncio.Event(), asyncio.Event()
        self.end: Message | None = None

    def next(self) -> Message:
        if self.end is not None:
            return self.end
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if state == "input_required" and not self.answered.is_set():
            self.states.insert(0, state)
        fields = {"status": state} if isinstance(state, str) else dict(state)
        return self.fields(fields)

    def fields(self, more: Message) -> Message:
        interval = self.script.get("interval", 20)
        names = ("ttl", "pollInterval") if CORE else ("ttlMs", "pollIntervalMs")
        times = {"createdAt": WHEN, "lastUpdatedAt": WHEN, names[0]: 60000}
        given = {} if interval is None else {names[1]: interval}
        fields = {"taskId": self.id, "status": "working", **times, **given, **more}
        if fields["status"] in ("completed", "failed", "cancelled"):
            self.over.set()
        if not CORE:
            if fields["status"] == "completed":
                fields.setdefault("result", self.script.get("result_is", self.result()))
            if fields["status"] == "failed" and "error" in self.script:
                fields["error"] = self.script["error"]
            if fields["status"] == "input_required":
                method = self.script.get("asks", "elicitation/create")
                request = {"method": method, "params": self.script.get("ask")}
                fields.setdefault("inputRequests", {"k1": request})
        return fields

    def result(self) -> Message:
        answers = {"structuredContent": self.answers} if self.answers else {}
        return {**self.script.get("result", DONE), **answers}


class Server:
    """One connection."""

    def __init__(self) -> None:
        self.tasks = {id_: Task(id_, {"states": ["working", "working", "completed"]}) for id_ in sys.argv[3:]}
        self.running: dict[object, asyncio.Task[None]] = {}
        self.waiting: dict[object, asyncio.Future[Message]] = {}
        self.listens: dict[object, Message] = {}
        self.kept: set[asyncio.Task[None]] = set()

    def send(self, message: Message) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def take(self, message: Message) -> None:
        if LOG is not None:
            with LOG.open("a", encoding="utf-8") as file:
                file.write(json.dumps(message) + "\n")
        if "method" not in message:
            self.waiting.pop(message["id"]).set_result(message.get("result", {"error": message.get("error")}))
        elif "id" in message:
            self.running[message["id"]] = asyncio.create_task(self.answer(message))
        elif message["method"] == "notifications/cancelled":
            for running in filter(None, [self.running.get(message["params"]["requestId"])]):
                running.cancel()

    async def answer(self, message: Message) -> None:
        try:
            result = await self.result(message["method"], message.get("params", {}), message["id"])
            stamp = {} if CORE else {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            self.send({"id": message["id"], "result": {**stamp, **result}})
        except RpcError as error:
            self.send({"id": message["id"], "error": error.error})
        finally:
            self.running.pop(message["id"], None)

    async def result(self, method: str, params: Message, id_: object) -> Message:  # noqa: PLR0911 - a table
        if method == "initialize" and CORE:
            tasks: Message = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
            return {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "tasks", "version": "1"},
                    "capabilities": {"tools": {}, "tasks": tasks}}  # fmt: skip
        if method == "server/discover" and not CORE:
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "extensions": {EXTENSION: {}}},
                    "_meta": {f"{META}serverInfo": {"name": "tasks", "version": "1"}}}  # fmt: skip
        if method == "tools/list":
            schema = {"type": "object"}
            return {"tools": [{"name": name, "inputSchema": schema, "execution": {"taskSupport": support}}
                              for name, support in SUPPORT.items()]}  # fmt: skip
        if method == "tools/call":
            return self.call(params)
        if method == "subscriptions/listen" and not CORE:
            return await self.listen(params, id_)
        if method == "tasks/list" and CORE:
            return {"tasks": [task.next() for task in self.tasks.values()]}
        if "taskId" in params:
            return await self.about(method, params)
        raise RpcError(-32601, f"No such method: {method}")

    def call(self, params: Message) -> Message:
        name = params["name"]
        script: Message = params.get("arguments") or {}
        declared = params.get("_meta", {}).get(f"{META}clientCapabilities", {}).get("extensions", {})
        may = "task" in params if CORE else EXTENSION in declared
        if name == "must" and not may:
            if CORE:
                raise RpcError(-32601, "This tool needs a task")
            needed: Message = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise RpcError(-32021, "Missing required client capability", needed)
        if name == "plain" or not may:
            return {"content": [{"type": "text", "text": f"At once: {json.dumps(script)}"}]}
        task = Task(f"task-{len(self.tasks) + 1}", script)
        self.tasks[task.id] = task
        if "hint_ms" in script:
            running = asyncio.create_task(self.hint(task, script["hint_ms"] / 1000))
            self.kept.add(running)
        made = task.fields(script.get("made", {}))
        return {"task": made} if CORE else {"resultType": "task", **made}

    async def hint(self, task: Task, seconds: float) -> None:
        await asyncio.sleep(seconds)
        task.end = task.fields({"status": "completed"})
        if CORE:
            self.send({"method": "notifications/tasks/status", "params": task.end})
        for id_, wanted in self.listens.items():
            if task.id in wanted.get("taskIds", ()):
                stamp = {"_meta": {f"{META}subscriptionId": id_}}
                self.send({"method": "notifications/tasks", "params": task.end | stamp})

    async def listen(self, params: Message, id_: object) -> Message:
        wanted = self.listens[id_] = params["notifications"]
        stamp = {"_meta": {f"{META}subscriptionId": id_}}
        self.send(
            {
                "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": wanted, **stamp},
            }
        )
        try:
            await asyncio.Event().wait()
        finally:
            del self.listens[id_]
        return {}

    async def about(self, method: str, params: Message) -> Message:
        task = self.tasks.get(params["taskId"])
        if task is None or task.script.get("gone"):
            raise RpcError(-32602, "Failed to retrieve task: Task has expired")
        if method == "tasks/get":
            return task.next()
        if method == "tasks/cancel":
            task.end = task.fields({"status": "cancelled"})
            return task.end if CORE else {}
        if method == "tasks/update" and not CORE:
            task.answers |= params["inputResponses"]
            task.answered.set()
            return {}
        if method == "tasks/result" and CORE:
            return await self.final(task)
        raise RpcError(-32601, f"No such method: {method}")

    async def final(self, task: Task) -> Message:
        related = {f"{META}related-task": {"taskId": task.script.get("related", task.id)}}
        if "ask" in task.script and not task.answered.is_set():
            id_ = f"s-{task.id}"
            future = self.waiting[id_] = asyncio.get_running_loop().create_future()
            question = {**task.script["ask"], "_meta": related}
            self.send({"id": id_, "method": "elicitation/create", "params": question})
            task.answers["k1"] = await future
            task.answered.set()
        elif not task.over.is_set():
            await task.over.wait()
        if "error" in task.script:
            raise RpcError(**task.script["error"])
        return {"_meta": related, **task.result()}


async def main() -> None:
    reader = asyncio.StreamReader(limit=10_000_000)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    server = Server()
    while line := await reader.readline():
        server.take(json.loads(line))


if __name__ == "__main__":
    asyncio.run(main())
