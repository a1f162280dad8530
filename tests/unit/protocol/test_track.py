from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.track import WAITING, Track, TrackParams
from tests.sdk_request import Channel, request

ID = "550e8400-e29b-41d4-a716-446655440000"


@dataclass
class Visit:
    state: str
    error: str | None = None


async def nothing(elicitation_ids: Sequence[str]) -> list[str]:
    raise NotImplementedError


async def track(
    visits: list[Visit | None], *, timeout_seconds: float = 60, channel: Channel | None = None
) -> HandlerResult:
    pending = Pending(nothing)

    async def read_own(ctx: ServerRequestContext[Any, Any], elicitation_id: str) -> Visit | None:
        assert elicitation_id == ID
        visit = visits.pop(0)
        if visits:
            group.start_soon(pending.finish, ID)
        return visit

    handler = Track(read_own, pending, timeout_seconds=timeout_seconds).methods()[0].handler
    answer: HandlerResult = None
    async with anyio.create_task_group() as group:
        with anyio.fail_after(60):
            answer = await handler(
                request(channel=channel), TrackParams.model_validate({"elicitationId": ID})
            )
        group.cancel_scope.cancel()
    return answer


@pytest.mark.parametrize(
    ("visit", "answer"),
    [
        (Visit("complete"), {"status": "complete"}),
        (Visit("declined"), {"status": "declined"}),
        (Visit("failed", "Nextcloud was down."), {"status": "failed", "error": "Nextcloud was down."}),
        (Visit("expired"), {"status": "failed", "error": "The link expired before it was used."}),
    ],
)
async def test_how_a_visit_ended_is_answered(visit: Visit, answer: dict[str, str]) -> None:
    assert await track([visit]) == answer


async def test_while_it_lasts_progress_is_reported_and_always_increases() -> None:
    channel = Channel()

    await track([Visit("pending"), Visit("opened"), Visit("opened"), Visit("complete")], channel=channel)

    told = [progress for progress, _, _ in channel.progressed]
    assert told == sorted(set(told))
    assert [message for _, _, message in channel.progressed] == [WAITING] * 3
    assert {total for _, total, _ in channel.progressed} == {60}


async def test_after_the_limit_the_draft_s_error_is_answered() -> None:
    with pytest.raises(ExceptionGroup) as group:
        await track([Visit("pending")], timeout_seconds=0)

    (error,) = group.value.exceptions
    assert isinstance(error, MCPError)
    assert (error.code, error.message) == (
        -32000,
        "Elicitation timed out - user did not complete authorization",
    )


async def test_a_visit_that_is_not_the_callers_is_unknown() -> None:
    with pytest.raises(ExceptionGroup) as group:
        await track([None])

    (error,) = group.value.exceptions
    assert isinstance(error, MCPError)
    assert (error.code, error.message) == (-32602, "No such elicitation")


@pytest.mark.parametrize(
    "odd", [ID.upper(), ID.replace("-", ""), f"{{{ID}}}", f"urn:uuid:{ID}", f" {ID}", "x", ""]
)
async def test_an_id_in_another_spelling_is_unknown_and_never_looked_up(odd: str) -> None:
    async def read_own(ctx: ServerRequestContext[Any, Any], elicitation_id: str) -> Visit | None:
        raise NotImplementedError

    handler = Track(read_own, Pending(nothing), timeout_seconds=60).methods()[0].handler

    with pytest.raises(MCPError, match="No such elicitation"):
        await handler(request(), TrackParams.model_validate({"elicitationId": odd}))


async def test_a_waiter_reads_its_visit_at_the_start_and_when_it_has_ended_and_not_in_between() -> None:
    """Hundreds wait at once, for minutes; one query for all of them looks for the endings."""
    channel, pending, visit, read = Channel(), Pending(nothing), Visit("pending"), list[str]()

    async def read_own(ctx: ServerRequestContext[Any, Any], elicitation_id: str) -> Visit:
        read.append(elicitation_id)
        return visit

    handler = Track(read_own, pending, timeout_seconds=60, progress_seconds=0.001).methods()[0].handler
    answer: HandlerResult = None
    async with anyio.create_task_group() as group:

        async def end() -> None:
            while len(channel.progressed) < 5:  # noqa: ASYNC110 - told by the channel alone
                await anyio.sleep(0.001)
            visit.state = "complete"
            await pending.finish(ID)

        group.start_soon(end)
        with anyio.fail_after(60):
            answer = await handler(
                request(channel=channel), TrackParams.model_validate({"elicitationId": ID})
            )

    assert answer == {"status": "complete"}
    assert read == [ID, ID]
