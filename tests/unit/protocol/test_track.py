from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from nextcloud_mcp_server.auth.consent import policy
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.track import COMPLETED, WAITING, Track, TrackParams
from tests.sdk_request import Channel, request

ID = "550e8400-e29b-41d4-a716-446655440000"


@dataclass
class ConsentRequest:
    state: str
    error: str | None = None


async def nothing(elicitation_ids: Sequence[str]) -> list[str]:
    raise NotImplementedError


async def track(
    consent_service: list[ConsentRequest | None],
    *,
    timeout_seconds: float = 60,
    channel: Channel | None = None,
    **params: object,
) -> HandlerResult:
    pending = Pending(nothing)

    async def read_own(ctx: ServerRequestContext[Any, Any], elicitation_id: str) -> ConsentRequest | None:
        assert elicitation_id == ID
        consent_request = consent_service.pop(0)
        if consent_service:
            group.start_soon(pending.finish, ID)
        return consent_request

    handler = Track(read_own, pending, timeout_seconds=timeout_seconds).methods()[0].handler
    answer: HandlerResult = None
    async with anyio.create_task_group() as group:
        with anyio.fail_after(60):
            answer = await handler(
                request(channel=channel), TrackParams.model_validate({"elicitationId": ID, **params})
            )
        group.cancel_scope.cancel()
    return answer


@pytest.mark.parametrize(
    ("consent_request", "answer"),
    [
        (ConsentRequest("complete"), {"status": "complete"}),
        (ConsentRequest("declined"), {"status": "declined"}),
        (
            ConsentRequest("failed", "Nextcloud was down."),
            {"status": "failed", "error": "Nextcloud was down."},
        ),
        (ConsentRequest("expired"), {"status": "failed", "error": policy.NOT_CONFIRMED}),
    ],
)
async def test_how_a_consent_request_ended_is_answered(
    consent_request: ConsentRequest, answer: dict[str, str]
) -> None:
    assert await track([consent_request]) == answer


async def test_while_it_lasts_progress_is_reported_and_always_increases() -> None:
    channel = Channel()

    await track(
        [
            ConsentRequest("pending"),
            ConsentRequest("opened"),
            ConsentRequest("opened"),
            ConsentRequest("complete"),
        ],
        channel=channel,
    )

    told = [progress for progress, _, _ in channel.progressed]
    assert told == sorted(set(told))
    assert [message for _, _, message in channel.progressed] == [WAITING] * 3 + [COMPLETED]
    assert {total for _, total, _ in channel.progressed} == {60}
    assert told[-1] == 60


@pytest.mark.parametrize("state", ["declined", "failed", "expired"])
async def test_only_a_consent_that_was_given_ends_with_complete(state: str) -> None:
    channel = Channel()

    await track([ConsentRequest("pending"), ConsentRequest(state)], channel=channel)

    assert [message for _, _, message in channel.progressed] == [WAITING]


@pytest.mark.parametrize(("asked", "total"), [(5, 5), (0.5, 0.5), (3600, 60), (None, 60)])
async def test_the_client_may_wait_less_than_the_server_and_never_more(
    asked: float | None, total: float
) -> None:
    channel = Channel()

    await track([ConsentRequest("pending"), ConsentRequest("complete")], channel=channel, timeout=asked)

    assert {total for _, total, _ in channel.progressed} == {total}


@pytest.mark.parametrize("odd", [0, -1, float("inf"), float("nan"), "soon", [5], 1e400])
def test_a_time_limit_that_is_no_positive_number_is_refused(odd: object) -> None:
    with pytest.raises(ValidationError):
        TrackParams.model_validate({"elicitationId": ID, "timeout": odd})


async def test_the_draft_s_error_is_answered_after_the_client_s_own_limit() -> None:
    with pytest.raises(ExceptionGroup) as group:
        await track([ConsentRequest("pending")], timeout=0.01)

    (error,) = group.value.exceptions
    assert isinstance(error, MCPError)
    assert error.code == -32000


async def test_after_the_limit_the_draft_s_error_is_answered() -> None:
    with pytest.raises(ExceptionGroup) as group:
        await track([ConsentRequest("pending")], timeout_seconds=0)

    (error,) = group.value.exceptions
    assert isinstance(error, MCPError)
    assert error.code == -32000
    assert error.message.startswith("Elicitation timed out - user did not complete authorization.")
    assert "'Nextcloud MCP server'" in error.message
    assert "two-factor" in error.message


async def test_a_consent_request_that_is_not_the_callers_is_unknown() -> None:
    with pytest.raises(ExceptionGroup) as group:
        await track([None])

    (error,) = group.value.exceptions
    assert isinstance(error, MCPError)
    assert (error.code, error.message) == (-32602, "No such elicitation")


@pytest.mark.parametrize(
    "odd", [ID.upper(), ID.replace("-", ""), f"{{{ID}}}", f"urn:uuid:{ID}", f" {ID}", "x", ""]
)
async def test_an_id_in_another_spelling_is_unknown_and_never_looked_up(odd: str) -> None:
    async def read_own(ctx: ServerRequestContext[Any, Any], elicitation_id: str) -> ConsentRequest | None:
        raise NotImplementedError

    handler = Track(read_own, Pending(nothing), timeout_seconds=60).methods()[0].handler

    with pytest.raises(MCPError, match="No such elicitation"):
        await handler(request(), TrackParams.model_validate({"elicitationId": odd}))


async def test_a_waiter_reads_its_consent_request_at_the_start_and_when_it_has_ended_and_not_in_between() -> (
    None
):
    """Hundreds wait at once, for minutes; one query for all of them looks for the endings."""
    channel, pending, consent_request, read = (
        Channel(),
        Pending(nothing),
        ConsentRequest("pending"),
        list[str](),
    )

    async def read_own(ctx: ServerRequestContext[Any, Any], elicitation_id: str) -> ConsentRequest:
        read.append(elicitation_id)
        return consent_request

    handler = Track(read_own, pending, timeout_seconds=60, progress_seconds=0.001).methods()[0].handler
    answer: HandlerResult = None
    async with anyio.create_task_group() as group:

        async def end() -> None:
            while len(channel.progressed) < 5:  # noqa: ASYNC110 - told by the channel alone
                await anyio.sleep(0.001)
            consent_request.state = "complete"
            await pending.finish(ID)

        group.start_soon(end)
        with anyio.fail_after(60):
            answer = await handler(
                request(channel=channel), TrackParams.model_validate({"elicitationId": ID})
            )

    assert answer == {"status": "complete"}
    assert read == [ID, ID]
