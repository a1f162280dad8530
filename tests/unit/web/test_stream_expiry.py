import anyio
import pytest
from starlette.types import Message

from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.stream_expiry import OpenStreams, lasts


@pytest.mark.parametrize(
    ("method", "value", "stream"),
    [
        ("GET", None, True),
        ("POST", {"method": "subscriptions/listen"}, True),
        ("POST", [{"method": "ping"}, {"method": "subscriptions/listen"}], True),
        ("POST", {"method": "tools/call"}, False),
        ("POST", [7, None, "subscriptions/listen"], False),
        ("DELETE", None, False),
    ],
)
def test_what_is_answered_until_its_client_leaves_is_a_stream(
    method: str, value: object, stream: object
) -> None:
    assert lasts(method, value) is stream


def bearer(person: str) -> Bearer:
    return Bearer(Principal("https://id.test", person), "claude", None, 0, {})


async def test_only_the_streams_that_are_meant_are_cut_off() -> None:
    streams = OpenStreams()
    with streams.opened(bearer("alice")) as hers, streams.opened(bearer("bob")) as his:
        streams.end(lambda one: one.principal.subject == "alice")

        assert (hers.done, his.done) == (True, False)


async def test_a_task_that_waits_for_a_client_hears_at_once_that_the_stream_ends() -> None:
    streams = OpenStreams()
    heard: Message | None = {"type": "nothing yet"}

    with streams.opened(bearer("alice")) as cut:
        async with anyio.create_task_group() as group:

            async def never() -> Message:
                await anyio.sleep_forever()
                raise AssertionError

            async def end() -> None:
                streams.end(lambda _: True)

            group.start_soon(end)
            with anyio.fail_after(60):
                heard = await cut.wait(never, until=anyio.current_time() + 600)

    assert heard is None
