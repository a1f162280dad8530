"""The command group `client`: looks at other MCP servers and calls them.

Each command imports its modules when it runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextcloud_mcp_server.commands.options import JsonOption, YesOption

if TYPE_CHECKING:
    from nextcloud_mcp_server.commands.mcp_client.session import Choice

client = typer.Typer(
    no_args_is_help=True,
    help="Look at other MCP servers and call them.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong input or configuration, 3 the server refused, 4 not allowed, "
    "5 sign-in needed, 6 too late.",
)


@dataclass(slots=True)
class _Given:
    """The options before the command."""

    files: tuple[Path, ...]
    no_mcp: bool
    debug: bool


@client.callback()
def common(
    context: typer.Context,
    *,
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", metavar="FILE", help="Read this file, and no other; may be repeated."),
    ] = None,
    no_mcp: Annotated[bool, typer.Option("--no-mcp", help="As if no server were configured.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print what servers write to stderr.")] = False,
) -> None:
    """Look at other MCP servers and call them."""
    context.obj = _Given(tuple(config or ()), no_mcp, debug)


def _choice(context: typer.Context) -> "Choice":
    from nextcloud_mcp_server.commands.mcp_client.session import Choice

    given = context.find_object(_Given)
    return Choice() if given is None else Choice(given.files, given.no_mcp, given.debug)


def _complete_server(context: typer.Context, incomplete: str) -> list[str]:
    from nextcloud_mcp_server.commands.mcp_client import completion

    return completion.servers(_choice_to_complete(context), incomplete)


def _completed(kind: str) -> Callable[[typer.Context, str], list[str]]:
    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from nextcloud_mcp_server.commands.mcp_client import completion

        server = context.params.get("server")
        if not isinstance(server, str):
            return []
        return getattr(completion, kind)(_choice_to_complete(context), server, incomplete)

    return complete


def _choice_to_complete(context: typer.Context) -> "Choice":
    """Return the options before the command while a shell completes, when the callback has not run."""
    from nextcloud_mcp_server.commands.mcp_client.session import Choice

    above: dict[str, Any] = context.parent.params if context.parent is not None else {}
    return Choice(tuple(Path(file) for file in above.get("config") or ()), no_mcp=bool(above.get("no_mcp")))


ServerArgument = Annotated[
    str,
    typer.Argument(
        metavar="SERVER", help="Its name, or an address.", autocompletion=_complete_server, show_default=False
    ),
]
OptionalServer = Annotated[
    str | None,
    typer.Argument(metavar="[SERVER]", help="Only this one.", autocompletion=_complete_server),
]


@client.command("list")
def list_servers(
    context: typer.Context,
    *,
    offline: Annotated[bool, typer.Option("--offline", help="Connect to none.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the configured servers, and whether each can be used."""
    from nextcloud_mcp_server.commands.mcp_client import listing, session

    choice = _choice(context)
    session.run(choice, lambda found: listing.list_servers(choice, found, offline=offline, as_json=as_json))


