"""Calls tools, after the permissions and the user have agreed; pings servers and explains permissions."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import anyio
import anyio.to_thread
import mcp_types as types

from nextcloud_mcp_server.bridge import naming, output
from nextcloud_mcp_server.bridge.configuration import Configuration, Server
from nextcloud_mcp_server.bridge.connection import Connection
from nextcloud_mcp_server.bridge.permissions import (
    Decision,
    decide,
    decide_elicitation,
    refuse_denied,
    refuse_unattended,
    should_auto_approve,
)
from nextcloud_mcp_server.bridge.servers import Entry, find_tool, listed_tools
from nextcloud_mcp_server.bridge.task_client import Detached, TaskClient
from nextcloud_mcp_server.bridge.tasks import Form
from nextcloud_mcp_server.commands.console import result, result_json, say
from nextcloud_mcp_server.commands.mcp_client.listing import print_table
from nextcloud_mcp_server.commands.mcp_client.questions import read_terminal_line
from nextcloud_mcp_server.commands.mcp_client.session import (
    SERVER_REFUSED,
    Choice,
    connected,
    make_questions,
    server_of,
)
from nextcloud_mcp_server.commands.mcp_client.task_output import print_task, task_reporter
from nextcloud_mcp_server.errors import CallNotAllowed, InvalidInput
from nextcloud_mcp_server.logs import one_line

_LONGEST_SHOWN: Final = 500
_SCALARS: Final = frozenset({"integer", "number", "boolean", "array", "object", "null"})


def split_target(configuration: Configuration, server: str, name: str | None) -> tuple[str, str]:
    """Return server and tool from two words, or from one `<server>__<tool>`.

    Raises:
        InvalidInput: There is one word, and it names no server.
    """
    if name is not None:
        return server, name
    found = naming.split("name", server.removeprefix("mcp__"))
    if found and configuration.server(found[0]) is not None:
        return found
    only = [one.id for one in configuration.servers if not one.disabled]
    if len(only) == 1:
        return only[0], server
    raise InvalidInput(
        f"Which server has the tool {server}? Write SERVER TOOL, or SERVER{naming.SEPARATOR}TOOL."
    )


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of a call."""

    #: All arguments, where they are given as a whole.
    arguments: str | None = None
    yes: bool = False
    seconds: float | None = None
    as_json: bool = False
    as_task: bool = False
    #: Whether the result is waited for if the call becomes a task.
    waits: bool = True
    ttl_seconds: float | None = None


async def call_tool(
    choice: Choice,
    configuration: Configuration,
    name: str,
    tool_name: str | None,
    words: Sequence[str],
    *,
    wishes: Wishes,
) -> int | None:
    """Call a tool and print its result; 3 if the tool says that it failed."""
    name, tool_name = split_target(configuration, name, tool_name)
    server = server_of(configuration, name)
    if not server.tools_enabled:
        raise CallNotAllowed(f'"tools_enabled" is false for the server "{name}".')
    decision = decide(configuration, server, tool_name)
    # What cannot be called anyway must not start a server.
    refuse_denied(decision)
    given = await _whole_arguments(wishes.arguments)
    questions = make_questions(configuration, server, yes=wishes.yes)
    tasks = TaskClient(task_reporter(), waits=wishes.waits, seconds=wishes.seconds)
    async with connected(choice, server, questions, tasks) as connection:
        tool = find_tool(Entry(server, tools=await listed_tools(connection)), tool_name)
        values = given | typed_arguments(tool, words)
        as_task = _runs_as_task(tool, tasks, wishes)
        await _agree(decision, server, tool_name, values, yes=wishes.yes)

        async def call() -> types.CallToolResult:
            if as_task:
                return await tasks.call(tool_name, values, wishes.ttl_seconds)
            return await connection.call_tool(
                tool_name, values, progress=_progress, timeout_seconds=wishes.seconds
            )

        try:
            found = await questions.with_pages(call)
        except Detached as detached:
            print_task(detached.task, as_json=wishes.as_json)
            return None
    return print_result(found, configuration, as_json=wishes.as_json)


def print_result(found: types.CallToolResult, configuration: Configuration, *, as_json: bool) -> int | None:
    """Print the result of a call; return 3 if the tool says that it failed."""
    if as_json:
        result_json(output.as_json(found), indent=2)
    else:
        result(output.safe(output.shortened(output.call_text(found), configuration.max_output_tokens)))
    return SERVER_REFUSED if found.is_error else None


def _runs_as_task(tool: types.Tool, tasks: TaskClient, wishes: Wishes) -> bool:
    """Return whether a tool is called as a task of 2025-11-25; in 2026-07-28 the server alone decides.

    Raises:
        InvalidInput: The user wants it, and the server or the tool does not do it.
    """
    wanted = wishes.as_task or not wishes.waits
    if tasks.form is Form.EXTENSION:
        if wanted and not tasks.offers("requests.tools.call"):
            raise InvalidInput("This server has no tasks.")
        return False
    support = output.task_support(tool).lower()
    if not tasks.offers("requests.tools.call"):
        # Not even a tool that requires it may be called as one.
        support = "forbidden"
    if wanted and support == "forbidden":
        raise InvalidInput(f'The tool "{one_line(tool.name)}" does not run as a task.')
    return wanted or support == "required"


