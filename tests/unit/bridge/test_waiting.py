import anyio
import pytest
from mcp import MCPError

from nextcloud_mcp_server.bridge.envelope import Message
from nextcloud_mcp_server.bridge.waiting import Progress


class Heard:
    """What a chat client is sent."""

    def __init__(self) -> None:
        self.params: list[Message] = []
        self.more = anyio.Event()

    async def __call__(self, method: str, params: Message) -> None:
        assert method == "notifications/progress"
        self.params.append(params)
        self.more.set()
        self.more = anyio.Event()


async def test_progress_of_the_server_passes_as_it_is() -> None:
    heard = Heard()
    progress = Progress({"_meta": {"progressToken": 7}}, heard)
    given = {"progressToken": 7, "progress": 1, "total": 3, "x": None}

    await progress.pass_on(given)

    assert heard.params == [given]


async def test_progress_never_goes_back_after_the_bridge_has_counted() -> None:
    heard = Heard()
    progress = Progress({"_meta": {"progressToken": "t"}}, heard)

    await progress.say("Waiting", 40.0)
    await progress.say("Waiting", 40.0)
    await progress.pass_on({"progressToken": "t", "progress": 1, "total": 3, "message": "m"})

    counts = [one["progress"] for one in heard.params]
    assert counts == sorted(set(counts))
    assert heard.params[-1] == {"progressToken": "t", "progress": counts[-1], "message": "m"}


async def test_a_client_that_asked_for_no_progress_gets_none() -> None:
    heard = Heard()

    for params in (None, {}, {"_meta": {"progressToken": True}}, {"_meta": 5}):
        await Progress(params, heard).say("Waiting", 1.0)

    assert heard.params == []


async def test_a_waiting_call_says_where_and_how_to_stop() -> None:
    heard = Heard()
    progress = Progress({"_meta": {"progressToken": 1}}, heard)

    with anyio.fail_after(30):
        async with progress.waiting("a.example", 60, beat_seconds=0.01):
            while len(heard.params) < 3:
                await heard.more.wait()

    assert heard.params[0]["message"] == (
        "Waiting for you in the browser, at a.example. Cancel the call to stop; it ends by itself in 60 s."
    )


@pytest.mark.parametrize("what", ["waiting", "running"])
async def test_an_error_that_ends_the_wait_is_raised_as_it_is(what: str) -> None:
    progress = Progress({"_meta": {"progressToken": 1}}, Heard())
    beat = progress.waiting("a.example", 60) if what == "waiting" else progress.running(lambda: "x")

    with pytest.raises(MCPError, match="Nothing works"):
        async with beat:
            raise MCPError(-32000, "Nothing works")


async def test_a_call_that_runs_does_not_say_that_it_waits_for_the_user() -> None:
    heard = Heard()
    progress = Progress({"_meta": {"progressToken": 1}}, heard)

    with anyio.fail_after(30):
        async with progress.waiting("a.example", 60, beat_seconds=0.01):
            while not heard.params:
                await heard.more.wait()
            async with progress.running(lambda: "Half of it", beat_seconds=0.01):
                heard.params.clear()
                while len(heard.params) < 3:
                    await heard.more.wait()
                said = {one["message"] for one in heard.params}

    assert said == {"Half of it"}
