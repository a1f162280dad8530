"""Servers that were not written here, over each of the three transports."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.conformance.client_install import FOREIGN, python_of
from tests.node import NODE_MODULES, find_node, not_installed

Transport = Literal["stdio", "http", "sse"]
TRANSPORTS: tuple[Transport, ...] = ("stdio", "http", "sse")
_EVERYTHING = NODE_MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
_START_SECONDS = 120
_PATHS = {"http": "/mcp", "sse": "/sse"}


@dataclass(frozen=True)
class Foreign:
    """One server: how it is started, and what it answers."""

    #: Returns the command for a transport and a port.
    command: Callable[[Transport, int], list[str]]
    #: A tool with arguments, and the text of its result.
    call: tuple[str, Mapping[str, Any], str]
    #: A tool that reports progress so many times.
    slow: tuple[str, Mapping[str, Any], int]
    #: A tool that asks for a form, what the user fills in, and a part of the result.
    form: tuple[str, Mapping[str, Any], str]
    #: A tool that fails, and a part of what it says.
    failing: tuple[str, Mapping[str, Any], str]
    #: The URI of a resource, and a part of its text.
    resource: tuple[str, str]
    #: A prompt with arguments, and a part of its text.
    prompt: tuple[str, Mapping[str, str], str]


def _everything(transport: Transport, port: int) -> list[str]:
    del port
    if not _EVERYTHING.is_file():
        not_installed("@modelcontextprotocol/server-everything")
    return [find_node(), str(_EVERYTHING), "streamableHttp" if transport == "http" else transport]


def _sdk_1(transport: Transport, port: int) -> list[str]:
    return [str(python_of("sdk_1")), str(FOREIGN / "server_sdk_1.py"), transport, str(port)]


SERVERS: dict[str, Foreign] = {
    # npm's reference server, made with the TypeScript SDK.
    "everything": Foreign(
        _everything,
        call=("get-sum", {"a": 2, "b": 3}, "The sum of 2 and 3 is 5."),
        slow=("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, 3),
        form=("trigger-elicitation-request", {"name": "Ada"}, "Name: Ada"),
        failing=("get-resource-reference", {"resourceType": "Text", "resourceId": -1}, "resourceId"),
        resource=("demo://resource/dynamic/text/1", "Resource 1"),
        prompt=("args-prompt", {"city": "Oslo"}, "Oslo"),
    ),
    # Made with the Python SDK that most servers use, in an environment of its own.
    "python-sdk": Foreign(
        _sdk_1,
        call=("times", {"count": 2, "of": "tea"}, "tea tea"),
        slow=("bake", {"minutes": 3}, 3),
        form=("table", {"number": 7}, "accept: 7"),
        failing=("burn", {}, "It is burnt."),
        resource=("recipe://soup", "How to cook soup"),
        prompt=("suggest", {"dish": "soup"}, "Suggest a wine for soup."),
    ),
}


@contextmanager
def configured(name: str, transport: Transport, folder: Path) -> Generator[Path]:
    """Write a configuration with one of the servers, which is started unless the client starts it."""
    file, table = folder / "settings.toml", f"[mcp_servers.{name}]\n"
    rules = f'[mcp_servers.{name}.permissions]\nallow = ["*", "Elicit({name})"]\n'
    if transport == "stdio":
        program, *arguments = SERVERS[name].command(transport, 0)
        entry = f"command = {json.dumps(program)}\nargs = {json.dumps(arguments)}\n"
        file.write_text(f"{table}{entry}{rules}", encoding="utf-8")
        yield file
        return
    with _served(name, transport, folder) as url:
        entry = f'type = "{transport}"\nurl = "{url}"\n'
        file.write_text(f"{table}{entry}{rules}", encoding="utf-8")
        yield file


@contextmanager
def _served(name: str, transport: Transport, folder: Path) -> Generator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = SERVERS[name].command(transport, port)
    # One takes its port as an argument, the other one as a variable.
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PORT": str(port)}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment
        )
    try:
        _wait_for(port, process)
        yield f"http://127.0.0.1:{port}{_PATHS[transport]}"
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    ends_at = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < ends_at:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"The server does not listen; exit code {process.poll()}.")
