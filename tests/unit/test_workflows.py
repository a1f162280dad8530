"""The workflows of the code host, read dry: nothing here runs them."""

import re
from pathlib import Path
from typing import Any, cast

import pytest

from release import facts
from tests.published_schemas import broken_rules_of_workflow, read_yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in read_yaml(path)["jobs"].values() for step in job["steps"]]


def release() -> dict[str, Any]:
    return cast("dict[str, Any]", read_yaml(ROOT / ".github" / "workflows" / "release.yml")["jobs"])


def used(action: str) -> dict[str, Any]:
    """Return what the release's image job tells an action."""
    (found,) = [one for one in release()["image"]["steps"] if one.get("uses", "").startswith(f"{action}@")]
    return cast("dict[str, Any]", found["with"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_is_what_the_published_schema_says(path: Path) -> None:
    assert broken_rules_of_workflow(read_yaml(path)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_of_others_are_named_by_commit_with_their_version_beside_it(path: Path) -> None:
    actions = re.findall(r"uses: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)

    assert actions
    assert [one for one in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_job_may_write_only_what_it_publishes_and_ends_by_itself(path: Path) -> None:
    document = read_yaml(path)
    jobs = document["jobs"]

    assert document["permissions"] == {"contents": "read"}
    writing = {
        (name, scope)
        for name, job in jobs.items()
        for scope, right in job.get("permissions", {}).items()
        if right == "write"
    }
    assert writing <= {("image", "packages"), ("publish", "contents")}
    assert all(job["timeout-minutes"] for job in jobs.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_checkout_leaves_its_token_behind(path: Path) -> None:
    checkouts = [step for step in steps(path) if step.get("uses", "").startswith("actions/checkout@")]

    assert [step for step in checkouts if step["with"].get("persist-credentials") is not False] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_text_that_others_choose_is_put_into_a_command(path: Path) -> None:
    commands = [step["run"] for step in steps(path) if "run" in step]

    assert commands
    assert [command for command in commands if "${{" in command] == []


def test_what_a_workflow_runs_exists() -> None:
    text = "\n".join(step.get("run", "") for path in FILES for step in steps(path))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    targets = re.findall(r"\bmake ([a-z-]+)", text)
    assert {"setup", "release"} <= set(targets)
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
    assert (ROOT / ".ci" / "run").is_file()


def test_the_image_is_made_for_two_architectures_with_its_provenance_and_its_parts() -> None:
    build = used("docker/build-push-action")

    assert build["platforms"].split(",") == ["linux/amd64", "linux/arm64"]
    assert (build["provenance"], build["sbom"]) == ("mode=max", True)


def test_the_image_has_the_name_and_the_label_that_the_registry_looks_for() -> None:
    named = used("docker/metadata-action")
    ours = facts.read("owner/name")

    assert named["images"].replace("${{ github.repository }}", ours.repository) == ours.image
    label = f"io.modelcontextprotocol.server.name={ours.server_name}"
    for texts in (named["labels"], named["annotations"]):
        assert texts.strip().replace("${{ github.repository }}", ours.repository) == label


def test_nothing_is_pushed_before_the_files_have_passed_the_published_schemas() -> None:
    jobs = release()
    commands = "\n".join(step.get("run", "") for step in jobs["files"]["steps"])

    assert jobs["image"]["needs"] == "files"
    assert set(jobs["publish"]["needs"]) == {"files", "image"}
    assert commands.count("check-jsonschema") == 2
    assert "mcpb validate" in commands
