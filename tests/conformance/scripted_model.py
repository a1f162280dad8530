"""A scripted model on loopback, with the APIs that terminal assistants use.

It calls one tool as soon as it is offered, and then repeats the tool's result word for word.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nextcloud_mcp_server.sandbox.serve import serving

Json = dict[str, Any]
USAGE = {"input_tokens": 1, "output_tokens": 1}


@dataclass
class ScriptedModel:
    """Calls the tool whose name ends in `tool`; `offered` are the matching names that it has seen."""

    tool: str
    offered: set[str] = field(default_factory=set[str])
    heard: list[str] = field(default_factory=list[str])

    @property
    def app(self) -> Starlette:
        """Return the application with the paths of the four APIs."""
        post = ["POST"]
        return Starlette(
            routes=[
                Route("/v1/messages", self.messages, methods=post),
                Route("/v1/responses", self.responses, methods=post),
                Route("/v1/chat/completions", self.chat, methods=post),
                Route("/v1beta/models/{call:path}", self.gemini, methods=post),
                Route("/{rest:path}", self.other, methods=["GET", "POST", "HEAD"]),
            ]
        )

    def served_at(self, origin: str) -> str:
        """Return the address unchanged."""
        return origin

    async def other(self, _: Request) -> Response:
        """Answer any other path."""
        return JSONResponse({})

    def _find(self, names: Iterator[str]) -> str | None:
        found = next((name for name in names if name.endswith(self.tool)), None)
        if found:
            self.offered.add(found)
        return found

    def _hear(self, result: object) -> str:
        said = _texts(result)
        self.heard.append(said)
        return said

    async def messages(self, request: Request) -> Response:
        """Answer as Anthropic's Messages API does."""
        asked: Json = await request.json()
        last = asked["messages"][-1]["content"]
        blocks = cast("list[Json]", last if isinstance(last, list) else [])
        results = [one for one in blocks if one.get("type") == "tool_result"]
        tool = self._find(one["name"] for one in asked.get("tools", []))
        block: Json = {"type": "text", "text": "Nothing to do."}
        if results:
            block = {"type": "text", "text": self._hear(results[0]["content"])}
        elif tool:
            block = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
        stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
        message: Json = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": asked["model"],
            "usage": USAGE,
        }
        if not asked.get("stream"):
            return JSONResponse({**message, "content": [block], "stop_reason": stop, "stop_sequence": None})
        if stop == "tool_use":
            delta: Json = {"type": "input_json_delta", "partial_json": "{}"}
            empty = block
        else:
            delta, empty = {"type": "text_delta", "text": block["text"]}, {"type": "text", "text": ""}
        return _events(
            (
                "message_start",
                {"message": {**message, "content": [], "stop_reason": None, "stop_sequence": None}},
            ),
            ("content_block_start", {"index": 0, "content_block": empty}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": USAGE}),
            ("message_stop", {}),
        )

    async def responses(self, request: Request) -> Response:
        """Answer as OpenAI's Responses API does; tools may be in a namespace."""
        asked: Json = await request.json()
        results = [one for one in asked["input"] if one.get("type") == "function_call_output"]
        spaces = {
            tool["name"]: one["name"] for one in asked.get("tools", []) for tool in one.get("tools", [])
        }
        plain = (one["name"] for one in asked.get("tools", []) if one.get("type") == "function")
        tool = self._find(iter([*plain, *spaces]))
        if tool and not results:
            item: Json = {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": tool,
                "arguments": "{}",
            }
            item |= {"namespace": spaces[tool]} if tool in spaces else {}
        else:
            text = self._hear(results[-1]["output"]) if results else "Nothing to do."
            said: Json = {"type": "output_text", "text": text, "annotations": []}
            item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [said]}
        response: Json = {
            "id": "resp_1",
            "object": "response",
            "output": [item],
            "usage": {**USAGE, "total_tokens": 2},
        }
        return _events(
            ("response.created", {"response": {**response, "status": "in_progress", "output": []}}),
            ("response.output_item.done", {"output_index": 0, "item": {**item, "status": "completed"}}),
            ("response.completed", {"response": {**response, "status": "completed"}}),
        )

    async def chat(self, request: Request) -> Response:
        """Answer as OpenAI's chat completions API does."""
        asked: Json = await request.json()
        last = asked["messages"][-1]
        tool = self._find(one["function"]["name"] for one in asked.get("tools", []))
        said: Json = {"role": "assistant", "content": "Nothing to do."}
        if last["role"] == "tool":
            said = {"role": "assistant", "content": self._hear(last["content"])}
        elif tool:
            call = {
                "index": 0,
                "id": "call_1",
                "type": "function",
                "function": {"name": tool, "arguments": "{}"},
            }
            said = {"role": "assistant", "tool_calls": [call]}
        head = {"id": "c_1", "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
        stop = "tool_calls" if "tool_calls" in said else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not asked.get("stream"):
            choice = {"index": 0, "message": said, "finish_reason": stop}
            return JSONResponse({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunks: list[Json] = [
            {**head, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage},
        ]
        lines = [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]
        return StreamingResponse(iter(lines), media_type="text/event-stream")

    async def gemini(self, request: Request) -> Response:
        """Answer as Gemini's generateContent does."""
        asked: Json = await request.json()
        parts = asked["contents"][-1]["parts"]
        results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
        declared = [one for group in asked.get("tools", []) for one in group.get("functionDeclarations", [])]
        tool = self._find(one["name"] for one in declared)
        part: Json = {"text": "Nothing to do."}
        if results:
            part = {"text": self._hear(results[0])}
        elif tool:
            part = {"functionCall": {"name": tool, "args": {}}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        answer = {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 2}}
        if request.path_params["call"].endswith("streamGenerateContent"):
            return StreamingResponse(
                iter([f"data: {json.dumps(answer)}\n\n"]), media_type="text/event-stream"
            )
        return JSONResponse(answer)


def _texts(result: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Join the texts in a tool's result, whatever its form."""
    if isinstance(result, list):
        return "\n".join(_texts(one) for one in cast("list[Any]", result))
    if isinstance(result, dict):
        held = cast("Json", result)
        return _texts(held.get("text") or held.get("output") or held.get("content") or json.dumps(held))
    return str(result)


def _events(*events: tuple[str, Json]) -> Response:
    lines = [f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events]
    return StreamingResponse(iter(lines), media_type="text/event-stream")


@asynccontextmanager
async def serving_model(tool: str) -> AsyncGenerator[tuple[ScriptedModel, str]]:
    """Serve a model; yields its address too."""
    model = ScriptedModel(tool)
    async with serving(model) as url:
        yield model, url
