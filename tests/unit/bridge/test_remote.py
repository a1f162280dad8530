"""A remote server is connected when it is needed, and again after it went away; no call is made twice by accident."""

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.bridge.envelope import Hello, Message
from nextcloud_mcp_server.bridge.remote import Remote, reason
from nextcloud_mcp_server.errors import TransportFailed
from tests.far_server import HANDSHAKE, MODERN, Ears, FarServer, echo, remote_to

pytestmark = pytest.mark.anyio


async def refused(remote: Remote, method: str = "tools/call") -> MCPError:
    with pytest.raises(MCPError) as caught:
        await remote.request(method, {"name": "x"})
    return caught.value


async def dies_once(server: FarServer, method: str, params: Message) -> Message:
    """Die before the first answer, and live after that."""
    if server.connections == 1:
        await server.cut()
        await anyio.sleep_forever()
    return await echo(server, method, params)


async def test_a_server_is_connected_by_the_first_request_and_then_shared() -> None:
    server, ears = FarServer(echo), Ears()
    async with remote_to(server, ears=ears) as remote:
        before = server.connections
        answers: list[Message] = []

        async def ask(number: int) -> None:
            answers.append(await remote.request("tools/call", {"n": number}))

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(ask, number)
        agreement = await remote.connected()

    assert (before, server.connections, ears.connected) == (0, 1, 1)
    assert sorted(answer["params"]["n"] for answer in answers) == [0, 1, 2, 3, 4]
    assert agreement.version == "2025-11-25"
    assert server.notices == ["notifications/initialized"]


@pytest.mark.parametrize(
    ("chat", "modern", "version"),
    [
        (HANDSHAKE, False, "2025-11-25"),
        (MODERN, True, "2026-07-28"),
        (MODERN, False, "2025-11-25"),
        (HANDSHAKE, True, "2026-07-28"),
    ],
)
async def test_a_server_of_the_other_era_is_spoken_to_in_its_own(
    chat: Hello, version: str, *, modern: bool
) -> None:
    async with remote_to(FarServer(echo, modern=modern), chat) as remote:
        agreement = await remote.connected()

    assert agreement.version == version


async def test_a_version_that_is_refused_at_first_is_tried_again_if_the_server_names_it() -> None:
    refusals: list[str] = []

    async def hesitant(server: FarServer, method: str, params: Message) -> Message:
        if method == "server/discover":
            refusals.append(method)
            if len(refusals) == 1:
                raise MCPError(-32022, "Unsupported", {"supported": ["2026-07-28"], "requested": "x"})
            return {"supportedVersions": ["2026-07-28"], "capabilities": {}}
        return await echo(server, method, params)

    async with remote_to(FarServer(hesitant, greets=True), MODERN) as remote:
        agreement = await remote.connected()

    assert (agreement.version, len(refusals)) == ("2026-07-28", 2)


@pytest.mark.parametrize("method", ["tools/list", "resources/read", "prompts/get", "completion/complete"])
async def test_what_changes_nothing_is_sent_again_after_a_lost_connection(method: str) -> None:
    server = FarServer(dies_once)
    async with remote_to(server) as remote:
        answer = await remote.request(method, {"name": "x"})

    assert answer["method"] == method
    assert server.connections == 2


async def test_a_call_that_may_have_been_made_is_not_sent_again() -> None:
    server = FarServer(dies_once)
    server.fault = "It ended with exit code 3."
    async with remote_to(server) as remote:
        error = await refused(remote)
        again = await remote.request("tools/call", {"name": "x"})

    assert error.error.message == (
        "The server “far” went away during this call (It ended with exit code 3). "
        "It is connected again with the next call: check what was done, then call again."
    )
    assert [params["name"] for params in server.asked("tools/call")] == ["x", "x"]
    assert again["params"] == {"name": "x"}


async def test_a_call_of_a_forgotten_session_was_not_begun_so_it_is_sent_again_once() -> None:
    async def forgets(server: FarServer, method: str, params: Message) -> Message:
        if server.connections == 1 or params.get("always"):
            server.session_lost = True
            raise MCPError(-32600, "Session not found")
        return await echo(server, method, params)

    server = FarServer(forgets)
    async with remote_to(server) as remote:
        answer = await remote.request("tools/call", {"name": "x"})
        connections = server.connections
        with pytest.raises(MCPError, match="went away during this call"):
            await remote.request("tools/call", {"always": True})

    assert answer["params"] == {"name": "x"}
    assert connections == 2
    assert len(server.asked("tools/call")) == 4


async def test_a_server_that_cannot_be_connected_is_named_and_not_started_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nextcloud_mcp_server.bridge.remote._PAUSE_SECONDS", 3600.0)
    server, ears = FarServer(echo), Ears()
    server.refusal = FileNotFoundError(2, "No such file", "no-such-program")
    async with remote_to(server, ears=ears) as remote:
        errors = [await refused(remote) for _ in range(3)]
        failure = remote.failure
        server.refusal = None
        monkeypatch.setattr("nextcloud_mcp_server.bridge.remote._PAUSE_SECONDS", 0.0)
        answer = await remote.request("tools/list", None)

    sentence = "The server “far” cannot be used: the command no-such-program was not found."
    assert {error.error.message for error in errors} == {sentence}
    assert (failure, ears.said, remote.failure) == (sentence, [sentence], "")
    assert answer["method"] == "tools/list"
    assert server.connections == 2


