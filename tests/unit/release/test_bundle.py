"""The files of a release, as `python -m release` writes them."""

import hashlib
import json
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from release import facts
from release.__main__ import main
from release.bundle import pins_of, write_bundle

FACTS = facts.read("Example/nextcloud-mcp-server")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(
        next(iter(WheelBuilder(str(facts.ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")))))
    )


def test_a_bundle_has_what_its_manifest_starts_and_no_package_of_others(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(write_bundle(FACTS, wheel, tmp_path)) as bundle:
        names = bundle.namelist()
        manifest = json.loads(bundle.read("manifest.json"))
        project = tomllib.loads(bundle.read("pyproject.toml").decode())
        start = bundle.read(manifest["server"]["entry_point"]).decode()

    assert sorted(names) == sorted(["LICENSE", "manifest.json", "pyproject.toml", "server.py", wheel.name])
    assert project["tool"]["uv"]["sources"] == {FACTS.name: {"path": wheel.name}}
    assert project["project"]["version"] == manifest["version"] == FACTS.version
    assert "nextcloud_mcp_server.cli" in start


def test_a_bundle_takes_the_versions_that_the_image_has(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(write_bundle(FACTS, wheel, tmp_path)) as bundle:
        project = tomllib.loads(bundle.read("pyproject.toml").decode())

    pins = project["tool"]["uv"]["constraint-dependencies"]
    assert pins == pins_of("requirements-server.lock")
    assert len(pins) > 30
    assert all("==" in pin for pin in pins)


def test_a_bundle_is_the_same_file_each_time(wheel: Path, tmp_path: Path) -> None:
    first = write_bundle(FACTS, wheel, tmp_path).read_bytes()

    assert write_bundle(FACTS, wheel, tmp_path).read_bytes() == first


def test_the_command_writes_every_file_and_names_the_bundle_by_its_hash(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(
        ["--repository", FACTS.repository, "--wheel", str(wheel), "--into", str(tmp_path), "--tag", FACTS.tag]
    )

    written = capsys.readouterr().out.split()
    entry = json.loads((tmp_path / "server.json").read_text(encoding="utf-8"))
    sha256 = hashlib.sha256((tmp_path / FACTS.bundle).read_bytes()).hexdigest()
    assert {Path(path).name for path in written} == {
        FACTS.bundle,
        "server.json",
        "all-in-one.json",
        "unraid.xml",
        FACTS.sbom,
    }
    assert {path.name for path in tmp_path.iterdir()} == {Path(path).name for path in written}
    assert sha256 in {package.get("fileSha256") for package in entry["packages"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tag", "v9.9.9", "--notes-only"], "is not that of pyproject.toml"),
        ([], "--wheel is needed"),
    ],
)
def test_what_is_no_release_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert message in capsys.readouterr().err
