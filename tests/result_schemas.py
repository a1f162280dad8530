"""Checks every tool result in a test against the tool's output schema with OUTPUT_SCHEMAS=true."""

from functools import cache
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator
from mcp_types import CallToolResult

from nextcloud_mcp_server.tools import output_schema
from nextcloud_mcp_server.tools.boundary import GuardedTool
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import ToolSpec

_RUN: Final = GuardedTool.run


@cache
def _validator(result_type: Any) -> Any:  # noqa: ANN401 - a model or a union; the library says nothing of its types
    return Draft202012Validator(output_schema.of(result_type))


def assert_result_meets(spec: ToolSpec, result: Result) -> None:
    """Fail where a strict client would refuse the result of a tool's body in the form in which it is sent."""
    _validator(spec.result_type).validate(result.model_dump(mode="json", exclude_none=True))


async def _run_and_check(tool: GuardedTool, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as the SDK has it
    answer = await _RUN(tool, *given, **named)
    if isinstance(answer, CallToolResult) and not answer.is_error:
        _validator(tool.spec.result_type).validate(answer.structured_content)
    return answer


def check_every_call(patch: pytest.MonkeyPatch) -> None:
    """Check the response of each server in this process to a tool call; tools are unchanged."""
    patch.setattr(GuardedTool, "run", _run_and_check)
