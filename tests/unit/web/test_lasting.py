import anyio
import pytest

from nextcloud_mcp_server.web.lasting import OpenStreams, lasts


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


async def test_only_the_streams_that_are_meant_are_cut_off() -> None:
    streams = OpenStreams()
    with streams.opened({"sub": "alice"}) as hers, streams.opened({"sub": "bob"}) as his:
        streams.end(lambda claims: claims["sub"] == "alice")

        assert (hers.done, his.done) == (True, False)


async def test_who_waits_for_a_client_hears_at_once_that_the_stream_is_cut_off() -> None:
    streams = OpenStreams()

    with streams.opened({}) as cut:
        async with anyio.create_task_group() as group:

            async def end() -> None:
                streams.end(lambda _: True)

            group.start_soon(end)
            with anyio.fail_after(5):
                heard = await cut.wait(anyio.sleep_forever, until=anyio.current_time() + 60)

    assert heard is None
