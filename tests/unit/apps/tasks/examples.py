"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call


async def usual(_: Account) -> dict[str, dict[str, Any]]:
    task = {"task_id": "tasks/boxes.ics"}
    return {
        "nc_tasks_create_task": {"title": "x", "due": "2026-12-01"},
        "nc_tasks_update_task": {**task, "etag": "e", "title": "x"},
        "nc_tasks_delete_task": {**task, "etag": "e"},
    }


async def working(nc: Account, _: str, given: dict[str, Any]) -> dict[str, Any]:
    if "etag" not in given:
        return {}
    tasks = (await call(nc, "nc_tasks_list_tasks")).tasks
    return {"etag": next(task.etag for task in tasks if task.task_id == given["task_id"])}
