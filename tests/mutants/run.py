"""Removes one guard at a time from a copy of the tree, and runs the tests that must fail."""

import json
import os
import queue
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Literal, Self

from tests.mutants.guards import PACKAGE, ROOT, Guard

#: pytest's exit codes: all passed, some failed. Any other code means that the tests did not run.
_PASSED, _FAILED = 0, 1
_FIRST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+?::\w+)", re.MULTILINE)
_SERVER = "tests.mutants.fork_server"
_OURS = (PACKAGE, "tests", "__main__", "__mp_main__")
#: Collecting loads what the tests load.
_LIST = """
import contextlib, json, os, sys, pytest
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]])
print(json.dumps(list(sys.modules)))
"""

Ending = Literal["killed", "timed out", "survived", "broken"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the tests without a guard; `by` is the first test that failed, else the output."""

    guard: Guard
    ending: Ending
    by: str = ""

    @property
    def noticed(self) -> bool:
        """Whether a test failed, or did not end where that is the proof."""
        return self.ending == "killed" or (self.ending == "timed out" and self.guard.endless)

    @property
    def accepted(self) -> bool:
        """Whether the result is as the row expects."""
        return self.noticed or (self.ending == "survived" and self.guard.survives is not None)


class TestsFail(Exception):
    """The named tests fail with all guards in place, so they would prove nothing."""

    __test__ = False


class Tree:
    """A copy of the tree, with a process that has loaded the libraries and runs its tests."""

    def __init__(self, folder: Path, libraries: Sequence[str], root: Path = ROOT) -> None:
        self.folder = copy_tree(folder, root)
        # Servers that tests start as processes must come from the copy, too. Compiled modules are kept, or each fork
        # would compile the whole package.
        unset = {"PYTHONDONTWRITEBYTECODE"}
        kept = {name: value for name, value in os.environ.items() if name not in unset}
        self._environment = {
            **kept,
            "PYTHONPATH": str(folder),
            # The test database in PostgreSQL is named after it: each copy needs its own.
            "PYTEST_XDIST_WORKER": f"copy_{folder.name}",
        }
        self._server = subprocess.Popen(
            [sys.executable, "-m", _SERVER],
            cwd=folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._send(libraries)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._server.kill()
        self._server.communicate()

    def pytest(self, tests: Sequence[str], *, seconds: float) -> tuple[int | None, str]:
        """Run tests until one fails; the code is None after the time limit."""
        asked = {"tests": tests, "seconds": seconds, "temporary": f"{self.folder}-temporary"}
        self._send(asked)
        answer = json.loads(self._server.stdout.readline() if self._server.stdout else "")
        return answer["code"], answer["said"]

    def _send(self, message: object) -> None:
        if self._server.stdin is not None:
            self._server.stdin.write(json.dumps(message) + "\n")
            self._server.stdin.flush()

    def check_baseline(self, guards: Iterable[Guard], *, seconds: float) -> None:
        """Run all named tests once with every guard in place.

        Raises:
          TestsFail: Some fail, or they do not test the copy.
        """
        command = [sys.executable, "-c", f"import {PACKAGE}; print({PACKAGE}.__file__)"]
        found = subprocess.run(
            command, cwd=self.folder, env=self._environment, check=True, capture_output=True, text=True
        )
        if not found.stdout.startswith(str(self.folder)):
            raise TestsFail(f"the tests would run on {found.stdout.strip()} instead of the copy")
        code, said = self.pytest(sorted({test for guard in guards for test in guard.tests}), seconds=seconds)
        if code != _PASSED:
            raise TestsFail(said[-4_000:])

    def try_without(self, guard: Guard, *, seconds: float) -> Outcome:
        """Remove a guard, run its tests, and restore it."""
        file = self.folder / guard.file
        text, state = file.read_text(encoding="utf-8"), file.stat()
        file.write_text(guard.apply(text), encoding="utf-8")
        code: int | None = _PASSED
        said = ""
        try:
            for test in guard.tests:
                code, said = self.pytest([test], seconds=seconds)
                if code != _PASSED:
                    break
        finally:
            file.write_text(text, encoding="utf-8")
            os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
            # The next version of this file may have the same size and be written within the same second.
            Path(cache_from_source(str(file))).unlink(missing_ok=True)
        if code is None:
            return Outcome(guard, "timed out")
        if code == _PASSED:
            return Outcome(guard, "survived")
        first = _FIRST_FAILURE.search(said)
        if code == _FAILED and first is not None:
            return Outcome(guard, "killed", first["test"])
        return Outcome(guard, "broken", said[-2_000:])


def libraries_of(guards: Sequence[Guard], root: Path = ROOT) -> list[str]:
    """List the third-party modules that the tests of the guards import."""
    files = sorted({test.partition("::")[0] for guard in guards for test in guard.tests})
    command = [sys.executable, "-c", _LIST, *files]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    names: list[str] = json.loads(listed.stdout)
    return [name for name in names if name.partition(".")[0] not in _OURS]


def copy_tree(folder: Path, root: Path = ROOT) -> Path:
    """Copy the current files that git tracks or does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    return folder


def run_all(
    guards: Sequence[Guard],
    folder: Path,
    *,
    jobs: int,
    seconds: float,
    baseline: bool,
    on_outcome: Callable[[Outcome], None],
) -> list[Outcome]:
    """Test without every guard, in `jobs` copies of the tree at a time.

    Raises:
      TestsFail: See `Tree.check_baseline`.
    """
    free: queue.SimpleQueue[Tree] = queue.SimpleQueue()

    def one(guard: Guard) -> Outcome:
        tree = free.get()
        try:
            outcome = tree.try_without(guard, seconds=seconds)
        finally:
            free.put(tree)
        on_outcome(outcome)
        return outcome

    libraries = libraries_of(guards)
    with ExitStack() as open_trees:
        trees = [open_trees.enter_context(Tree(folder / str(number), libraries)) for number in range(jobs)]
        if baseline:
            trees[0].check_baseline(guards, seconds=max(seconds, seconds * len(guards) / 10))
        for tree in trees:
            free.put(tree)
        with ThreadPoolExecutor(jobs) as workers:
            return list(workers.map(one, guards))
