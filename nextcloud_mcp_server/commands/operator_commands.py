"""The command groups on what is stored: grants, audit, accounts, clients, database and keys."""

from pathlib import Path
from typing import Annotated

import typer

from nextcloud_mcp_server.commands.options import JsonOption, NextcloudOption, SandboxOption, YesOption

grants = typer.Typer(no_args_is_help=True, help="List and end connections.")
db = typer.Typer(no_args_is_help=True, help="Look after the database.")
keys = typer.Typer(no_args_is_help=True, help="Make and replace the keys that seal what is stored.")
accounts = typer.Typer(
    no_args_is_help=True, help="List which user holds which Nextcloud account, and release one."
)
clients = typer.Typer(no_args_is_help=True, help="List and end chat clients (MODE=builtin).")
audit = typer.Typer(no_args_is_help=True, help="Read the log of what was done in whose name.")

SinceOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="From then on: 30m, 12h, 7d, or 2026-01-31T09:15 (UTC).")
]
PersonOption = Annotated[
    str | None, typer.Option(metavar="UID", help="About one user: a Nextcloud user id, or a subject.")
]


@grants.command("list")
def list_grants(
    *, nextcloud: NextcloudOption = None, sandbox: SandboxOption = False, as_json: JsonOption = False
) -> None:
    """List what each user allowed which client."""
    from nextcloud_mcp_server.commands.grants import list_grants as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(nextcloud_host=nextcloud, sandbox=sandbox or None), as_json=as_json)


@grants.command("revoke")
def revoke_grants(
    *,
    nextcloud: NextcloudOption = None,
    sandbox: SandboxOption = False,
    person: Annotated[
        str | None, typer.Option(metavar="UID", help="Whose connection, on a server of many users.")
    ] = None,
    client: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Only what this client may do, on a server of many users."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every connection.")] = False,
    yes: YesOption = False,
) -> None:
    """End connections, here and at Nextcloud."""
    from nextcloud_mcp_server.commands.grants import revoke_grants as run
    from nextcloud_mcp_server.settings.environment import load

    settings = load(nextcloud_host=nextcloud, sandbox=sandbox or None)
    run(settings, person=person, client=client, every=every, yes=yes)


@audit.command("list")
def list_audit(
    *,
    since: SinceOption = None,
    person: PersonOption = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many, the latest.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Show the latest entries: what was done for which user through which client, and how it ended."""
    from nextcloud_mcp_server.commands.audit import list_entries as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), since=since, person=person, limit=limit, as_json=as_json)


@audit.command("export")
def export_audit(*, since: SinceOption = None, person: PersonOption = None) -> None:
    """Print all entries, a line of JSON for each, the newest first."""
    from nextcloud_mcp_server.commands.audit import export_entries as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), since=since, person=person)


@clients.command("list")
def list_clients(*, as_json: JsonOption = False) -> None:
    """List the chat clients that users have added."""
    from nextcloud_mcp_server.commands.clients import list_clients as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), as_json=as_json)


@clients.command("revoke")
def revoke_client(
    client_id: Annotated[str, typer.Argument(help="Its id, as `clients list` shows it.")],
) -> None:
    """Forget a client and sign it out, for every user."""
    from nextcloud_mcp_server.commands.clients import revoke_client as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), client_id)


@accounts.command("list")
def list_accounts(*, as_json: JsonOption = False) -> None:
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
    yes: YesOption = False,
) -> None:
    """End the connection of the user who holds an account, so that its owner can connect it."""
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


@db.command("backup")
def back_up_database(
    copy: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; - prints the copy.")],
) -> None:
    """Copy the database file while the server runs (PostgreSQL has pg_dump)."""
    from nextcloud_mcp_server.commands.database import backup as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), copy)


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
def rotate_keys(*, yes: YesOption = False) -> None:
    """Seal everything again with the first key, beside the running server."""
    from nextcloud_mcp_server.commands.keys import rotate as run
    from nextcloud_mcp_server.settings.environment import load

    run(load(), yes=yes)