@client.command("tools")
def list_tools(
    context: typer.Context,
    server: OptionalServer = None,
    *,
    of: Annotated[
        str | None,
        typer.Option("--server", "-s", help="The same as SERVER.", autocompletion=_complete_server),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the tools of one server, or of all."""
    from nextcloud_mcp_server.commands.mcp_client import listing, session

    choice = _choice(context)
    session.run(choice, lambda found: listing.list_tools(choice, found, of or server, as_json=as_json))


@client.command("resources")
def list_resources(context: typer.Context, server: ServerArgument, *, as_json: JsonOption = False) -> None:
    """List the resources of a server, and its templates."""
    from nextcloud_mcp_server.commands.mcp_client import listing, session

    choice = _choice(context)
    session.run(choice, lambda found: listing.list_resources(choice, found, server, as_json=as_json))


@client.command("read")
def read_resource(
    context: typer.Context,
    server: ServerArgument,
    resource: Annotated[
        str | None,
        typer.Argument(
            help="Its URI or name, or a template of URIs.", autocompletion=_completed("resources")
        ),
    ] = None,
    values: Annotated[
        list[str] | None, typer.Argument(help="What stands for the variables of a template, in their order.")
    ] = None,
    *,
    into: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it into a new file.")
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read a resource: SERVER URI, or @SERVER:URI."""
    from nextcloud_mcp_server.bridge import naming
    from nextcloud_mcp_server.commands.mcp_client import listing, session

    name, *uri = naming.split("uri", server) or (server,)
    given = [*uri, *([resource] if resource is not None else []), *(values or [])]
    if not given or not given[0]:
        raise typer.BadParameter("Name the resource: SERVER URI, or @SERVER:URI.")
    choice = _choice(context)
    session.run(
        choice,
        lambda found: listing.read_resource(
            choice, found, name, given[0], given[1:], into=into, yes=yes, as_json=as_json
        ),
    )


@client.command("prompts")
def list_prompts(context: typer.Context, server: ServerArgument, *, as_json: JsonOption = False) -> None:
    """List the prompts of a server."""
    from nextcloud_mcp_server.commands.mcp_client import listing, session

    choice = _choice(context)
    session.run(choice, lambda found: listing.list_prompts(choice, found, server, as_json=as_json))


@client.command("prompt")
def get_prompt(
    context: typer.Context,
    server: ServerArgument,
    prompt: Annotated[str, typer.Argument(help="Its name.", autocompletion=_completed("prompts"))],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...")] = None,
    *,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch a prompt with its arguments."""
    from nextcloud_mcp_server.commands.mcp_client import listing, session

    given: dict[str, str] = {}
    for word in arguments or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise typer.BadParameter(f"Write NAME=VALUE, not {word}.")
        given[name] = value
    choice = _choice(context)
    session.run(
        choice,
        lambda found: listing.get_prompt(choice, found, server, prompt, given, yes=yes, as_json=as_json),
    )


@client.command("call")
def call_tool(
    context: typer.Context,
    server: ServerArgument,
    tool: Annotated[str | None, typer.Argument(help="Its name.", autocompletion=_completed("tools"))] = None,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...")] = None,
    *,
    whole: Annotated[
        str | None,
        typer.Option(
            "--arguments", metavar="JSON", help="All arguments: a JSON object, @FILE, or - for stdin."
        ),
    ] = None,
    yes: YesOption = False,
    timeout: Annotated[float | None, typer.Option(min=0.1, max=86_400, help="Seconds for the call.")] = None,
    as_task: Annotated[bool, typer.Option("--task", help="Call it as a task where it may be one.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait for a task, or print its id.")] = True,
    ttl: Annotated[
        float | None, typer.Option(min=1, max=31_536_000, help="Seconds for which a task should be kept.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Call a tool: SERVER TOOL, or SERVER__TOOL; text arguments stay text, all others are JSON."""
    from nextcloud_mcp_server.commands.mcp_client import calling, session

    words = list(arguments or ())
    if tool is not None and "=" in tool:
        words, tool = [tool, *words], None
    choice = _choice(context)
    wishes = calling.Wishes(
        arguments=whole,
        yes=yes,
        seconds=timeout,
        as_json=as_json,
        as_task=as_task,
        waits=wait,
        ttl_seconds=ttl,
    )
    session.run(choice, lambda found: calling.call_tool(choice, found, server, tool, words, wishes=wishes))


@client.command("auth")
def auth(
    context: typer.Context,
    server: ServerArgument,
    *,
    port: Annotated[
        int | None,
        typer.Option(
            "--oauth-port", min=0, max=65_535, help="The port of this computer for the answer (0: any)."
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the browser, or only print the link.")] = True,
) -> None:
    """Sign in to a server, and keep the access."""
    from nextcloud_mcp_server.commands import client_auth
    from nextcloud_mcp_server.commands.mcp_client import session

    session.run(
        _choice(context), lambda found: client_auth.sign_in_to(found, server, port=port, may_open=browser)
    )


@client.command("logout")
def logout(context: typer.Context, server: ServerArgument) -> None:
    """Sign out of a server: revoke its access where it offers that, and delete it here."""
    from nextcloud_mcp_server.commands import client_auth
    from nextcloud_mcp_server.commands.mcp_client import session

    session.run(_choice(context), lambda found: client_auth.sign_out_of(found, server))


@client.command("ping")
def ping(context: typer.Context, server: ServerArgument, *, as_json: JsonOption = False) -> None:
    """Print how long a server takes to answer."""
    from nextcloud_mcp_server.commands.mcp_client import calling, session

    choice = _choice(context)
    session.run(choice, lambda found: calling.ping(choice, found, server, as_json=as_json))


@client.command("permissions")
def permissions(
    context: typer.Context,
    server: ServerArgument,
    tool: Annotated[
        str | None, typer.Argument(help="Only this one.", autocompletion=_completed("tools"))
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Explain whether tools may be called, and which rule says so."""
    from nextcloud_mcp_server.commands.mcp_client import calling, session

    choice = _choice(context)
    session.run(
        choice, lambda found: calling.explain_permissions(choice, found, server, tool, as_json=as_json)
    )


@client.command("trust")
def trust(
    context: typer.Context,
    *,
    yes: YesOption = False,
    forget: Annotated[bool, typer.Option("--forget", help="Take the approval back.")] = False,
) -> None:
    """Approve the configuration file of the project in this folder, as it is now."""
    from nextcloud_mcp_server.commands.mcp_client import session, trusting

    choice = _choice(context)
    if forget:
        session.run(choice, lambda _: trusting.forget(choice.paths), quiet=True, ask=False)
    session.run(choice, lambda found: trusting.approve(found, yes=yes), quiet=True, ask=False)


@client.command("doctor")
def doctor(context: typer.Context, server: OptionalServer = None, *, as_json: JsonOption = False) -> None:
    """Check the configuration and every server; each line says what to do."""
    from nextcloud_mcp_server.commands.mcp_client import report, session

    choice = _choice(context)
    session.run(choice, lambda found: report.check(choice, found, server, as_json=as_json), quiet=True)


tasks = typer.Typer(no_args_is_help=True, help="Look at calls that a server runs as tasks.")
client.add_typer(tasks, name="tasks")
TaskArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the task.", show_default=False)]


@tasks.command("list")
def list_tasks(context: typer.Context, server: ServerArgument, *, as_json: JsonOption = False) -> None:
    """List the tasks of a server, where its version has such a list."""
    from nextcloud_mcp_server.commands.mcp_client import session, task_actions

    choice = _choice(context)
    session.run(choice, lambda found: task_actions.list_tasks(choice, found, server, as_json=as_json))


@tasks.command("get")
def get_task(
    context: typer.Context, server: ServerArgument, task: TaskArgument, *, as_json: JsonOption = False
) -> None:
    """Print the state of a task."""
    from nextcloud_mcp_server.commands.mcp_client import session, task_actions

    choice = _choice(context)
    session.run(choice, lambda found: task_actions.get_task(choice, found, server, task, as_json=as_json))


@tasks.command("result")
def task_result(
    context: typer.Context,
    server: ServerArgument,
    task: TaskArgument,
    *,
    yes: YesOption = False,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, max=86_400, help="Seconds to wait for its end.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Wait for a task, and print its result; the task goes on if you stop the command."""
    from nextcloud_mcp_server.commands.mcp_client import calling, session, task_actions

    choice = _choice(context)
    wishes = calling.Wishes(yes=yes, seconds=timeout, as_json=as_json)
    session.run(choice, lambda found: task_actions.print_task_result(choice, found, server, task, wishes))


@tasks.command("cancel")
def cancel_task(
    context: typer.Context, server: ServerArgument, task: TaskArgument, *, as_json: JsonOption = False
) -> None:
    """Cancel a task."""
    from nextcloud_mcp_server.commands.mcp_client import session, task_actions

    choice = _choice(context)
    session.run(choice, lambda found: task_actions.cancel_task(choice, found, server, task, as_json=as_json))
