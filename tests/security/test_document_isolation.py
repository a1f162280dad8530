"""A document that takes over its reader finds no file, no connection and no other process."""

import ctypes
import io
import platform
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import anyio
import pytest

from nextcloud_mcp_server.commands.doctor.checks import Verdict, look_here
from nextcloud_mcp_server.documents import isolation, isolation_check, process, worker
from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.settings.environment import load
from tests.document_files import docx, odf, paragraph, pdf, xlsx, zipped

SLIDES = zipped(
    {
        "ppt/presentation.xml": '<p xmlns:r="http://x/relationships"><sldId r:id="a"/></p>',
        "ppt/_rels/presentation.xml.rels": '<R><Relationship Id="a" Target="s.xml"/></R>',
        "ppt/s.xml": '<s xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:p><a:r><a:t>Hello</a:t></a:r></a:p></s>',
    }
)
BOOK = zipped(
    {
        "META-INF/container.xml": '<c><rootfile full-path="b.opf"/></c>',
        "b.opf": '<p><item id="a" href="one.html"/><itemref idref="a"/></p>',
        "one.html": "<p>Hello</p>",
    }
)
DOCUMENTS: dict[Kind, bytes] = {
    "pdf": pdf(["Hello"]),
    "word": docx(paragraph("Hello")),
    "sheet": xlsx('<row><c t="inlineStr"><is><t>Hello</t></is></c></row>'),
    "slides": SLIDES,
    "opendocument": odf("<text:p>Hello</text:p>"),
    "epub": BOOK,
    "html": b"<p>Hello</p>",
    "rtf": rb"{\rtf1 Hello}",
    "mail": b"From: a@example.org\n\nHello",
}


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def unheard(done: int, total: int) -> None:
    del done, total


def ways_left_by_this_kernel() -> list[str]:
    """Say what the kernel under the tests cannot close: files without Landlock, the rest without seccomp."""
    if not sys.platform.startswith("linux") or platform.machine() not in {"x86_64", "aarch64"}:
        return list(isolation_check.ATTEMPTS)
    landlock = ctypes.CDLL(None).syscall(444, None, 0, 1)
    return [] if landlock > 0 else list(isolation_check.ATTEMPTS)[:2]


@pytest.mark.process
def test_a_worker_that_was_taken_over_can_do_nothing_but_write_text() -> None:
    assert isolation_check.open_ways() == ways_left_by_this_kernel()


@pytest.mark.process
def test_without_isolation_each_attempt_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """So each attempt is one that the isolation stops, and not one that fails by itself."""
    without = isolation_check.COMMAND[3].replace("; main()", "; main.__globals__['isolate'] = bool; main()")
    monkeypatch.setattr(isolation_check, "COMMAND", (*isolation_check.COMMAND[:3], without))

    ways = isolation_check.open_ways()

    # As another user than root, the limit on processes alone stops a new one.
    assert set(isolation_check.ATTEMPTS) - set(ways) <= {"start other processes"}


@pytest.mark.process
def test_a_worker_that_does_not_answer_counts_as_one_that_can_do_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolation_check, "COMMAND", (sys.executable, "-c", "raise SystemExit(1)"))

    assert isolation_check.open_ways() == list(isolation_check.ATTEMPTS)


@pytest.mark.process
@pytest.mark.parametrize("kind", DOCUMENTS)
async def test_every_kind_of_document_is_read_by_an_isolated_worker(kind: Kind) -> None:
    with anyio.fail_after(60):
        found = await process.extract(kind, pieces(DOCUMENTS[kind]), report=unheard)

    assert b"Hello" in found.text
    assert found.end == "ok"