async def test_a_server_that_never_answers_the_handshake_is_not_waited_for_longer_than_allowed() -> None:
    async def silent(server: FarServer, method: str, params: Message) -> Message:
        del server, method, params
        await anyio.sleep_forever()
        raise NotImplementedError

    async with remote_to(FarServer(silent, modern=True, greets=True), start_seconds=0.05) as remote:
        error = await refused(remote)

    assert error.error.message == "The server “far” cannot be used: it did not answer in time."


async def test_a_reason_that_is_a_sentence_ends_with_one_full_stop() -> None:
    server = FarServer(echo)
    server.refusal = TransportFailed("It cannot be started.")
    async with remote_to(server) as remote:
        error = await refused(remote)

    assert error.error.message == "The server “far” cannot be used: It cannot be started."


async def test_an_error_of_the_server_passes_as_it_is() -> None:
    async def fails(server: FarServer, method: str, params: Message) -> Message:
        del server, method
        raise MCPError(params["code"], "Connection closed, says the server", {"why": [1]})

    async with remote_to(FarServer(fails)) as remote:
        for code in (-32000, -32042, -32603):
            with pytest.raises(MCPError) as caught:
                await remote.request("tools/call", {"code": code})
            assert caught.value.error.data == {"why": [1]}
            assert (caught.value.code, caught.value.error.message) == (
                code,
                "Connection closed, says the server",
            )


@pytest.mark.parametrize(
    ("code", "message", "data", "sentence"),
    [
        (-32603, "x", {"fault": "HTTP status 502."}, "The server “far” failed: HTTP status 502."),
        (
            -32700,
            f"Failed to parse: {'secret' * 100}",
            None,
            "The server “far” failed: It sent something that is not JSON-RPC.",
        ),
        (
            -32700,
            "Failed to read: an answer of more than 5 bytes",
            None,
            "Failed to read: an answer of more than 5 bytes",
        ),
        (
            -32700,
            "Failed to parse: an answer of more than 5 bytes",
            None,
            "The server “far” failed: an answer of more than 5 bytes",
        ),
    ],
)
async def test_an_answer_that_never_came_is_worded_and_not_quoted(
    code: int, message: str, data: object, sentence: str
) -> None:
    async def fails(server: FarServer, method: str, params: Message) -> Message:
        del server, method, params
        raise MCPError(code, message, data)

    async with remote_to(FarServer(fails)) as remote:
        error = await refused(remote)

    assert error.error.message == sentence


async def test_what_is_off_in_the_configuration_is_not_described() -> None:
    server = FarServer(echo, capabilities={"tools": {}, "prompts": {}, "resources": {}})
    async with remote_to(server, hidden=frozenset({"prompts"})) as remote:
        agreement = await remote.connected()

    assert agreement.capabilities == {"tools": {}, "resources": {}}


async def test_requests_and_notices_of_the_server_are_heard_but_for_cancellations() -> None:
    server, ears = FarServer(echo), Ears()
    async with remote_to(server, ears=ears) as remote:
        await remote.connected()
        answer = await server.ask("roots/list", {"x": 1})
        heard = ears.more
        await server.notify("notifications/cancelled", {"requestId": 1})
        await server.notify("notifications/message", {"data": 1})
        await heard.wait()

    assert answer == {"answer": "roots/list"}
    assert ears.asked == [("roots/list", {"x": 1})]
    assert ears.notices == [("notifications/message", {"data": 1})]


async def test_notices_go_only_to_a_server_that_is_connected() -> None:
    server = FarServer(echo)
    async with remote_to(server) as remote:
        await remote.notify("notifications/roots/list_changed", None)
        connections = server.connections
        await remote.connected()
        await remote.notify("notifications/roots/list_changed", None)
        await remote.request("tools/list", None)

    assert connections == 0
    assert server.notices == ["notifications/initialized", "notifications/roots/list_changed"]


async def test_an_id_that_is_chosen_is_the_one_that_is_sent() -> None:
    async with remote_to(FarServer(echo)) as remote:
        answer = await remote.request("subscriptions/listen", {}, request_id="chosen")

    assert answer["method"] == "subscriptions/listen"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ExceptionGroup("", [ExceptionGroup("", [OSError("first\nline")]), ValueError("x")]), "first line."),
        (MCPError(-32000, "Connection closed"), "it ended before it answered."),
        (MCPError(-32000, "Other"), "Other"),
        (TimeoutError(), "it did not answer in time."),
        (ValueError(""), "ValueError."),
        (ValueError("x" * 500), "x" * 300 + "."),
    ],
)
def test_the_first_cause_is_one_sentence(error: BaseException, sentence: str) -> None:
    assert reason(error) == sentence
