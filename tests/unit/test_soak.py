"""The soak tells which promises were kept: it must notice each one that is broken."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE

import anyio
import pytest
from anyio.abc import Process
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.load import process
from tests.load.servers import stop
from tests.load.soak.ledger import Ledger
from tests.load.soak.rows import beyond
from tests.load.soak.run import Plan, name_of, soak
from tests.load.soak.watch import Watch

#: A process that keeps what it is told: so many MB and open files for each line.
GROWING = """
import sys
kept = []
for line in sys.stdin:
    megabytes, files = map(int, line.split())
    kept += [bytes(range(256)) * 4096 for _ in range(megabytes)]
    kept += [open("/dev/null") for _ in range(files)]
    print(flush=True)
"""

linux = pytest.mark.skipif(not process.is_readable(), reason="needs /proc")


class BrokenNextcloud:
    """A Nextcloud that gives one user the notes of another one, and then refuses every access it gave."""

    def __init__(self) -> None:
        self.refuses = False

    def before(self, nextcloud: ASGIApp) -> ASGIApp:
        mine, other = name_of(0).encode(), name_of(1).encode()

        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            async def exchanged(message: Message) -> None:
                if "/apps/notes/" in scope["path"] and "body" in message:
                    message = {**message, "body": message["body"].replace(mine, other)}
                await send(message)

            if self.refuses:
                status = 400 if scope["path"].endswith("/token") else 401
                await JSONResponse({"error": "invalid_request"}, status)(scope, receive, send)
            else:
                await nextcloud(scope, receive, exchanged)

        return served

    def both_noticed(self, ledger: Ledger) -> bool:
        """Go on from the first fault to the second when the first was noticed."""
        self.refuses = bool(ledger.crossed)
        return bool(ledger.crossed and ledger.spurious)


@linux
@pytest.mark.process
async def test_an_answer_of_another_user_and_a_needless_question_break_the_soak(tmp_path: Path) -> None:
    nextcloud = BrokenNextcloud()
    plan = Plan(
        people=2,
        seconds=300,
        processes=1,
        pause=0.02,
        fault_seconds=1000,
        front=nextcloud.before,
        until=nextcloud.both_noticed,
    )

    outcome = await soak(plan, tmp_path)

    assert outcome.exit_code == 1
    assert {"answers with another user's data", "asked although consent stands"} <= set(outcome.broken)
    assert any(name_of(1) in text for text in outcome.ledger.crossed)


@asynccontextmanager
async def growing() -> AsyncGenerator[Process]:
    started = await anyio.open_process([sys.executable, "-c", GROWING], stdin=PIPE, stdout=PIPE)
    try:
        yield started
    finally:
        await stop(started)


async def grown(megabytes: int, files: int) -> list[str]:
    async with growing() as started:
        assert started.stdin is not None
        assert started.stdout is not None
        watch = Watch([started.pid])
        for turn in range(20):
            await started.stdin.send(f"{megabytes} {files}\n".encode())
            await started.stdout.receive()
            watch.look(float(turn))
        return watch.grown()


@linux
@pytest.mark.process
async def test_a_process_that_keeps_memory_and_files_is_noticed() -> None:
    [memory, descriptors] = await grown(2, 2)

    assert "MB" in memory
    assert "descriptors" in descriptors


@linux
@pytest.mark.process
async def test_a_process_that_keeps_nothing_is_not_accused() -> None:
    assert await grown(0, 0) == []


def test_an_error_is_explained_by_a_fault_that_was_on_during_the_call_only() -> None:
    now = 100.0
    ledger = Ledger(lambda: now)
    ledger.fault("503", 3.0)
    ledger.error("Nextcloud is in maintenance mode.", since=99.0)
    now = 110.0
    ledger.error("Nextcloud is in maintenance mode.", since=109.0)

    assert ledger.excused.total() == 1
    assert ledger.errors == ["Nextcloud is in maintenance mode."]


def test_an_internal_error_is_explained_by_no_fault() -> None:
    ledger = Ledger(lambda: 100.0)
    ledger.fault("503", 3.0)
    ledger.error("{'code': -32603, 'message': 'Internal error'}", since=99.0)

    assert len(ledger.errors) == 1
    assert not ledger.excused


def test_an_answer_must_name_its_user_and_nobody_else() -> None:
    ledger = Ledger(lambda: 0.0)
    ledger.answer("person00001", "read", {"text": "Text 1 of person00001"}, own=True)
    ledger.answer("person00001", "read", {"text": "nothing"}, own=True)
    ledger.answer("person00001", "list", {"text": "nothing"}, own=False)
    ledger.answer("person00001", "list", {"text": "of Person00002 and person00001"}, own=False)

    assert len(ledger.crossed) == 2


def test_rows_that_calls_consents_and_sessions_do_not_explain_are_named() -> None:
    rows = {"audit": 210, "elicitations": 21, "pending_grants": 90, "ended_sessions": 60}

    [told] = beyond(rows, people=10, consents=2, calls=100, sessions=40)

    assert told.startswith("pending_grants has 90 rows")
