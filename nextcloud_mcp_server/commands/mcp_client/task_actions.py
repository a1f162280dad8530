"""The commands about tasks: lists them, prints their state and result, cancels them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from nextcloud_mcp_server.bridge.configuration import Configuration
from nextcloud_mcp_server.bridge.task_client import TaskClient
from nextcloud_mcp_server.bridge.tasks import Form
from nextcloud_mcp_server.commands.console import result_json, say
from nextcloud_mcp_server.commands.mcp_client.calling import Wishes, print_result
from nextcloud_mcp_server.commands.mcp_client.listing import print_table
from nextcloud_mcp_server.commands.mcp_client.session import Choice, connected, make_questions, server_of
from nextcloud_mcp_server.commands.mcp_client.task_output import facts, print_task, task_reporter
from nextcloud_mcp_server.errors import CallNotAllowed, TransportFailed
from nextcloud_mcp_server.logs import one_line


@asynccontextmanager
async def _tasks(
    choice: Choice, configuration: Configuration, name: str, what: str, wishes: Wishes | None = None
) -> AsyncGenerator[TaskClient]:
    """Connect to a server that has tasks, and this part of them.

    Raises:
        CallNotAllowed: The configuration turns the tools of the server off.
        TransportFailed: The server has no tasks, or not this part.
    """
    server = server_of(configuration, name)
    if not server.tools_enabled:
        raise CallNotAllowed(f'"tools_enabled" is false for the server "{name}".')
    given = wishes or Wishes()
    questions = make_questions(configuration, server, yes=given.yes)
    client = TaskClient(task_reporter(), seconds=given.seconds)
    async with connected(choice, server, questions, client) as connection:
        if not client.offers(what):
            if client.form is Form.EXTENSION and what == "list":
                raise TransportFailed(f"MCP {connection.protocol_version} has no list of tasks.")
            lacks = "tasks" if what.startswith("requests") else f"“{what}” for tasks"
            raise TransportFailed(f'The server "{server.id}" has no {lacks}.')
        yield client


async def list_tasks(choice: Choice, configuration: Configuration, name: str, *, as_json: bool) -> None:
    """Print the tasks of a server."""
    async with _tasks(choice, configuration, name, "list") as client:
        found = await client.list()
    if as_json:
        result_json([facts(task) for task in found], indent=2)
    elif not found:
        say(f'The server "{name}" has no tasks now.')
    else:
        rows = [
            [one_line(task.id), task.status, task.created_at, task.updated_at, task.message] for task in found
        ]
        print_table(("ID", "STATUS", "CREATED", "UPDATED", "MESSAGE"), rows)


async def get_task(
    choice: Choice, configuration: Configuration, name: str, task_id: str, *, as_json: bool
) -> None:
    """Print the state of a task."""
    async with _tasks(choice, configuration, name, "requests.tools.call") as client:
        task = await client.get(task_id)
    print_task(task, as_json=as_json)


async def print_task_result(
    choice: Choice, configuration: Configuration, name: str, task_id: str, wishes: Wishes
) -> int | None:
    """Wait for a task and print its result; 3 if it failed."""
    async with _tasks(choice, configuration, name, "requests.tools.call", wishes) as client:
        answer = await client.wait(await client.get(task_id), cancels=False)
        found = client.result_of(answer)
    return print_result(found, configuration, as_json=wishes.as_json)


async def cancel_task(
    choice: Choice, configuration: Configuration, name: str, task_id: str, *, as_json: bool
) -> None:
    """Cancel a task, and print its state where the server says it."""
    async with _tasks(choice, configuration, name, "cancel") as client:
        task = await client.cancel(task_id)
    if task is not None:
        print_task(task, as_json=as_json)
    elif as_json:
        result_json({"taskId": task_id})
    else:
        say("The server was told; `client tasks get` shows what became of the task.")
