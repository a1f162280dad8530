"""The command line: parses, calls, exits. What a command needs is imported when it runs."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from nextcloud_mcp_server.commands.client_config.chat_client import ChatClient
from nextcloud_mcp_server.errors import ConfigurationError, NextcloudMcpError
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName

_INTERRUPTED = 130
#: A client that was killed reads no more; no one is left to tell.
_READER_LEFT = 1

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
grants = typer.Typer(no_args_is_help=True, help="List and end connections.")
db = typer.Typer(no_args_is_help=True, help="Look after the database.")
keys = typer.Typer(no_args_is_help=True, help="Make and replace the keys that seal what is stored.")
setup = typer.Typer(no_args_is_help=True, help="Prepare a server for many people.")
accounts = typer.Typer(no_args_is_help=True, help="List who holds which Nextcloud account, and release one.")
clients = typer.Typer(no_args_is_help=True, help="List and end chat clients (MODE=builtin).")
app.add_typer(grants, name="grants")
app.add_typer(db, name="db")
app.add_typer(keys, name="keys")
app.add_typer(setup, name="setup")
app.add_typer(clients, name="clients")
app.add_typer(accounts, name="accounts")

NextcloudOption = Annotated[
    str | None,
    typer.Option("--nextcloud", metavar="URL", help="Address of your Nextcloud (or NEXTCLOUD_HOST)."),
]
HostOption = Annotated[str | None, typer.Option(help="Address to listen on (or NEXTCLOUD_MCP_HOST).")]
PortOption = Annotated[
    int | None, typer.Option(help="Port to listen on; 0 takes a free one (or NEXTCLOUD_MCP_PORT).")
]
ToolsetsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Groups of tools by commas, or all; default: notes,files (or TOOLSETS)."
    ),
]
SandboxOption = Annotated[bool, typer.Option("--sandbox", help="Use the built-in sandbox Nextcloud.")]
SandboxVersionOption = Annotated[
    ProfileName | None,
    typer.Option(help="The Nextcloud that the sandbox answers like; default: 34. Without --sandbox unused."),
]
NoAuthOption = Annotated[
    bool, typer.Option("--no-local-auth", help="Ask no secret of HTTP clients; loopback only.")
]


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
        typer.Option(help="One person, or two who sign in at an identity provider or with Nextcloud."),
    ] = "personal",
    sandbox_version: Annotated[
        ProfileName, typer.Option(help="The Nextcloud that the sandbox answers like.")
    ] = USUAL,
    # Any text counts as a wish for plain output, as https://no-color.org asks.
    no_color: Annotated[str | None, typer.Option(envvar="NO_COLOR", hidden=True)] = None,
) -> None:
    """Play the whole journey against the built-in sandbox Nextcloud."""
    from functools import partial

    import anyio

    from nextcloud_mcp_server.demo.journey import play
    from nextcloud_mcp_server.demo.multi_user import play_multi_user

    if manual and mode != "personal":
        raise ConfigurationError(f"The two people of --mode {mode} act by themselves: leave out --manual.")
    # Windows would choose an encoding without the arrows and ticks when the output is piped.
    out = typer.get_text_stream("stdout", encoding="utf-8")
    if mode == "personal":
        anyio.run(partial(play, dialect, out, manual=manual, plain=bool(no_color), version=sandbox_version))
    else:
        anyio.run(
            partial(play_multi_user, dialect, out, mode=mode, plain=bool(no_color), version=sandbox_version)
        )


@app.command()
def connect(
    *,
    nextcloud: NextcloudOption = None,
    browser: Annotated[bool, typer.Option(help="Open the browser, or only print the link.")] = True,
) -> None:
    """Connect your Nextcloud from the terminal; no chat client needed."""
    from nextcloud_mcp_server.commands.connection import connect as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(nextcloud_host=nextcloud), browser=browser)


@grants.command("list")
def list_grants(*, nextcloud: NextcloudOption = None, sandbox: SandboxOption = False) -> None:
    """List who may do what at which Nextcloud."""
    from nextcloud_mcp_server.commands.connection import list_grants as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(nextcloud_host=nextcloud, sandbox=sandbox or None))


@grants.command("revoke")
def revoke_grants(
    *,
    nextcloud: NextcloudOption = None,
    sandbox: SandboxOption = False,
    person: Annotated[
        str | None, typer.Option(metavar="UID", help="Whose connection, on a server of many people.")
    ] = None,
) -> None:
    """End a connection, here and at Nextcloud."""
    from nextcloud_mcp_server.commands.connection import revoke_grants as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(nextcloud_host=nextcloud, sandbox=sandbox or None), person)


@clients.command("list")
def list_clients() -> None:
    """List the chat clients that users have added."""
    from nextcloud_mcp_server.commands.clients import list_clients as run
    from nextcloud_mcp_server.settings.environment import load

    run(load())


@clients.command("revoke")
def revoke_client(
    client_id: Annotated[str, typer.Argument(help="Its id, as `clients list` shows it.")],
) -> None:
    """Forget a client and sign it out, for every user."""
    from nextcloud_mcp_server.commands.clients import revoke_client as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), client_id)


@accounts.command("list")
def list_accounts(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print it for programs.")] = False
) -> None:
    """List which sign-in holds which Nextcloud account."""
    from nextcloud_mcp_server.commands.accounts import list_accounts as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), as_json=as_json)


@accounts.command("release")
def release_account(
    uid: Annotated[str, typer.Argument(help="The Nextcloud user id, as `accounts list` shows it.")],
    *,
    issuer: Annotated[
        str | None, typer.Option(metavar="URL", help="Of several that hold it, the one of this issuer.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """End the connection of who holds an account, so that its owner can connect it."""
    from nextcloud_mcp_server.commands.accounts import release_account as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), uid, issuer=issuer, yes=yes)


@db.command("upgrade")
def upgrade_database() -> None:
    """Bring the database to the newest schema (starting the server does so too)."""
    from nextcloud_mcp_server.commands.database import upgrade as run
    from nextcloud_mcp_server.settings.environment import load

    run(load())


@db.command("current")
def current_schema() -> None:
    """Print the version of the database's schema."""
    from nextcloud_mcp_server.commands.database import current as run
    from nextcloud_mcp_server.settings.environment import load

    run(load())


@db.command("restored")
def after_restore(
    *,
    allow_listed: Annotated[
        bool,
        typer.Option(
            "--allow-listed", help="Nextcloud counts no failed logins of this computer: do not pause."
        ),
    ] = False,
) -> None:
    """Run once after a backup was put back, before the server starts."""
    from nextcloud_mcp_server.commands.post_restore import restored as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), allow_listed=allow_listed)


@keys.command("new")
def new_key() -> None:
    """Print a new sealing key for TOKEN_ENCRYPTION_KEYS."""
    from nextcloud_mcp_server.commands.config import print_key as run

    run()


@keys.command("status")
def key_status() -> None:
    """Show how many rows each key seals, and which key can be removed."""
    from nextcloud_mcp_server.commands.keys import status as run
    from nextcloud_mcp_server.settings.environment import load

    run(load())


@keys.command("rotate")
def rotate_keys(*, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Seal everything again with the first key, beside the running server."""
    from nextcloud_mcp_server.commands.keys import rotate as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), yes=yes)


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
