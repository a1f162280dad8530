"""Lists servers, tools, resources and prompts; reads resources and fetches prompts."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import mcp_types as types

from nextcloud_mcp_server.bridge import output
from nextcloud_mcp_server.bridge.catalog import Catalog
from nextcloud_mcp_server.bridge.configuration import Configuration
from nextcloud_mcp_server.bridge.connection import Connection
from nextcloud_mcp_server.bridge.servers import SIGNS, Entry, Servers, State, opened_servers
from nextcloud_mcp_server.commands.console import result, result_json, say
from nextcloud_mcp_server.commands.mcp_client.session import (
    FAILED,
    WRONG_INPUT,
    Choice,
    connected,
    make_auth,
    make_handlers,
    make_questions,
    server_of,
)
from nextcloud_mcp_server.errors import InvalidInput, TransportFailed

_NONE = "No server is configured: docs/client.md shows how."


def print_table(header: Sequence[str], rows: list[list[str]]) -> None:
    """Print a table, as wide as the terminal at most; in a pipe lines are whole."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in output.table(header, rows, width=width):
        result(line)


async def list_servers(
    choice: Choice, configuration: Configuration, *, offline: bool, as_json: bool
) -> int | None:
    """Print every configured server with its state; 1 if one could not be connected."""
    async with opened_servers(configuration, lambda _: make_handlers(choice), make_auth) as servers:
        if configuration.options.auto_connect and not offline:
            await servers.connect_all()
        entries = list(servers.entries.values())
        if as_json:
            result_json([_facts(entry) for entry in entries], indent=2)
        elif entries:
            header = ("", "ID", "TRANSPORT", "STATE", "TOOLS", "VERSION", "ABOUT")
            print_table(header, [_row(entry) for entry in entries])
        elif not configuration.faults:
            say("All servers are off." if configuration.off else _NONE)
        failed = any(entry.state is State.FAILED for entry in entries)
        return FAILED if failed else _nothing_usable(configuration)


def _nothing_usable(configuration: Configuration) -> int | None:
    """Return the code for a configuration of which only faults are left; a file that waits for approval is none."""
    waiting = {file.path for file in configuration.unapproved}
    is_wrong = any(fault.path not in waiting for fault in configuration.faults)
    return WRONG_INPUT if is_wrong and not configuration.servers else None


def _row(entry: Entry) -> list[str]:
    connection = entry.connection
    info = None if connection is None else connection.server_info
    about = entry.reason or ("" if info is None else f"{info.title or info.name} {info.version}")
    version = "" if connection is None else connection.protocol_version
    tools = str(len(entry.tools)) if connection is not None else ""
    return [SIGNS[entry.state], entry.server.id, entry.server.transport, entry.state, tools, version, about]


def _facts(entry: Entry) -> dict[str, object]:
    connection = entry.connection
    facts: dict[str, object] = {
        "id": entry.server.id,
        "transport": entry.server.transport,
        "state": entry.state.value,
    }
    if entry.reason:
        facts["reason"] = entry.reason
    if connection is not None:
        facts |= {
            "toolCount": len(entry.tools),
            "protocolVersion": connection.protocol_version,
            "capabilities": output.as_json(connection.capabilities),
        }
        if connection.server_info is not None:
            facts["serverInfo"] = output.as_json(connection.server_info)
    return facts


async def list_tools(
    choice: Choice, configuration: Configuration, name: str | None, *, as_json: bool
) -> int | None:
    """Print the tools of one server, or of all."""
    if name is not None:
        server = server_of(configuration, name)
        if not server.tools_enabled:
            raise TransportFailed(f'"tools_enabled" is false for the server "{name}".')
        configuration = Configuration(servers=(server,))
    async with opened_servers(configuration, lambda _: make_handlers(choice), make_auth) as servers:
        if name is not None:
            await servers.connected(next(iter(servers.entries)))
        else:
            await servers.connect_all()
        _print_tools(servers, as_json=as_json)
        failed = [entry for entry in servers.entries.values() if entry.state is State.FAILED]
        for entry in failed:
            say(f"Note: left out: {entry.reason}")
        return FAILED if failed else _nothing_usable(configuration)


