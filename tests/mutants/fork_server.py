"""Runs pytest in forks of a process that has loaded libraries, but nothing of the package.

Loading the libraries takes eight times as long as the tests of most guards. POSIX only, since it forks. Reads the
names of the libraries in one line, then one JSON object per line (`tests`, `seconds`, `temporary`), and answers each
with `code` and `said`.
"""

import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

_POLL_SECONDS = 0.02

#: A removed limit may have been what kept memory small.
_MOST_BYTES = 2 << 30


def main() -> None:
    """Load the libraries, then run requests until the input ends."""
    for name in json.loads(sys.stdin.readline()):
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        code, said = _run(asked["tests"], seconds=asked["seconds"], temporary=asked["temporary"])
        sys.stdout.write(json.dumps({"code": code, "said": said}) + "\n")
        sys.stdout.flush()


def _run(tests: Sequence[str], *, seconds: float, temporary: str) -> tuple[int | None, str]:
    """Run tests until one fails; the code is None after the time limit."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if not child:
            _test(tests, output, temporary)
        code = _wait(child, time.monotonic() + seconds)
        output.seek(0)
        return code, output.read().decode(errors="replace")[-20_000:]


def _test(tests: Sequence[str], output: IO[bytes], temporary: str) -> None:
    code = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        pytest = importlib.import_module("pytest")
        # The libraries are loaded already, so pytest cannot rewrite the asserts of its plugins.
        late = "ignore::pytest.PytestAssertRewriteWarning"
        options = ["-q", "-x", "--tb=short", "-p", "no:cacheprovider", "-W", late, f"--basetemp={temporary}"]
        code = int(pytest.main([*options, *tests]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, deadline: float) -> int | None:
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            # Processes that tests have started and left.
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
