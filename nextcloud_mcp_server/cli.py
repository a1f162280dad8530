"""The command line: parses, calls, exits. What a command needs is imported when it runs."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from nextcloud_mcp_server.commands import bridge_command, client_commands, operator_commands
from nextcloud_mcp_server.commands.client_config.chat_client import ChatClient
from nextcloud_mcp_server.commands.command_group import CommandGroup
from nextcloud_mcp_server.commands.options import (
    HostOption,
    NextcloudOption,
    NoAuthOption,
    PortOption,
    SandboxOption,
    SandboxVersionOption,
    ToolsetsOption,
)
from nextcloud_mcp_server.errors import ConfigurationError, NextcloudMcpError
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName

_INTERRUPTED = 130
#: A client that was killed reads no more; no one is left to tell.
_READER_LEFT = 1

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
setup = typer.Typer(no_args_is_help=True, help="Prepare a server for many users.")
app.command("bridge")(bridge_command.bridge)
app.add_typer(operator_commands.grants, name="grants")
app.add_typer(operator_commands.audit, name="audit")
app.add_typer(operator_commands.db, name="db")
app.add_typer(operator_commands.keys, name="keys")
app.add_typer(setup, name="setup")
app.add_typer(operator_commands.clients, name="clients")
app.add_typer(operator_commands.accounts, name="accounts")
app.add_typer(client_commands.client, name="client")


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it by place
    if asked:
        from importlib.metadata import version

        typer.echo(f"nextcloud-mcp-server {version('nextcloud-mcp-server')}")
        raise typer.Exit


@app.callback()
def common(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Nextcloud for AI assistants, with consent in the browser."""


@app.command()
def serve(
    *,
    transport: Annotated[
        Literal["stdio", "http"] | None,
        typer.Option(help="stdio (default) for a client that starts the server itself."),
    ] = None,
    host: HostOption = None,
    port: PortOption = None,
    nextcloud: NextcloudOption = None,
    sandbox: SandboxOption = False,
    sandbox_version: SandboxVersionOption = None,
    toolsets: ToolsetsOption = None,
    no_local_auth: NoAuthOption = False,
) -> None:
    """Start the server."""
    from nextcloud_mcp_server.commands.serve import serve as run
    from nextcloud_mcp_server.settings.environment import load

    run(
        load(
            transport=transport,
            host=host,
            port=port,
            nextcloud_host=nextcloud,
            sandbox=sandbox or None,
            sandbox_version=sandbox_version,
            toolsets=toolsets,
            no_local_auth=no_local_auth or None,
        )
    )


@app.command()
def demo(
    *,
    manual: Annotated[
        bool, typer.Option("--manual", help="Leave the consent to you, in your browser.")
    ] = False,
    dialect: Annotated[
        Literal["draft", "2025-11-25", "2026-07-28", "text"],
        typer.Option(help="How the client is asked for consent."),
    ] = "2026-07-28",
    mode: Annotated[
        Literal["personal", "oidc", "builtin"],
        typer.Option(help="One user, or two who sign in at an identity provider or with Nextcloud."),
    ] = "personal",
    bridge: Annotated[
        bool, typer.Option("--bridge", help="Go through the bridge, with a client that knows no elicitation.")
    ] = False,
    sandbox_version: Annotated[
        ProfileName, typer.Option(help="The Nextcloud that the sandbox answers like.")
    ] = USUAL,
    # Any text counts as a wish for plain output, as https://no-color.org asks.
    no_color: Annotated[str | None, typer.Option(envvar="NO_COLOR", hidden=True)] = None,
) -> None:
    """Play the whole journey against the built-in sandbox Nextcloud."""
    from functools import partial

    import anyio

    from nextcloud_mcp_server.demo.bridge import play_bridge
    from nextcloud_mcp_server.demo.journey import play
    from nextcloud_mcp_server.demo.multi_user import play_multi_user

    if manual and mode != "personal":
        raise ConfigurationError(f"The two users of --mode {mode} act by themselves: leave out --manual.")
    if bridge and (manual or mode != "personal"):
        raise ConfigurationError("The demo of the bridge acts by itself, for one user: give --bridge alone.")
    # Windows would choose an encoding without the arrows and ticks when the output is piped.
    out = typer.get_text_stream("stdout", encoding="utf-8")
    if bridge:
        anyio.run(partial(play_bridge, out, plain=bool(no_color), version=sandbox_version))
    elif mode == "personal":
        anyio.run(partial(play, dialect, out, manual=manual, plain=bool(no_color), version=sandbox_version))
    else:
        anyio.run(
            partial(play_multi_user, dialect, out, mode=mode, plain=bool(no_color), version=sandbox_version)
        )


