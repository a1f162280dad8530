"""What servers say about tasks, in both forms; the examples are those of the specifications."""

from typing import Any

import pytest

from nextcloud_mcp_server.bridge import tasks
from nextcloud_mcp_server.bridge.tasks import Form, News, Status
from nextcloud_mcp_server.errors import AnswerUnreadable

ID = "786512e2-9e0d-44bd-8f29-789f320fe840"
CORE = {
    "taskId": ID,
    "status": "working",
    "statusMessage": "The operation is now in progress.",
    "createdAt": "2025-11-25T10:30:00Z",
    "lastUpdatedAt": "2025-11-25T10:40:00Z",
    "ttl": 60000,
    "pollInterval": 5000,
}
EXTENSION = {
    "resultType": "task",
    "taskId": ID,
    "status": "working",
    "statusMessage": "The operation is now in progress.",
    "createdAt": "2025-11-25T10:30:00Z",
    "lastUpdatedAt": "2025-11-25T10:40:00Z",
    "ttlMs": 60000,
    "pollIntervalMs": 5000,
}


@pytest.mark.parametrize(
    ("result", "form"), [({"task": CORE}, Form.CORE), (EXTENSION, Form.EXTENSION)], ids=["core", "extension"]
)
def test_a_task_in_place_of_an_answer_is_known_by_its_form(result: dict[str, Any], form: Form) -> None:
    task = tasks.made(result)

    assert task is not None
    assert (task.id, task.form, task.status) == (ID, form, Status.WORKING)
    assert task.message == "The operation is now in progress."
    assert (task.created_at, task.updated_at) == ("2025-11-25T10:30:00Z", "2025-11-25T10:40:00Z")
    assert task.interval_seconds == 5.0
    assert task.pause(0) == task.pause(9) == 5.0


@pytest.mark.parametrize(
    "result",
    [
        {"content": []},
        {"content": [], "task": {"taskId": "x"}},
        {"task": "tidy up"},
        {"resultType": "complete", "content": []},
        {"resultType": "input_required"},
        {},
    ],
)
def test_an_answer_is_no_task(result: dict[str, Any]) -> None:
    assert tasks.made(result) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"taskId": None},
        {"taskId": ""},
        {"taskId": 5},
        {"taskId": "x" * 1001},
        {"status": "sleeping"},
        {"status": None},
        {"status": ["working"]},
        {"status": {"working": 1}},
    ],
    ids=repr,
)
def test_a_task_without_a_usable_id_or_status_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(AnswerUnreadable, match="MCP task error"):
        tasks.made({"task": CORE | wrong})
    with pytest.raises(AnswerUnreadable, match="MCP task error"):
        tasks.made(EXTENSION | wrong)


def test_what_is_said_about_another_task_is_refused() -> None:
    with pytest.raises(AnswerUnreadable, match="asked for the task mine, the server answered about 7865"):
        tasks.read(CORE, Form.CORE, of="mine")


@pytest.mark.parametrize(
    ("interval", "pauses"),
    [
        (0, [0.5, 0.75, 5.0]),
        (-1, [0.5, 0.75, 5.0]),
        ("5", [0.5, 0.75, 5.0]),
        (True, [0.5, 0.75, 5.0]),
        (None, [0.5, 0.75, 5.0]),
        (float("nan"), [0.5, 0.75, 5.0]),
        (float("inf"), [60.0] * 3),
        (10**9, [60.0] * 3),
        (10**400, [60.0] * 3),
        (50, [0.05] * 3),
        (1, [0.05] * 3),
        (250.5, [0.2505] * 3),
    ],
)
def test_polls_come_neither_without_end_nor_never(interval: object, pauses: list[float]) -> None:
    task = tasks.read(CORE | {"pollInterval": interval}, Form.CORE)

    assert [task.pause(polls) for polls in (0, 1, 10**6)] == pytest.approx(pauses)


def test_a_message_of_a_megabyte_is_short_and_cannot_control_a_terminal() -> None:
    task = tasks.read(CORE | {"statusMessage": "\x1b[31m\n" + "x" * 1_000_000}, Form.CORE)

    assert task.message.startswith("\\x1b[31m\\n")
    assert len(task.message) < 520


def test_a_result_names_its_task_or_none() -> None:
    task = tasks.read(CORE, Form.CORE)
    mark = {"io.modelcontextprotocol/related-task": {"taskId": ID}}

    assert tasks.without_relation({"content": [], "_meta": mark}, task) == {"content": []}
    assert tasks.without_relation({"_meta": mark | {"a": 1}}, task) == {"_meta": {"a": 1}}
    assert tasks.without_relation({"content": []}, task) == {"content": []}
    for other in ({"taskId": "other"}, {}, None, "x"):
        with pytest.raises(AnswerUnreadable, match="with that of"):
            tasks.without_relation({"_meta": {"io.modelcontextprotocol/related-task": other}}, task)


def test_only_what_a_server_declares_is_offered() -> None:
    all_of_it: dict[str, Any] = {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}

    for part in ("list", "cancel", "requests.tools.call"):
        assert tasks.offers(all_of_it, part)
        assert not tasks.offers({"tasks": {}}, part)
        assert not tasks.offers({"tasks": {"requests": [], "list": True}}, part)


def test_error_32021_names_the_extension_that_it_needs() -> None:
    needed: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}

    assert tasks.wants_extension({"requiredCapabilities": needed})
    others: list[Any] = [None, [], {"requiredCapabilities": {"sampling": {}}}, {"requiredCapabilities": "x"}]
    for other in others:
        assert not tasks.wants_extension(other)


def test_news_reach_those_who_wait_for_the_task() -> None:
    news, rung = News(), list[str]()

    def ring() -> None:
        rung.append("mine")

    news.add("mine", ring)
    for params in ({"taskId": "mine"}, {"taskId": "other"}, {"taskId": ["mine"]}, {}, None):
        news.tell(params)
    assert rung == ["mine"]
    assert news.is_awaited("mine")
    news.remove("mine", ring)
    news.tell({"taskId": "mine"})
    assert rung == ["mine"]
    assert not news.is_awaited("mine")
    assert not news.is_awaited(["mine"])
