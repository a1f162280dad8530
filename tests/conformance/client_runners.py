"""Drives third-party clients: by a script in the client's environment, or by one command per action."""

import json
import os
import re
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.conformance.client_install import FOREIGN, node_clients, python_of
from tests.conformance.third_party_clients import Foreign
from tests.integration.personal_app import link_in
from tests.integration.stdio_app import LONGEST_LINE
from tests.node import NODE_MODULES

INSPECTOR = NODE_MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "cli" / "build" / "index.js"
SECONDS = 120


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client makes of a response of the server; `url` where an error has it in its data."""

    text: str = ""
    error: bool = False
    code: int | None = None
    url: str | None = None
    names: tuple[str, ...] = ()

    @property
    def link(self) -> str:
        """Return the link to the consent page, which is always on a line of its own in the text."""
        assert self.error, self.text
        found = link_in(self.text)
        assert self.url in (None, found), self.text
        return found


@dataclass(frozen=True, slots=True)
class Server:
    """The place of the server: a URL with headers, or a command with its environment."""

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    def plan(self) -> dict[str, Any]:
        """Return it in the form that the scripts read."""
        return {
            "server": list(self.command) or self.url,
            "headers": dict(self.headers),
            "env": dict(self.env),
        }


class Player(Protocol):
    """A client that tests can control."""

    transcript: list[str]

    async def order(self, do: str, **what: object) -> Answer:
        """Let it perform one action; see `foreign/lines.py`."""
        ...


class Scripted:
    """A script that keeps its client for all actions."""

    def __init__(self, process: Process, shows: Callable[[str], None]) -> None:
        assert process.stdout is not None
        self._process = process
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._shows = shows
        self.transcript: list[str] = []

    async def order(self, do: str, **what: object) -> Answer:
        assert self._process.stdin is not None
        sent = json.dumps({"do": do, **what})
        self.transcript.append(f"> {sent}")
        with anyio.fail_after(SECONDS):
            await self._process.stdin.send(sent.encode() + b"\n")
            while True:
                said = json.loads(await self._lines.receive_until(b"\n", LONGEST_LINE))
                event = said.pop("event")
                self.transcript.append(f"< {event} {_short(said)}")
                if event == "asked":
                    self._shows(said["url"])
                if event == "answer":
                    return _answer(said)


class Commands:
    """A client that runs one command per action, as a user types it."""

    def __init__(
        self, words: Callable[..., list[str]], read: Callable[[str, str, int], Answer], home: Path
    ) -> None:
        self._words = words
        self._read = read
        self._home = home
        self.transcript: list[str] = []

    async def order(self, do: str, **what: object) -> Answer:
        command = self._words(do, **what)
        self.transcript.append(f"> {' '.join(command[2:])[:300]}")
        own = {"HOME": str(self._home), "USERPROFILE": str(self._home), "MCP_INSPECTOR_SECRET_STORE": "file"}
        with anyio.fail_after(SECONDS):
            done = await anyio.run_process(
                command, stdin=subprocess.DEVNULL, check=False, cwd=self._home, env={**_plain(), **own}
            )
        said = done.stdout.decode() or done.stderr.decode()
        answer = self._read(do, said, done.returncode)
        self.transcript.append(
            f"< exit {done.returncode} {_short({'text': answer.text, 'names': answer.names})}"
        )
        return answer


def _answer(said: Mapping[str, Any]) -> Answer:
    return Answer(
        text=said.get("text", ""),
        error=said.get("error", False),
        code=said.get("code"),
        url=said.get("url"),
        names=tuple(said.get("names", ())),
    )


def _short(said: Mapping[str, Any]) -> str:
    names = said.get("names")
    shown = {**said, "names": f"{len(names)} tools"} if names else dict(said)
    written = json.dumps(shown, ensure_ascii=False)
    return written if len(written) < 700 else f"{written[:700]} …"


def _plain() -> dict[str, str]:
    """Return the environment without this project's modules, which would shadow a client's `mcp`."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@asynccontextmanager
async def playing(
    client: Foreign, server: Server, home: Path, shows: Callable[[str], None]
) -> AsyncGenerator[Player]:
    """Start a client; `shows` is called with each page that it opens."""
    if client.name == "mcporter":
        yield _mcporter(server, home)
    elif client.name == "Inspector --cli":
        yield _inspector(server, home)
    else:
        command = _script(client, server)
        log = home / "client.log"
        with log.open("wb") as written:
            async with await anyio.open_process(command, env=_plain(), cwd=home, stderr=written) as process:
                try:
                    yield Scripted(process, shows)
                except anyio.IncompleteRead:
                    raise AssertionError(log.read_text(errors="replace")[-2000:]) from None
                finally:
                    if process.stdin is not None:
                        await process.stdin.aclose()
                    with anyio.move_on_after(10):
                        await process.wait()
                    if process.returncode is None:
                        process.kill()


