"""The tools and the prompt with which the runner tries `input_required` results (2026-07-28, SEP-2322)."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from mcp.server.mcpserver import Context
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

Ctx = Context[Any, Any]
Answer = list[TextContent] | InputRequiredResult


def _said(text: str) -> list[TextContent]:
    return [TextContent(type="text", text=text)]


def form(message: str, name: str, type_: str = "string") -> InputRequest:
    """Ask the user for one value."""
    schema = {"type": "object", "properties": {name: {"type": type_}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _model(text: str) -> InputRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def field(responses: Mapping[str, Any] | None, key: str, name: str) -> str | None:
    """Read one value of a form that came back; None where it did not."""
    answer = (responses or {}).get(key)
    if not isinstance(answer, ElicitResult) or answer.content is None:
        return None
    value = answer.content.get(name)
    return None if value is None else str(value)


async def test_input_required_result_elicitation(ctx: Ctx) -> Answer:
    """Ask for a name."""
    name = field(ctx.input_responses, "user_name", "name")
    if name is not None:
        return _said(f"Hello, {name}!")
    return InputRequiredResult(input_requests={"user_name": form("What is your name?", "name")})


async def test_input_required_result_sampling(ctx: Ctx) -> Answer:
    """Ask the client's model."""
    answer = (ctx.input_responses or {}).get("capital_question")
    if answer is not None:
        return _said(str(getattr(getattr(answer, "content", None), "text", "")))
    return InputRequiredResult(input_requests={"capital_question": _model("What is the capital of France?")})


async def test_input_required_result_list_roots(ctx: Ctx) -> Answer:
    """Ask for the client's roots."""
    answer = (ctx.input_responses or {}).get("client_roots")
    if isinstance(answer, ListRootsResult):
        return _said(", ".join(str(root.uri) for root in answer.roots))
    return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})


async def test_input_required_result_request_state(ctx: Ctx) -> Answer:
    """See that the state comes back."""
    if ctx.request_state == "asked" and "confirm" in (ctx.input_responses or {}):
        return _said("state-ok")
    question = form("Please confirm", "ok", "boolean")
    return InputRequiredResult(input_requests={"confirm": question}, request_state="asked")


async def test_input_required_result_multiple_inputs(ctx: Ctx) -> Answer:
    """Ask for three things at once."""
    requests: dict[str, InputRequest] = {
        "user_name": form("What is your name?", "name"),
        "greeting": _model("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    }
    if requests.keys() <= (ctx.input_responses or {}).keys():
        return _said("All three came.")
    return InputRequiredResult(input_requests=requests, request_state="asked")


async def test_input_required_result_multi_round(ctx: Ctx) -> Answer:
    """Ask in two rounds; the state carries the first answer."""
    state: dict[str, Any] = json.loads(ctx.request_state or "{}")
    name = state.get("name") or field(ctx.input_responses, "step1", "name")
    if name is None:
        step1 = form("Step 1: What is your name?", "name")
        return InputRequiredResult(input_requests={"step1": step1}, request_state="{}")
    color = field(ctx.input_responses, "step2", "color")
    if color is None:
        step2 = form("Step 2: What is your favorite color?", "color")
        return InputRequiredResult(input_requests={"step2": step2}, request_state=json.dumps({"name": name}))
    return _said(f"{name} likes {color}.")


async def test_input_required_result_tampered_state(ctx: Ctx) -> Answer:
    """Leave it to the server to find out that a state is not its own."""
    if ctx.request_state is not None:
        return _said("state-ok")
    question = form("Please confirm", "ok", "boolean")
    return InputRequiredResult(input_requests={"confirm": question}, request_state="asked")


async def test_input_required_result_capabilities(ctx: Ctx) -> Answer:
    """Ask only for what the client can do."""
    able = ctx.client_capabilities
    requests: dict[str, InputRequest] = {}
    if able is not None and able.sampling is not None:
        requests["sample"] = _model("Say hello")
    if able is not None and able.elicitation is not None:
        requests["ask"] = form("What is your name?", "name")
    return InputRequiredResult(input_requests=requests, request_state="asked")


QUESTIONS: tuple[Callable[..., Any], ...] = (
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_tampered_state,
    test_input_required_result_capabilities,
)