def _print_tools(servers: Servers, *, as_json: bool) -> None:
    found = list(servers.names_of_tools())
    if as_json:
        result_json(
            [
                {"server": entry.server.id, "registryName": name, **output.as_json(tool)}
                for entry, tool, name in found
            ],
            indent=2,
        )
        return
    rows = [
        [entry.server.id, name, output.task_support(tool), first_line(tool.description or tool.title)]
        for entry, tool, name in found
    ]
    print_table(("SERVER", "NAME", "TASKS", "DESCRIPTION"), rows)


def first_line(text: str | None) -> str:
    """Return the first line of a description."""
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")


async def list_resources(choice: Choice, configuration: Configuration, name: str, *, as_json: bool) -> None:
    """Print the resources and the templates of a server."""
    async with connected(choice, server_of(configuration, name)) as connection:
        _require(connection, "resources")
        catalog = Catalog()
        resources = await catalog.resources(connection)
        templates = await catalog.templates(connection)
        if as_json:
            result_json(
                {
                    "resources": [output.as_json(one) for one in resources],
                    "resourceTemplates": [output.as_json(one) for one in templates],
                },
                indent=2,
            )
            return
        rows = [
            [one.uri, one.name, one.mime_type or "", first_line(one.title or one.description)]
            for one in resources
        ] + [
            [one.uri_template, one.name, one.mime_type or "", first_line(one.title or one.description)]
            for one in templates
        ]
        print_table(("URI", "NAME", "TYPE", "DESCRIPTION"), rows)


async def read_resource(
    choice: Choice,
    configuration: Configuration,
    name: str,
    resource: str,
    values: Sequence[str],
    *,
    into: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Print a resource, or write it into a file."""
    server = server_of(configuration, name)
    questions = make_questions(configuration, server, yes=yes)
    async with connected(choice, server, questions) as connection:
        _require(connection, "resources")
        uri = await Catalog().uri(connection, resource, values)
        contents = (await questions.with_pages(lambda: connection.read_resource(uri))).contents
    if as_json:
        result_json([output.as_json(one) for one in contents], indent=2)
    elif into is not None:
        await _write(into, contents)
    else:
        for one in contents:
            # A terminal has no use for base64; a program that reads the output has.
            text = output.resource_text(one, whole=not sys.stdout.isatty())
            result(output.safe(output.shortened(text, configuration.max_output_tokens)))


async def _write(
    path: Path, contents: Sequence[types.TextResourceContents | types.BlobResourceContents]
) -> None:
    if len(contents) != 1:
        raise InvalidInput(f"The resource has {len(contents)} parts, and one file holds one: use --json.")
    try:
        data = output.resource_bytes(contents[0])
        # Never over something: a server chooses the content, and the shell completes the name.
        async with await anyio.open_file(path, "xb") as file:
            await file.write(data)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{path} cannot be written: {reason}.") from error
    say(f"{len(data)} bytes are in {path}.")


async def list_prompts(choice: Choice, configuration: Configuration, name: str, *, as_json: bool) -> None:
    """Print the prompts of a server."""
    async with connected(choice, server_of(configuration, name)) as connection:
        _require(connection, "prompts")
        prompts = await connection.list_prompts()
    if as_json:
        result_json([output.as_json(one) for one in prompts], indent=2)
        return
    rows = [
        [
            one.name,
            " ".join(given.name if given.required else f"[{given.name}]" for given in one.arguments or ()),
            first_line(one.title or one.description),
        ]
        for one in prompts
    ]
    print_table(("NAME", "ARGUMENTS", "DESCRIPTION"), rows)


async def get_prompt(
    choice: Choice,
    configuration: Configuration,
    name: str,
    prompt: str,
    arguments: dict[str, str],
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Print the messages of a prompt."""
    server = server_of(configuration, name)
    questions = make_questions(configuration, server, yes=yes)
    async with connected(choice, server, questions) as connection:
        _require(connection, "prompts")
        found = await questions.with_pages(lambda: connection.get_prompt(prompt, arguments))
    if as_json:
        result_json(output.as_json(found), indent=2)
    else:
        result(output.safe(output.prompt_text(found)))


def _require(connection: Connection, what: str) -> None:
    """Refuse what the server does not offer, or the configuration turns off.

    Raises:
        TransportFailed: One of both.
    """
    server = connection.server
    if not getattr(server, f"{what}_enabled"):
        raise TransportFailed(f'"{what}_enabled" is false for the server "{server.id}".')
    if getattr(connection.capabilities, what) is None:
        raise TransportFailed(f'The server "{server.id}" has no {what}.')