@pytest.mark.process
async def test_the_worker_inherits_no_open_file() -> None:
    script = (
        "import os\n"
        "for number in range(3, 64):\n"
        "    try:\n        os.fstat(number)\n        print('inherited', number)\n"
        "    except OSError:\n        pass\n"
        "print('counted')\n"
    )
    command = (sys.executable, "-I", "-c", script)
    async with await anyio.open_file(__file__, "rb") as held:
        found = await process.extract("word", pieces(b""), report=unheard, command=command)
        number = held.wrapped.fileno()

    assert number > 2
    assert found.text == b"counted\n"


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a process with its parent")
def test_a_worker_ends_with_a_server_that_was_killed() -> None:
    """Nobody else would end a worker that was taken over and sleeps: sleeping takes no processor time."""
    sleeping = (
        "from nextcloud_mcp_server.documents.isolation import isolate; isolate(); print(1, flush=True); "
    )
    worker_of = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]).wait()"
    command = [sys.executable, "-c", worker_of, f"{sleeping}import time; time.sleep(60)"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert server.stdout is not None
    with server.stdout as worker_output:
        assert worker_output.readline() == b"1\n"

        server.kill()
        server.wait()
        began = time.monotonic()

        # It ends when the last process that holds it does.
        assert worker_output.read() == b""
    assert time.monotonic() - began < 30


def test_a_small_document_gets_less_processor_time() -> None:
    class Resource:
        RLIMIT_CPU = 1

        def __init__(self) -> None:
            self.given: list[tuple[int, int]] = []

        def setrlimit(self, resource: int, limits: tuple[int, int], /) -> None:
            assert resource == self.RLIMIT_CPU
            self.given.append(limits)

    resource = Resource()

    worker.limit_time(resource, worker.SMALL_BYTES)
    worker.limit_time(resource, worker.SMALL_BYTES + 1)

    assert resource.given == [(worker.SMALL_CPU_SECONDS, worker.SMALL_CPU_SECONDS + 1)]
    assert worker.SMALL_CPU_SECONDS < process.SMALL_DEADLINE_SECONDS <= 10


@pytest.mark.process
async def test_a_small_document_that_never_ends_is_ended_after_ten_seconds_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "SMALL_DEADLINE_SECONDS", 0.5)
    monkeypatch.setattr(process, "DEADLINE_SECONDS", 600.0)

    with anyio.fail_after(60):
        found = await process.extract(
            "word",
            pieces(b"x" * 60_000),
            report=unheard,
            command=(sys.executable, "-I", "-c", "import time; time.sleep(600)"),
        )

    assert found.end == "slow"


@pytest.mark.parametrize(
    ("ways", "verdict"), [([], Verdict.OK), (["open network connections"], Verdict.WARN)]
)
def test_doctor_says_what_the_reader_could_do(
    ways: list[str], verdict: Verdict, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setattr(isolation_check, "open_ways", lambda: ways)

    (finding,) = [each for each in look_here(load()) if each.topic == "documents"]

    assert finding.verdict is verdict
    assert all(way in finding.text for way in ways)


class Libc:
    """A kernel that has none of it, or another version of it; it remembers what was asked."""

    def __init__(self, *, privileges: int = 0, landlock: int = 0, ruleset: int = -1) -> None:
        self.asked: list[tuple[object, ...]] = []
        self._privileges = privileges
        self._landlock = landlock
        self._ruleset = ruleset

    def prctl(self, *arguments: object) -> int:
        self.asked.append(("prctl", *arguments))
        return self._privileges

    def syscall(self, *arguments: object) -> int:
        self.asked.append(("syscall", *arguments))
        if arguments[0] == 444:
            return self._landlock if arguments[1] is None else self._ruleset
        return 0


@pytest.mark.parametrize(
    ("libc", "machine", "asked"),
    [
        (Libc(privileges=-1), "x86_64", ["prctl"]),
        (Libc(), "riscv64", ["prctl", "prctl", "prctl", "syscall"]),
        (Libc(landlock=3), "riscv64", ["prctl", "prctl", "prctl", "syscall", "syscall"]),
        (Libc(), "aarch64", ["prctl", "prctl", "prctl", "syscall", "prctl"]),
    ],
)
def test_a_kernel_without_a_guard_gets_the_others(
    libc: Libc, machine: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernel(name: None, *, use_errno: bool) -> Libc:
        assert (name, use_errno) == (None, True)
        return libc

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(ctypes, "CDLL", kernel)

    isolation.isolate()

    assert [name for name, *_ in libc.asked] == asked


def test_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    # Looking for the C library would fail.
    monkeypatch.delattr(ctypes, "CDLL")

    isolation.isolate()


def test_a_document_is_read_before_the_worker_is_isolated_and_looked_into_after() -> None:
    """Nothing can be limited once system calls are refused, and nothing may be parsed before."""
    source = io.BytesIO(b"<p>Hello</p>")
    told, target = io.StringIO(), io.BytesIO()

    worker.work("html", source, target, told)

    assert target.getvalue() == b"Hello\n"
