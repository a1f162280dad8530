"""What every command of `client` shares: the configuration, the connection, and exit codes that say what happened."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import httpx2
import typer
from mcp import MCPError
from platformdirs import user_config_path
from pydantic import ValidationError

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.bridge.browser import Browser, default_launch
from nextcloud_mcp_server.bridge.configuration import Configuration, Paths, Server, load
from nextcloud_mcp_server.bridge.configuration_values import first_fault, suggestion
from nextcloud_mcp_server.bridge.connection import Connection, connect
from nextcloud_mcp_server.bridge.connection_faults import from_group, sentence_of
from nextcloud_mcp_server.bridge.link import Handlers
from nextcloud_mcp_server.bridge.oauth.http_auth import http_auth
from nextcloud_mcp_server.bridge.oauth.store import open_store
from nextcloud_mcp_server.bridge.permissions import decide_elicitation
from nextcloud_mcp_server.bridge.task_client import TaskClient
from nextcloud_mcp_server.commands.console import say
from nextcloud_mcp_server.commands.mcp_client.questions import Questions, read_terminal_line
from nextcloud_mcp_server.commands.mcp_client.signals import until_told_to_end
from nextcloud_mcp_server.commands.mcp_client.trusting import asked_about, open_approvals, refuse_unapproved
from nextcloud_mcp_server.errors import (
    AnswerLate,
    AuthorizationFailed,
    CallNotAllowed,
    ConfigurationError,
    InvalidInput,
    NextcloudMcpError,
    ServerUnknown,
    TaskFailed,
    ToolUnknown,
    TransportFailed,
)
from nextcloud_mcp_server.settings.environment import process_variables

FAILED: Final = 1
WRONG_INPUT: Final = 2
SERVER_REFUSED: Final = 3
NOT_ALLOWED: Final = 4
NOT_AUTHORIZED: Final = 5
TOO_LATE: Final = 6
#: The first that fits, since some are kinds of others.
_CODES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (ConfigurationError, WRONG_INPUT),
    (InvalidInput, WRONG_INPUT),
    (ServerUnknown, WRONG_INPUT),
    (ToolUnknown, WRONG_INPUT),
    (AuthorizationFailed, NOT_AUTHORIZED),
    (CallNotAllowed, NOT_ALLOWED),
    (AnswerLate, TOO_LATE),
    (TaskFailed, SERVER_REFUSED),
    (NextcloudMcpError, FAILED),
    (MCPError, SERVER_REFUSED),
)
_PROGRAM: Final = "nextcloud-mcp-server"
#: A server that was given as an address has this name.
AD_HOC: Final = "remote"


@dataclass(frozen=True, slots=True)
class Choice:
    """The options before the command."""

    files: tuple[Path, ...] = ()
    no_mcp: bool = False
    debug: bool = False

    @property
    def paths(self) -> Paths:
        """Where the configuration is."""
        return Paths(Path.cwd(), user_config_path(_PROGRAM, appauthor=False), self.files)

    def configuration(self, *, quiet: bool = False, ask: bool = False) -> Configuration:
        """Read the configuration, and print what was left out of it; `ask` lets it ask about a project's file, once.

        Raises:
            ConfigurationError: An answer cannot be kept.
        """
        paths, approvals = self.paths, open_approvals()
        found = load(paths, process_variables(), off=self.no_mcp, answer=approvals.answer)
        if ask and asked_about(found.unapproved, approvals):
            found = load(paths, process_variables(), off=self.no_mcp, answer=approvals.answer)
        if quiet:
            return found
        for fault in found.faults:
            say(f"Note: left out: {fault}")
        return replace(found, unapproved=tuple(replace(file, is_told=True) for file in found.unapproved))


def run(
    choice: Choice,
    action: Callable[[Configuration], Awaitable[int | None]],
    *,
    quiet: bool = False,
    ask: bool = True,
) -> None:
    """Run a command, and exit with a code that says what happened.

    Raises:
        Exit: With 0 if all went well, or one of the codes of this module.
    """
    _set_up_logs(debug=choice.debug)
    try:
        configuration = choice.configuration(quiet=quiet, ask=ask)
        code = anyio.run(until_told_to_end, partial(action, configuration))
    except KeyboardInterrupt:
        raise
    except Exception as error:  # the boundary of these commands: each failure is a sentence and a code
        cause = from_group(error)
        for kind, its_code in _CODES:
            if isinstance(cause, kind):
                say(f"Error: {cause if isinstance(cause, NextcloudMcpError) else sentence_of(cause)}")
                raise typer.Exit(its_code) from None
        raise
    raise typer.Exit(code or 0)


def _set_up_logs(*, debug: bool) -> None:
    logs.set_up("debug" if debug else "error")
    if not debug:
        # The SDK logs a trace for what becomes one sentence here, and asyncio one for each task that Ctrl-C ends twice.
        for name in ("mcp", "client", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def server_of(configuration: Configuration, name: str) -> Server:
    """Return a configured server by its name, or one that was given as an address.

    Raises:
        ServerUnknown: There is none of that name.
        ConfigurationError: The address is wrong.
        CallNotAllowed: It is in a project's file that the user has not approved.
        TransportFailed: It is disabled.
    """
    if name.startswith(("http://", "https://")):
        try:
            return Server(id=AD_HOC, transport="http", url=name, oauth="auto")
        except ValidationError as error:
            raise ConfigurationError(first_fault(error, ())) from None
    server = configuration.server(name)
    if server is None:
        refuse_unapproved(configuration, name)
        raise ServerUnknown(f"MCP server not found: {name}{_known(configuration, name)}")
    if server.disabled:
        raise TransportFailed(f'The server "{name}" is disabled in the configuration.')
    return server


def _known(configuration: Configuration, name: str) -> str:
    if configuration.off:
        return ": --no-mcp or NEXTCLOUD_MCP_CLIENT_NO_MCP turns all servers off."
    names = [server.id for server in configuration.servers]
    if not names:
        return ": no server is configured. docs/client.md shows how, or give an address that begins with https://."
    meant = suggestion(name, names)
    return f"{meant} Configured: {', '.join(names)}."


def name_of(server: Server) -> str:
    """Return what the user writes for a server."""
    return server.url if server.id == AD_HOC else server.id


def make_auth(server: Server) -> httpx2.Auth | None:
    """Return what authorizes the requests to a server; only `client auth` opens the browser for a sign-in."""
    if server.transport == "stdio" or server.oauth == "off":
        return None
    variables = process_variables()
    return http_auth(server, open_store(variables), None, environment=variables, name=name_of(server))


def make_browser(*, may_open: bool = True) -> Browser:
    """Return the user's browser."""
    return Browser(say, launch=default_launch(process_variables()) if may_open else None)


async def show_page(url: str, purpose: str) -> bool:
    """Print the address of a page for the user, and open it; return whether a browser was started."""
    return await make_browser().show(url, purpose)


def make_handlers(
    choice: Choice, questions: Questions | None = None, tasks: TaskClient | None = None
) -> Handlers:
    """Return what a server may ask and tell on the command line."""
    return Handlers(
        extensions=() if tasks is None else (tasks.extension,),
        elicitation=None if questions is None else questions.answer,
        notification=None if questions is None else questions.notified,
        diagnostic=(lambda line: say(f"  | {line}")) if choice.debug else None,
    )


def make_questions(configuration: Configuration, server: Server, *, yes: bool = False) -> Questions:
    """Return what answers the questions of a server."""
    decision = decide_elicitation(configuration, server)
    return Questions(server.id, decision, show_page, read_terminal_line, yes=yes)


@asynccontextmanager
async def connected(
    choice: Choice, server: Server, questions: Questions | None = None, tasks: TaskClient | None = None
) -> AsyncGenerator[Connection]:
    """Connect to one server for a command."""
    async with connect(server, make_handlers(choice, questions, tasks), make_auth(server)) as connection:
        if tasks is not None:
            tasks.use(connection)
        yield connection
