"""What is built from a checkout: the wheel, the image, and the locks of what they install."""

import re
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest
from alembic.config import Config
from hatchling.builders.wheel import WheelBuilder

from nextcloud_mcp_server.storage.migration import migrations_folder

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^(?P<pin>[a-z0-9][^\\\n]*?) \\\n(?P<hashes>(?: {4}--hash=\S+(?: \\)?\n)+)", re.MULTILINE)


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def locked(name: str) -> Mapping[str, set[str]]:
    """Read a lock: each pin, with its condition, and the hashes of its files."""
    return {
        entry["pin"]: set(re.findall(r"sha256:\w{64}", entry["hashes"]))
        for entry in ENTRY.finditer(text_of(name))
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """Build the wheel, and list its files."""
    built = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")))
    with ZipFile(next(iter(built))) as files:
        return frozenset(files.namelist())


def test_the_wheel_says_that_it_has_types(wheel: frozenset[str]) -> None:
    assert "nextcloud_mcp_server/py.typed" in wheel


def test_the_wheel_has_every_migration_where_an_installed_package_looks_for_them(
    wheel: frozenset[str],
) -> None:
    folder = migrations_folder()

    migrations = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}

    assert len(migrations) > 8
    assert {f"nextcloud_mcp_server/alembic/{name}" for name in migrations} <= wheel


def test_the_command_of_alembic_runs_the_migrations_that_the_server_runs() -> None:
    configured = Config(str(ROOT / "alembic.ini")).get_main_option("script_location")

    assert configured is not None
    assert Path(configured) == migrations_folder()


@pytest.mark.parametrize("name", ["requirements-server.lock", "requirements-build.lock"])
def test_the_small_locks_have_the_versions_and_files_of_the_whole_one(name: str) -> None:
    pins, whole = locked(name), locked("requirements.lock")

    assert len(pins) == len(re.findall(r"^[a-z0-9]", text_of(name), re.MULTILINE)) > 0
    assert {
        pin: hashes for pin, hashes in pins.items() if not hashes or not hashes <= whole.get(pin, set())
    } == {}


@pytest.mark.parametrize("name", ["Dockerfile", ".ci/wheel"])
def test_every_installation_checks_hashes_or_downloads_nothing(name: str) -> None:
    commands = re.findall(r'(?:bin/pip install|"\$\{install\[@\]\}") .*', text_of(name))

    assert commands
    assert [line for line in commands if "--require-hashes" not in line and "--no-index" not in line] == []


def test_what_the_image_is_built_from_is_not_ignored() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text_of("Dockerfile"), re.MULTILINE)

    assert {name for line in copied for name in line.split()} == {
        line.removeprefix("!") for line in text_of(".dockerignore").splitlines() if line.startswith("!")
    }


def test_the_hooks_before_a_commit_run_targets_of_make_and_download_nothing() -> None:
    config, makefile = text_of(".pre-commit-config.yaml"), text_of("Makefile")

    sources = re.findall(r"^ +- repo: (\S+)$", config, re.MULTILINE)
    languages = re.findall(r"^ +language: (\S+)$", config, re.MULTILINE)
    targets = re.findall(r"^ +entry: make (\S+)$", config, re.MULTILINE)

    assert set(sources) == {"local"}
    assert set(languages) == {"system"}
    assert len(targets) == len(languages) > 1
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