def _script(client: Foreign, server: Server) -> list[str]:
    if client.name == "mcp-remote":
        node, folder = node_clients()
        proxy = str(folder / "node_modules" / "mcp-remote" / "dist" / "proxy.js")
        headers = [word for name, value in server.headers.items() for word in ("--header", f"{name}:{value}")]
        behind = Server(command=(node, proxy, server.url, *headers), env=_plain())
        return [str(python_of("sdk_1")), str(FOREIGN / "play_sdk_1.py"), json.dumps(behind.plan())]
    assert client.script
    if client.requirements is not None:
        return [str(python_of(client.requirements)), str(FOREIGN / client.script), json.dumps(server.plan())]
    node, folder = node_clients()
    return [node, str(folder / client.script), json.dumps(server.plan())]


def _mcporter(server: Server, home: Path) -> Commands:
    node, folder = node_clients()
    entry: dict[str, Any] = {"url": server.url, "headers": dict(server.headers)}
    if server.command:
        entry = {"command": server.command[0], "args": list(server.command[1:]), "env": dict(server.env)}
    config = home / "mcporter.json"
    config.write_text(json.dumps({"mcpServers": {"nextcloud": entry}, "imports": []}))
    start = [node, str(folder / "node_modules" / "mcporter" / "dist" / "cli.js"), "--config", str(config)]

    def words(do: str, **what: Any) -> list[str]:  # noqa: ANN401 - what an order has
        if do == "tools":
            return [*start, "list", "nextcloud", "--json"]
        if do == "read":
            return [*start, "resource", "nextcloud", what["uri"], "--output", "text"]
        given = json.dumps(what["arguments"])
        return [*start, "call", f"nextcloud.{what['tool']}", "--args", given, "--output", "text"]

    return Commands(words, _printed_text, home)


def _inspector(server: Server, home: Path) -> Commands:
    node, _ = node_clients()
    start = [node, str(INSPECTOR), "--format", "json", "--quiet"]
    if server.command:
        # The client refuses an empty value, such as that of MFLAGS under `make`.
        variables = [
            word for name, value in server.env.items() if value for word in ("-e", f"{name}={value}")
        ]
        target = [*variables, "--", *server.command]
    else:
        headers = [
            word for name, value in server.headers.items() for word in ("--header", f"{name}: {value}")
        ]
        target = ["--transport", "http", "--server-url", server.url, *headers]

    def words(do: str, **what: Any) -> list[str]:  # noqa: ANN401 - what an order has
        method = {
            "tools": "tools/list",
            "call": "tools/call",
            "read": "resources/read",
            "prompt": "prompts/get",
        }[do]
        more: list[str] = []
        if do == "call":
            more = ["--tool-name", what["tool"], "--tool-args-json", json.dumps(what["arguments"])]
        elif do == "read":
            more = ["--uri", what["uri"]]
        elif do == "prompt":
            pairs = [f"{name}={value}" for name, value in what["arguments"].items()]
            more = ["--prompt-name", what["name"], "--prompt-args", *pairs]
        return [*start, "--method", method, *more, *target]

    return Commands(words, _printed_json, home)


def _printed_text(do: str, said: str, code: int) -> Answer:
    """Parse the output of mcporter: a list in JSON, and the text of everything else."""
    if do == "tools":
        return Answer(names=_names(json.loads(said)))
    return Answer(text=said, error=code != 0)


def _printed_json(do: str, said: str, code: int) -> Answer:
    """Parse the output of Inspector: one MCP result in an envelope, or an error."""
    found: dict[str, Any] = json.loads(said)
    if "result" not in found:
        return Answer(text=said, error=True)
    if do == "tools":
        return Answer(names=_names(found["result"]))
    texts = re.findall(r'"text": ("(?:[^"\\]|\\.)*")', json.dumps(found["result"]))
    text = "\n".join(json.loads(one) for one in texts)
    return Answer(text=text, error=bool(code or found["result"].get("isError")))


def _names(listed: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(tool["name"] for tool in listed["tools"])
