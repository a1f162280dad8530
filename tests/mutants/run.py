"""Takes one guard at a time out of a copy of the tree, and runs the tests that must notice."""

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Literal

from tests.mutants.guards import PACKAGE, ROOT, Guard

#: pytest's exit codes: all passed, some failed. Every other one says that the tests did not run.
_PASSED, _FAILED = 0, 1
_FIRST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+?::\w+)", re.MULTILINE)

Ending = Literal["killed", "timed out", "survived", "broken"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the tests took a tree without the guard; `by` is the first test that noticed, else what was said."""

    guard: Guard
    ending: Ending
    by: str = ""

    @property
    def noticed(self) -> bool:
        """Whether a test noticed."""
        return self.ending in ("killed", "timed out")

    @property
    def accepted(self) -> bool:
        """Whether it is as the row says."""
        return self.noticed or (self.ending == "survived" and self.guard.survives is not None)


class TestsFail(Exception):
    """The named tests fail with all guards in place, so they would prove nothing."""

    __test__ = False


def copy_tree(folder: Path, root: Path = ROOT) -> Path:
    """Copy what git knows, and what it does not ignore, as it is now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - as the developer has it
        cwd=root,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    return folder


def check_baseline(tree: Path, guards: Iterable[Guard], *, seconds: float) -> None:
    """Run all named tests once with every guard in place.

    Raises:
        TestsFail: Some fail, or it is not the copy that they test.
    """
    origin = f"import {PACKAGE}; print({PACKAGE}.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", origin], cwd=tree, env=_environment(tree), check=True, capture_output=True
    )
    if not found.stdout.decode().startswith(str(tree)):
        raise TestsFail(f"the tests would run on {found.stdout.decode().strip()} instead of the copy")
    tests = sorted({test for guard in guards for test in guard.tests})
    code, said = _pytest(tree, tests, seconds=seconds)
    if code != _PASSED:
        raise TestsFail(said[-4_000:])


def run_all(
    guards: Sequence[Guard], trees: Sequence[Path], *, seconds: float, on_outcome: Callable[[Outcome], None]
) -> list[Outcome]:
    """Try every guard, one in each tree at a time."""
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for tree in trees:
        free.put(tree)

    def one(guard: Guard) -> Outcome:
        tree = free.get()
        try:
            outcome = try_without(guard, tree, seconds=seconds)
        finally:
            free.put(tree)
        on_outcome(outcome)
        return outcome

    with ThreadPoolExecutor(len(trees)) as workers:
        return list(workers.map(one, guards))


def try_without(guard: Guard, tree: Path, *, seconds: float) -> Outcome:
    """Take a guard out, run its tests, and put it back."""
    file = tree / guard.file
    text, state = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(guard.apply(text), encoding="utf-8")
    try:
        code, said = _pytest(tree, guard.tests, seconds=seconds)
    finally:
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
        # The next change of this file may be as long and come within the same second.
        Path(cache_from_source(str(file))).unlink(missing_ok=True)
    if code is None:
        return Outcome(guard, "timed out")
    if code == _PASSED:
        return Outcome(guard, "survived")
    first = _FIRST_FAILURE.search(said)
    if code == _FAILED and first is not None:
        return Outcome(guard, "killed", first["test"])
    return Outcome(guard, "broken", said[-2_000:])


def _pytest(tree: Path, tests: Sequence[str], *, seconds: float) -> tuple[int | None, str]:
    """Run tests until one fails; the code is None when they take too long."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=line", "-p", "no:cacheprovider", *tests]
    with subprocess.Popen(
        command,
        cwd=tree,
        env=_environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, ""
    return process.returncode, said.decode(errors="replace")


def _environment(tree: Path) -> dict[str, str]:
    # Servers that tests start as processes of their own must come from the copy, too.
    return {**os.environ, "PYTHONPATH": str(tree), "HYPOTHESIS_STORAGE_DIRECTORY": str(tree / ".hypothesis")}
