"""The table of guards fits the code, its page names each of them, and the security model names each attack's file."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.guards import ROOT, Guard, chosen, read_guards
from tests.mutants.report import PAGE, cell, page, read_results, sentence, untried
from tests.mutants.run import Outcome

GUARDS = read_guards()
PACKAGES = {"auth", "protocol", "storage", "web"}
#: Modules of these packages that decide nothing: records, interfaces, words, drivers.
WITHOUT_GUARDS = {
    "auth/clock_watch.py",
    "auth/builtin/metadata.py", "auth/requester.py", "auth/consent/sign_in_flow.py", "auth/consent/views.py",
    "protocol/icons.py", "protocol/stdio.py",
    "storage/notify.py", "storage/engine.py", "storage/failure.py", "storage/models.py",
    "storage/oauth_records.py", "storage/overview.py", "storage/records.py", "storage/sqlite_driver.py",
    "storage/task_records.py",
    "storage/tokens.py", "web/messages.py", "web/po.py", "web/relative_time.py",
    "web/problem.py", "web/server_card.py", "web/stopping.py", "auth/consent/policy.py",
}  # fmt: skip


def test_every_guard_is_in_one_place_of_the_code_and_names_tests_that_are_there() -> None:
    faults = {guard.prevents: found for guard in GUARDS if (found := guard.faults())}

    assert faults == {}


def test_no_two_guards_have_the_same_sentence() -> None:
    assert [said for said, times in Counter(guard.prevents for guard in GUARDS).items() if times > 1] == []


def test_every_module_that_decides_something_has_a_guard() -> None:
    package = ROOT / "nextcloud_mcp_server"
    modules = {
        path.relative_to(package).as_posix()
        for name in PACKAGES
        for path in (package / name).rglob("*.py")
        if path.name != "__init__.py"
    }

    assert modules - {guard.path for guard in GUARDS} == WITHOUT_GUARDS


def test_the_page_names_every_guard_and_no_other_and_none_that_went_unnoticed() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text == page(GUARDS, read_results(text))
    assert [said for said, result in read_results(text).items() if result in ("survived", "broken")] == []


def test_a_run_that_was_stopped_goes_on_with_the_guards_that_have_no_result(tmp_path: Path) -> None:
    first, second, *_ = GUARDS
    file = tmp_path / "mutants.md"
    file.write_text(page([first, second], {cell(first.prevents): "killed"}), encoding="utf-8")

    assert untried([first, second], file) == [second]


def test_a_guard_that_has_moved_is_told(tmp_path: Path) -> None:
    module = tmp_path / "nextcloud_mcp_server" / "auth" / "door.py"
    module.parent.mkdir(parents=True)
    module.write_text("def enter(who: str) -> bool:\n    return who == 'alice'\n", encoding="utf-8")
    guard = Guard(
        "Bob at the door", "auth/door.py", "who == 'alice'", "True", ("tests/test_door.py::test_bob",)
    )

    before = guard.faults(tmp_path)
    module.write_text("def enter(who: str) -> bool:\n    return who in ('alice',)\n", encoding="utf-8")
    after = guard.faults(tmp_path)

    assert before == ["there is no tests/test_door.py::test_bob"]
    assert after == [
        "the code is in nextcloud_mcp_server/auth/door.py 0 times",
        "there is no tests/test_door.py::test_bob",
    ]


def test_a_guard_without_which_the_code_cannot_be_read_is_told(tmp_path: Path) -> None:
    module = tmp_path / "nextcloud_mcp_server" / "door.py"
    module.parent.mkdir(parents=True)
    module.write_text("if locked:\n    raise OSError\n", encoding="utf-8")

    faults = Guard("Anybody", "door.py", "if locked:", "", ("pyproject.toml",)).faults(tmp_path)

    assert "the mutated code is no Python" in faults


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome(GUARDS[0], "killed", "test"), "killed"),
        (Outcome(GUARDS[0], "timed out"), "timed out"),
        (Outcome(replace(GUARDS[0], endless=True), "timed out"), "killed (time limit)"),
        (Outcome(GUARDS[0], "survived"), "survived"),
        (Outcome(GUARDS[0], "broken", "no such test"), "broken"),
    ],
)
def test_only_a_guard_that_a_test_misses_counts_as_killed(outcome: Outcome, said: str) -> None:
    assert sentence(outcome) == said
    assert outcome.accepted == said.startswith("killed")


def test_a_survivor_is_accepted_with_its_reason() -> None:
    guard = Guard("Bob", "auth/door.py", "a", "b", (), survives="the wall behind it holds")

    assert Outcome(guard, "survived").accepted
    assert sentence(Outcome(guard, "survived")) == "survives: the wall behind it holds"


def test_guards_are_chosen_by_file_or_sentence() -> None:
    by_file, by_sentence = chosen(GUARDS, "^protocol/track"), chosen(GUARDS, "MIX-UP")

    assert {guard.path for guard in by_file} == {"protocol/track.py"}
    assert all("mix-up" in guard.prevents for guard in by_sentence)
    assert by_sentence


def test_the_security_model_says_of_each_file_of_attacks_what_it_proves() -> None:
    text = (ROOT / "docs" / "security-model.md").read_text(encoding="utf-8")
    files = {path.stem for path in (ROOT / "tests" / "security").glob("test_*.py")}

    assert {name for name in files if f"| `{name}` | " not in text} == set()
    assert {line.split("`")[1] for line in text.splitlines() if line.startswith("| `test_")} == files


def test_a_pipe_stays_in_its_cell() -> None:
    assert cell("a | b\n c") == "a \\| b c"