async def _whole_arguments(text: str | None) -> dict[str, Any]:
    """Read all arguments as one JSON object: as it is, from a file after @, or from stdin for -."""
    if text is None:
        return {}
    try:
        if text == "-":
            text = await anyio.to_thread.run_sync(sys.stdin.read)
        elif text.startswith("@"):
            text = await anyio.Path(text[1:]).read_text(encoding="utf-8")
        value: object = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise InvalidInput(f"The arguments cannot be read: {reason}.") from error
    if not isinstance(value, dict):
        raise InvalidInput('The arguments must be one JSON object, such as {"query": "tea"}.')
    return cast("dict[str, Any]", value)


def typed_arguments(tool: types.Tool, words: Sequence[str]) -> dict[str, Any]:
    """Read arguments `name=value` by the schema of the tool: text stays text, all else is JSON.

    Raises:
        InvalidInput: One is no argument, or has a value that its type does not have.
    """
    properties = cast("Mapping[str, object]", tool.input_schema.get("properties", {}))
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise InvalidInput(f'"{one_line(word)}" is no argument: write name=value.')
        wanted = _types(properties.get(name))
        values[name] = _typed(name, text, wanted)
    return values


def _types(schema: object) -> frozenset[str]:
    """Return the JSON types that a schema names; empty if it names none."""
    if not isinstance(schema, dict):
        return frozenset()
    known = cast("dict[str, Any]", schema)
    kind = known.get("type", [])
    found = {kind} if isinstance(kind, str) else {str(one) for one in kind}
    for key in ("anyOf", "oneOf"):
        for one in known.get(key, []):
            found |= _types(one)
    return frozenset(found)


def _typed(name: str, text: str, wanted: frozenset[str]) -> Any:  # noqa: ANN401 - any JSON
    if "string" in wanted or (not wanted & _SCALARS and not text.startswith(("{", "["))):
        # A text may also look like a number, or be null.
        return None if text == "null" and "null" in wanted else text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput(
            f'"{name}" takes JSON ({", ".join(sorted(wanted)) or "any"}), not this text.'
        ) from None


async def _agree(
    decision: Decision, server: Server, tool: str, arguments: Mapping[str, Any], *, yes: bool
) -> None:
    """Ask the user where the permissions say so.

    Raises:
        CallNotAllowed: The user said no, or cannot be asked.
    """
    if should_auto_approve(decision, yes=yes):
        return
    shown = one_line(json.dumps(arguments, ensure_ascii=False))
    if len(shown) > _LONGEST_SHOWN:
        shown = f"{shown[:_LONGEST_SHOWN]}…"
    answer = await read_terminal_line(f"MCP tool call: {server.id}/{tool} with args: {shown}. Allow? [y/N] ")
    if answer is None:
        refuse_unattended(decision)
    elif answer.strip().lower() not in {"y", "yes"}:
        raise CallNotAllowed(f"User rejected MCP tool call: {naming.join(server.id, 'name', tool)}")


async def _progress(progress: float, total: float | None, message: str | None) -> None:
    """Print the progress of a call for a user who watches."""
    if sys.stderr.isatty():
        of = f"/{total:g}" if total else ""
        say(f"  {progress:g}{of}{f' {one_line(message)}' if message else ''}")


async def ping(choice: Choice, configuration: Configuration, name: str, *, as_json: bool) -> None:
    """Print how long a server takes to answer, without the start."""
    async with connected(choice, server_of(configuration, name)) as connection:
        milliseconds = await timed_ping(connection)
    if as_json:
        result_json({"server": name, "ms": round(milliseconds, 2)})
    else:
        result(f"Ping {name}: {milliseconds:.0f}ms")


async def timed_ping(connection: Connection) -> float:
    """Return the milliseconds of a round trip."""
    started = time.perf_counter()
    await connection.ping()
    return (time.perf_counter() - started) * 1000


async def explain_permissions(
    choice: Choice, configuration: Configuration, name: str, tool: str | None, *, as_json: bool
) -> None:
    """Print the decision on one tool, or on all tools of a server, and the rule behind it."""
    server = server_of(configuration, name)
    if tool is not None:
        decisions = [decide(configuration, server, tool)]
    else:
        async with connected(choice, server) as connection:
            tools = await listed_tools(connection)
        decisions = [decide(configuration, server, one.name) for one in tools]
        decisions.append(decide_elicitation(configuration, server))
    if as_json:
        result_json(
            [
                {"subject": one.subject, "verdict": one.verdict, "place": one.place, "pattern": one.pattern}
                for one in decisions
            ],
            indent=2,
        )
    elif tool is not None:
        result(str(decisions[0]))
    else:
        rows = [[one.subject, one.verdict, one.place, one.pattern] for one in decisions]
        print_table(("TOOL", "VERDICT", "FROM", "RULE"), rows)