@app.command()
def sandbox(
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")
    ] = 8080,
    version: Annotated[
        ProfileName, typer.Option("--sandbox-version", help="The Nextcloud that the sandbox answers like.")
    ] = USUAL,
) -> None:
    """Run the built-in sandbox Nextcloud by itself, to rehearse a server for many users."""
    from nextcloud_mcp_server.commands.sandbox import serve_sandbox as run

    run(port, version)


@app.command()
def connect(
    *,
    nextcloud: NextcloudOption = None,
    toolsets: ToolsetsOption = None,
    browser: Annotated[bool, typer.Option(help="Open the browser, or only print the link.")] = True,
) -> None:
    """Connect your Nextcloud from the terminal; no chat client needed."""
    from nextcloud_mcp_server.commands.connection import connect as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(nextcloud_host=nextcloud, toolsets=toolsets), browser=browser)


@app.command()
def config(
    client: Annotated[ChatClient, typer.Argument(help="The chat client to write for.")],
    *,
    http: Annotated[bool, typer.Option("--http", help="For a server that runs already, over HTTP.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Put it into the client's own file.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --write: do not ask.")] = False,
    file: Annotated[Path | None, typer.Option(metavar="PATH", help="With --write: another file.")] = None,
    host: HostOption = None,
    port: PortOption = None,
    nextcloud: NextcloudOption = None,
    sandbox: SandboxOption = False,
    sandbox_version: SandboxVersionOption = None,
    toolsets: ToolsetsOption = None,
    no_local_auth: NoAuthOption = False,
) -> None:
    """Print the text that tells a chat client about this server, or write it where the client looks."""
    from nextcloud_mcp_server.commands.config import Writing
    from nextcloud_mcp_server.commands.config import print_config as run
    from nextcloud_mcp_server.settings.environment import load

    settings = load(
        host=host,
        port=port,
        nextcloud_host=nextcloud,
        sandbox=sandbox or None,
        sandbox_version=sandbox_version,
        toolsets=toolsets,
        no_local_auth=no_local_auth or None,
    )
    run(settings, client, http=http, writing=Writing(write, yes, file))


@setup.command("nextcloud")
def setup_nextcloud(
    *,
    nextcloud: NextcloudOption = None,
    server_url: Annotated[
        str | None,
        typer.Option(
            "--server-url",
            metavar="URL",
            help="This server's public address (or NEXTCLOUD_MCP_SERVER_URL).",
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write the two settings into files there, instead of printing them."
        ),
    ] = None,
) -> None:
    """Register this server at Nextcloud (asks for an administrator's password) and print its settings."""
    from nextcloud_mcp_server.commands.setup import setup_nextcloud as run
    from nextcloud_mcp_server.settings.environment import load_draft

    run(load_draft(nextcloud_host=nextcloud, nextcloud_mcp_server_url=server_url), into=into)


@app.command()
def doctor(*, nextcloud: NextcloudOption = None, sandbox: SandboxOption = False) -> None:
    """Check the set-up; each line says what to do."""
    from nextcloud_mcp_server.commands.doctor.report import check as run
    from nextcloud_mcp_server.settings.environment import load

    raise typer.Exit(run(load(nextcloud_host=nextcloud, sandbox=sandbox or None)))


def main() -> None:
    """Run the command line; a failure is one sentence, never a trace."""
    try:
        _run()
    except NextcloudMcpError as error:
        from nextcloud_mcp_server.commands.console import give_up

        give_up(error)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _run() -> None:
    try:
        app()
    except ExceptionGroup as group:
        # A task group wraps what its block raises.
        known = group.subgroup(NextcloudMcpError)
        if known is None:
            if group.split(BrokenPipeError)[1] is None:
                sys.exit(_READER_LEFT)
            raise
        raise _first(known) from None


def _first(group: ExceptionGroup[NextcloudMcpError]) -> NextcloudMcpError:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
