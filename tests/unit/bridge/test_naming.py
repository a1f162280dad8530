import pytest

from nextcloud_mcp_server.bridge import naming


@pytest.mark.parametrize(
    ("method", "params", "server", "own"),
    [
        ("tools/call", {"name": "a__b__c", "x": 1}, "a", {"name": "b__c", "x": 1}),
        ("prompts/get", {"name": "a__p"}, "a", {"name": "p"}),
        ("resources/read", {"uri": "@a:note://5"}, "a", {"uri": "note://5"}),
        ("tasks/get", {"taskId": "a__1"}, "a", {"taskId": "1"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "a__p"}},
            "a",
            {"ref": {"type": "ref/prompt", "name": "p"}},
        ),
    ],
)
def test_a_request_finds_its_server(
    method: str, params: dict[str, object], server: str, own: dict[str, object]
) -> None:
    assert naming.address(method, params) == (server, own)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "plain"}),
        ("tools/call", {"name": 5}),
        ("resources/read", {"uri": "note://5"}),
        ("resources/read", {"uri": "@a"}),
        ("x/other", {}),
    ],
)
def test_a_request_that_names_no_server_is_for_none(method: str, params: dict[str, object]) -> None:
    assert naming.address(method, params) is None


def test_a_result_names_what_can_be_asked_for() -> None:
    result = {
        "content": [
            {"type": "text", "text": "x"},
            {"type": "resource_link", "uri": "u:1", "y": 1},
            {"type": "resource", "resource": {"uri": "u:2", "text": ""}},
        ],
        "x-more": 1,
    }

    assert naming.renamed("a", result) == {
        "content": [
            {"type": "text", "text": "x"},
            {"type": "resource_link", "uri": "@a:u:1", "y": 1},
            {"type": "resource", "resource": {"uri": "@a:u:2", "text": ""}},
        ],
        "x-more": 1,
    }


def test_messages_contents_and_tasks_are_renamed_too() -> None:
    prompt = {"messages": [{"role": "user", "content": {"type": "resource_link", "uri": "u:1"}}]}

    assert naming.renamed("a", prompt)["messages"][0]["content"]["uri"] == "@a:u:1"
    assert naming.renamed("a", {"contents": [{"uri": "u:1"}]}) == {"contents": [{"uri": "@a:u:1"}]}
    assert naming.renamed("a", {"task": {"taskId": "1", "x": 2}}) == {"task": {"taskId": "a__1", "x": 2}}


def test_the_state_of_a_task_and_its_result_are_renamed() -> None:
    related = {"io.modelcontextprotocol/related-task": {"taskId": "1"}, "x": 1}
    renamed = {"io.modelcontextprotocol/related-task": {"taskId": "a__1"}, "x": 1}
    inner = {"content": [{"type": "resource_link", "uri": "u:1"}]}

    assert naming.renamed("a", {"taskId": "1", "status": "working", "x": 2}) == {
        "taskId": "a__1",
        "status": "working",
        "x": 2,
    }
    done = naming.renamed("a", {"taskId": "1", "status": "completed", "result": inner})
    assert done["result"]["content"][0]["uri"] == "@a:u:1"
    # A tool may call something else so.
    assert naming.renamed("a", {"content": [], "taskId": "1"}) == {"content": [], "taskId": "1"}
    assert naming.renamed("a", {"content": [], "_meta": related})["_meta"] == renamed
    assert naming.related("a", {"message": "?", "_meta": related}) == {"message": "?", "_meta": renamed}
    assert naming.related("a", {"message": "?"}) == {"message": "?"}


def test_a_list_leaves_out_what_has_no_name() -> None:
    result = {"tools": [{"name": "t", "x": 1}, {"title": "nameless"}, 5]}

    assert naming.listed("tools/list", "a", result) == [{"name": "a__t", "x": 1}]
