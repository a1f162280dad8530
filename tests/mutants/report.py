"""Writes the result of each guard to a page."""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.guards import ROOT, Guard
from tests.mutants.run import Outcome

PAGE = ROOT / "docs" / "mutants.md"
PART_KILLED = 0.95
_ROW = re.compile(r"^\| (?P<guard>.+?) \| .* \| (?P<result>[^|]+) \|$", re.MULTILINE)
_UNTRIED = "not tried yet"
_HEAD = """# Guards, and the tests that notice when one is gone

`make mutants` takes each guard out of a copy of the tree, one at a time, and runs the tests that are named for it. A
guard is *killed* when one of them fails. The first column says what could happen without it. The rows, with the code
and the changed code, are in `tests/mutants/guards`; a unit test holds that each still fits the code.
`make mutants ARGS="--only auth/jwt"` tries those whose sentence or file fits, `--untried` goes on
where a run was stopped. This page is written by it.

"""


def sentence(outcome: Outcome) -> str:
    """Return the result of a guard in a few words."""
    if outcome.ending == "timed out" and outcome.guard.endless:
        return "killed (time limit)"
    if outcome.ending == "survived" and outcome.guard.survives is not None:
        return f"survives: {outcome.guard.survives}"
    return outcome.ending


def read_results(text: str) -> dict[str, str]:
    """Parse the result of each guard on a page."""
    return {
        row["guard"]: row["result"] for row in _ROW.finditer(text) if row["guard"] not in ("Guard", "---")
    }


def page(guards: Sequence[Guard], results: dict[str, str]) -> str:
    """Return the page; guards without a result are marked so."""
    known = {cell(guard.prevents): results.get(cell(guard.prevents), _UNTRIED) for guard in guards}
    killed = sum(result.startswith("killed") for result in known.values())
    tried = sum(result != _UNTRIED for result in known.values())
    parts = [
        _HEAD,
        f"{len(guards)} guards, {tried} tried, {killed} of these killed ({killed / max(1, tried):.1%}).\n",
    ]
    for package in sorted({guard.path.partition("/")[0] for guard in guards}):
        parts.append(f"\n## {package}\n\n| Guard | Code | Tests | Result |\n| --- | --- | --- | --- |\n")
        parts += [
            _row(guard, known[cell(guard.prevents)])
            for guard in guards
            if guard.path.startswith(f"{package}/")
        ]
    return "".join(parts)


def untried(guards: Sequence[Guard], file: Path = PAGE) -> list[Guard]:
    """List the guards without a result on the page, so that a stopped run can continue."""
    known = read_results(file.read_text(encoding="utf-8"))
    return [guard for guard in guards if known.get(cell(guard.prevents), _UNTRIED) == _UNTRIED]


def rate(outcomes: Sequence[Outcome]) -> float:
    """Return the share of guards that tests noticed."""
    return sum(outcome.noticed for outcome in outcomes) / max(1, len(outcomes))


def write(guards: Sequence[Guard], outcomes: Sequence[Outcome], file: Path = PAGE) -> None:
    """Write the page; guards without a new result keep the earlier one."""
    before = read_results(file.read_text(encoding="utf-8")) if file.is_file() else {}
    now = {cell(outcome.guard.prevents): cell(sentence(outcome)) for outcome in outcomes}
    file.write_text(page(guards, {**before, **now}), encoding="utf-8")


def cell(text: str) -> str:
    """Escape a text for a table cell."""
    return " ".join(text.replace("|", "\\|").split())


def _row(guard: Guard, result: str) -> str:
    where = f"`{guard.path}`" + (f" `{guard.function()}`" if guard.function() else "")
    tests = "<br>".join(f"`{test.removeprefix('tests/').replace('::', ' ')}`" for test in guard.tests)
    return f"| {cell(guard.prevents)} | {where} | {tests} | {result} |\n"
