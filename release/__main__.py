"""`python -m release --repository OWNER/NAME` writes everything; `--notes-only` prints the notes."""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from release.bundle import write_bundle
from release.catalogues import all_in_one, server_json
from release.facts import ROOT, Facts, read
from release.notes import notes
from release.sbom import sbom
from release.unraid import template


def write(facts: Facts, wheel: Path, folder: Path) -> list[Path]:
    """Write what a release has beside the image, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    bundle = write_bundle(facts, wheel, folder)
    sha256 = hashlib.sha256(bundle.read_bytes()).hexdigest()
    texts = {
        "server.json": _json(server_json(facts, bundle_sha256=sha256)),
        "all-in-one.json": _json(all_in_one(facts)),
        "unraid.xml": template(facts),
        facts.sbom: _json(sbom(facts)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [bundle, *(folder / name for name in texts)]


def _json(document: object) -> str:
    return f"{json.dumps(document, indent=2, ensure_ascii=False)}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--repository", default="OWNER/NAME", help="the repository on GitHub that publishes")
    parser.add_argument("--tag", help="fail unless it is that of this version")
    parser.add_argument("--wheel", type=Path, help="the wheel of this version")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="the folder to write into")
    parser.add_argument("--notes-only", action="store_true", help="print the notes of this version")
    given = parser.parse_args(arguments)
    facts = read(given.repository)
    if given.tag not in {None, facts.tag}:
        parser.error(f"The tag {given.tag} is not that of pyproject.toml, {facts.tag}.")
    if given.notes_only:
        try:
            sys.stdout.write(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), facts.version))
        except ValueError as error:
            parser.error(str(error))
        return
    if given.wheel is None:
        parser.error("--wheel is needed: build it with python -m hatchling build -t wheel.")
    for path in write(facts, given.wheel, given.into):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
